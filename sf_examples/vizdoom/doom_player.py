"""What a player of a scenario sees of a game and can do in it, alone or in a match."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import vizdoom
from gymnasium import spaces
from numpy.typing import NDArray

from sample_profiler.envs.images.resize import NearestResize
from sf_examples.vizdoom.doom_game import configure_game
from sf_examples.vizdoom.doom_options import VizdoomOptions
from sf_examples.vizdoom.doom_scenarios import DoomScenario, find_scenario_file

__all__ = ["DoomPlayer", "Observation"]

Observation = NDArray[np.uint8]


class DoomPlayer:
    """Reads frames and holds buttons.

    Attributes:
        observation_space: RGB images, uint8, [3, res_h, res_w].
        action_space: Of the scenario: Discrete, or a Tuple of Discrete.
    """

    def __init__(self, scenario: DoomScenario, options: VizdoomOptions, *, is_visible: bool) -> None:
        """Read the scenario file; start nothing.

        Args:
            scenario: What to play.
            options: Size of the observations, and perhaps another scenario file.
            is_visible: Show games in windows.

        Raises:
            EnvError: There is no such scenario file, or it lacks buttons.
        """
        self._scenario, self._options, self._is_visible = scenario, options, is_visible
        self._file = find_scenario_file(options.doom_scenario or scenario.file)
        self.make_game()  # a scenario file that cannot be played is known now, not at the first reset
        self._rows = scenario.rows()
        self._resize = _make_resize(options)
        self.observation_space = spaces.Box(0, 255, (3, options.res_h, options.res_w), np.uint8)
        choices = [spaces.Discrete(len(rows)) for rows in self._rows]
        self.action_space = choices[0] if len(choices) == 1 else spaces.Tuple(choices)

    def make_game(self) -> vizdoom.DoomGame:
        """Return a game that is ready to be started.

        Raises:
            EnvError: The scenario file cannot be played with the scenario's buttons.
        """
        options = self._options
        return configure_game(
            self._scenario,
            self._file,
            is_wide=options.wide_aspect_ratio,
            is_replaced=options.doom_scenario is not None,
            is_visible=self._is_visible,
        )

    def held(self, action: Any) -> list[float]:
        """Return one number for each button of the game.

        Args:
            action: Of the action space; one index, or one for each part.
        """
        if len(self._rows) == 1:
            return self._rows[0][action]
        rows = [rows[choice] for rows, choice in zip(self._rows, action, strict=True)]
        return [sum(amounts) for amounts in zip(*rows, strict=True)]

    def frame(self, game: vizdoom.DoomGame) -> Observation | None:
        """Return what a game shows, a new array [3, height, width]; ``None`` where its episode has ended."""
        # Typed as always there, but a game whose episode ended in this instant has nothing to show.
        state = cast("vizdoom.GameState | None", game.get_state())
        return None if state is None else state.screen_buffer

    def observe(self, frame: Observation) -> Observation:
        """Return the observation [3, res_h, res_w] that a frame [3, height, width] makes."""
        return frame if self._resize is None else self._resize(frame)


def _make_resize(options: VizdoomOptions) -> NearestResize | None:
    """Return what makes observations of frames, or ``None`` if they are of that size already."""
    height, width = (144, 256) if options.wide_aspect_ratio else (120, 160)
    if (height, width) == (options.res_h, options.res_w):
        return None
    return NearestResize((3, height, width), options.res_h, options.res_w)
