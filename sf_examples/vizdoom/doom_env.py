"""A ViZDoom game as a gymnasium environment. The game is a process of its own; this one tells it what to do."""

from __future__ import annotations

import contextlib
import math
from typing import Any, NoReturn

import gymnasium
import numpy as np
import vizdoom

from sample_profiler.config import Config
from sample_profiler.envs import EnvPlacement
from sample_profiler.envs.wrappers import FrameStack
from sample_profiler.errors import EnvError
from sf_examples.vizdoom.doom_demos import DemoFolder, demo_folder_of
from sf_examples.vizdoom.doom_game import GAME_ERRORS
from sf_examples.vizdoom.doom_options import VizdoomOptions
from sf_examples.vizdoom.doom_player import DoomPlayer, Observation
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS, DoomScenario
from sf_examples.vizdoom.game_watch import GameWatch, children_of_this_process

__all__ = ["DoomEnv", "make_doom_env", "make_doom_env_of_scenario"]

_NUM_SEEDS = 2**32
_MOST_EPISODES = 10_000
"""Of a game, which never frees the commands that begin them, a hundred bytes for each; then another one is started."""

_STAGGER = 619
"""Episodes by which a game ends earlier than that of the environment before, so that not all of them start at once."""

_CURE_FOR_LOST_GAME = " If its process was killed, look for who did it, and for a lack of memory"


