"""Demos of Doom: what a player did in each tic, which ViZDoom replays at any resolution (`--record_to`)."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from sample_profiler.config import Config
from sample_profiler.config.parts import EvaluationOptions
from sample_profiler.errors import EnvError
from sf_examples.vizdoom.doom_options import VizdoomOptions

__all__ = ["DemoFolder", "demo_folder_of", "find_demo_folder"]

_MOST_LETTERS = 100  # of a demo's path, beyond which the game takes another one


class DemoFolder:
    """Names the demos of one environment; the folder is made for the first one.

    Args:
        folder: Where they are to be.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._num_demos = 0

    def next_demo(self) -> str:
        """Return the path of the next episode's demo.

        Raises:
            EnvError: The folder cannot be made, or has a path that is too long for the game.
        """
        path = self._folder / f"e{self._num_demos:03d}.lmp"
        if len(str(path)) > _MOST_LETTERS:
            raise EnvError(
                f"--record_to: the path of the demo {path} has {len(str(path))} letters, and the game takes "
                f"{_MOST_LETTERS}: use a folder with a shorter name, such as /tmp/demos"
            )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvError(f"--record_to: {self._folder} cannot be made: {error.strerror or error}") from error
        self._num_demos += 1
        return str(path)


def demo_folder_of(cfg: Config, placement: Any) -> DemoFolder | None:
    """Return where the demos of an environment go: of the first of a run, and of one that is played.

    Args:
        cfg: Of the run.
        placement: Where the environment runs; None: outside a run.
    """
    plays = any(isinstance(part, EvaluationOptions) for part in cfg.extra_parts)
    return find_demo_folder(cfg.part(VizdoomOptions).record_to, cfg.run.experiment, placement, plays=plays)


def find_demo_folder(record_to: str | None, experiment: str, placement: Any, *, plays: bool) -> DemoFolder | None:
    """Return where the demos of an environment go; None: there are none of it.

    Args:
        record_to: The folder of all demos; None or empty: none are wanted.
        experiment: Name of the run.
        placement: Where the environment runs; None: outside a run.
        plays: Whether an environment outside a run is played, not looked at.
    """
    is_first = plays if placement is None else placement.worker_index == placement.vector_index == 0
    if not record_to or not is_first:
        return None
    time = f"{datetime.datetime.now():%Y_%m_%d__%H_%M_%S}"
    return DemoFolder(Path(record_to).expanduser().absolute() / experiment / time)