class DoomEnv(gymnasium.Env[Observation, Any]):
    """One game of Doom.

    Observations are RGB images, uint8, [3, res_h, res_w]. Actions are the scenario's: Discrete, or a Tuple of Discrete,
    where 0 does nothing and i holds entry i - 1, for ``frameskip`` tics, of which only the last is rendered.

    An episode is *truncated* when its time is up and *terminated* when the agent dies or reaches the scenario's goal. A
    game that has ended shows nothing any more, so the final observation repeats the one before. Where the scenario adds
    something to the game's rewards, the last info has the return without it as ``true_objective``.

    The game starts with the first reset, and anew every 10,000 episodes or earlier. Equal seeds give equal episodes,
    whatever was played before.
    """

    metadata = {  # noqa: RUF012 (gymnasium declares it for instances)
        "render_modes": ["human", "rgb_array"],
        "render_fps": 35,
    }

    def __init__(
        self,
        scenario: DoomScenario,
        options: VizdoomOptions,
        frameskip: int = 1,
        render_mode: str | None = None,
        env_index: int | None = None,
        hang_timeout_s: float = math.inf,
        demos: DemoFolder | None = None,
    ) -> None:
        """Read the scenario file; start nothing yet.

        Args:
            scenario: What to play.
            options: Size of the observations, and perhaps another scenario file or time limit.
            frameskip: Number of tics for which each action is held.
            render_mode: ``human`` shows the game in a window; ``rgb_array`` lets :meth:`render` return frames.
            env_index: Number of the environment within a run, for errors.
            hang_timeout_s: For how long the game may be stopped by a signal until it counts as dead.
            demos: Where a demo of each episode is recorded.

        Raises:
            EnvError: There is no such scenario file, or it lacks buttons.
        """
        scenario = options.limit(scenario)
        self.name = scenario.name
        self._title = scenario.name if env_index is None else f"environment {env_index} ({scenario.name})"
        self.render_mode = render_mode
        self._player = DoomPlayer(scenario, options, is_visible=render_mode == "human")
        self._scenario = scenario
        self._frameskip = frameskip
        self.observation_space = self._player.observation_space
        self.action_space = self._player.action_space
        self._game: vizdoom.DoomGame | None = None
        self._num_episodes = 0  # of this game, since it was given a seed
        self._most_episodes = _MOST_EPISODES - (env_index or 0) * _STAGGER % (_MOST_EPISODES // 2)
        self._hang_timeout_s = hang_timeout_s
        self._demos = demos
        self._watched: GameWatch | contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        self._frame: Observation = np.zeros((3, 1, 1), np.uint8)
        self._observation: Observation = np.zeros(self.observation_space.shape, np.uint8)
        self._health = 0.0
        self._return = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode, and the game if it does not run yet.

        Raises:
            EnvError: The game cannot be started, or is gone.
        """
        super().reset(seed=seed, options=options)
        if seed is not None:  # whatever was played before
            self._num_episodes = 0
        try:
            if self._num_episodes >= self._most_episodes:
                self.close()
            if self._game is None:
                self._game = self._start_game()
            else:
                if seed is not None:
                    self._game.set_seed(self._draw_seed())
                self._begin(self._game)
            self._num_episodes += 1
            self._look(self._game)
            self._health, self._return = self._read_health(self._game), 0.0
        except GAME_ERRORS as error:
            self._fail("reset", error)
        return self._observation, {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Hold buttons for ``frameskip`` tics, or until the episode ends.

        Raises:
            EnvError: The game is gone, or no episode is on.
        """
        game = self._game
        if game is None:
            raise EnvError(f"{self.name}: step() before reset(); call reset() first")
        try:
            with self._watched:
                reward = game.make_action(self._player.held(action), self._frameskip) * self._scenario.reward_scale
            self._return += reward
            if game.is_episode_finished():
                is_truncated = game.is_episode_timeout_reached() and not game.is_player_dead()
                return self._observation, reward, not is_truncated, is_truncated, self._describe()
            self._look(game)
            if self._scenario.health_gain_reward:
                reward += self._reward_health(game)
        except GAME_ERRORS as error:
            self._fail("step", error)
        return self._observation, reward, False, False, {}

    def render(self) -> Observation | None:
        """Return the latest frame as it was rendered, [height, width, 3]; ``None`` unless asked for at the start."""
        return self._frame.transpose(1, 2, 0) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """End the game; a closed environment can be reset and starts a new one."""
        game, self._game = self._game, None
        if game is not None:
            with self._watched:  # closing, too, can wait for a dead game for ever
                game.close()
        if isinstance(self._watched, GameWatch):
            self._watched.end()
            self._watched = contextlib.nullcontext()

    def _start_game(self) -> vizdoom.DoomGame:
        self._num_episodes = 0
        game, seed = self._player.make_game(), self._draw_seed()
        game.set_seed(seed)
        others = children_of_this_process()
        game.init()
        for pid in children_of_this_process() - others:
            self._watched = GameWatch(pid, self._title, self, self._hang_timeout_s)
        if self._demos is not None:  # the first episode is on already; the same one is recorded
            game.set_seed(seed)
            self._begin(game)
        return game

    def _begin(self, game: vizdoom.DoomGame) -> None:
        demo = "" if self._demos is None else self._demos.next_demo()
        with self._watched:
            game.new_episode(demo)

    def _draw_seed(self) -> int:
        # From the generator that reset(seed) seeds; unseeded it begins with the system's entropy, so that games started
        # in the same instant differ.
        return int(self.np_random.integers(_NUM_SEEDS))

    def _look(self, game: vizdoom.DoomGame) -> None:
        frame = self._player.frame(game)
        if frame is not None:
            # Nobody's earlier observation changes under them: each is a new array.
            self._frame, self._observation = frame, self._player.observe(frame)

    def _reward_health(self, game: vizdoom.DoomGame) -> float:
        before, self._health = self._health, self._read_health(game)
        return self._scenario.health_gain_reward if self._health > before else 0.0

    def _describe(self) -> dict[str, Any]:
        """Return the last info of an episode: where something is added to rewards, also the return without it."""
        return {"true_objective": self._return} if self._scenario.health_gain_reward else {}

    @staticmethod
    def _read_health(game: vizdoom.DoomGame) -> float:
        return game.get_game_variable(vizdoom.GameVariable.HEALTH)

    def _fail(self, where: str, error: Exception) -> NoReturn:
        self.close()
        cure = "" if isinstance(error, vizdoom.FileDoesNotExistException) else _CURE_FOR_LOST_GAME
        raise EnvError(f"{self.name}: the game failed in {where}(): {error}{cure}") from error


def make_doom_env(
    full_env_name: str, cfg: Config, env_config: EnvPlacement | None, render_mode: str | None = None
) -> gymnasium.Env[Observation, Any]:
    """Make the environment of one of :data:`DOOM_SCENARIOS`, for :func:`sample_profiler.envs.register_env`."""
    return make_doom_env_of_scenario(DOOM_SCENARIOS[full_env_name], full_env_name, cfg, env_config, render_mode)


def make_doom_env_of_scenario(
    scenario: DoomScenario,
    _full_env_name: str,
    cfg: Config,
    env_config: EnvPlacement | None,
    render_mode: str | None = None,
) -> gymnasium.Env[Observation, Any]:
    """Make the environment of any scenario.

    A script registers its own with ``register_env(name, functools.partial(make_doom_env_of_scenario, scenario))``.
    """
    # The game skips frames by itself, without rendering them.
    frameskip, framestack = cfg.environment.env_frameskip, cfg.environment.env_framestack
    env_index = None if env_config is None else env_config.env_id
    demos, patience_s = demo_folder_of(cfg, env_config), cfg.faults.hang_timeout
    env = DoomEnv(scenario, cfg.part(VizdoomOptions), frameskip, render_mode, env_index, patience_s, demos)
    return FrameStack(env, framestack) if framestack > 1 else env
