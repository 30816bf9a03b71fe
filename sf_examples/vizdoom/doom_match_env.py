"""A match between players of Doom as one environment: a game for each player, which all take each tic together."""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, NoReturn, cast

import gymnasium
import numpy as np
import psutil
import vizdoom
from numpy.typing import NDArray

from sample_profiler.config import Config
from sample_profiler.envs import EnvPlacement
from sample_profiler.envs.wrappers import FrameStack
from sample_profiler.errors import EnvError
from sf_examples.vizdoom.doom_demos import DemoFolder, demo_folder_of
from sf_examples.vizdoom.doom_game import GAME_ERRORS
from sf_examples.vizdoom.doom_matches import DOOM_MATCHES, DoomMatch
from sf_examples.vizdoom.doom_options import MOST_PLAYERS, VizdoomOptions
from sf_examples.vizdoom.doom_player import DoomPlayer, Observation
from sf_examples.vizdoom.doom_scenarios import TICS_PER_MINUTE
from sf_examples.vizdoom.game_watch import GameWatch, children_of_this_process, end_player
from sf_examples.vizdoom.match_port import reserve_port

__all__ = ["DoomMatchEnv", "OnlyPlayer", "as_players", "make_doom_match_env"]

logger = logging.getLogger(__name__)

_PATIENCE_S = 20.0  # for one tic of all games; it takes about a millisecond
_PATIENCE_OF_START_S = 60.0
_PATIENCE_WITH_HUMANS_S = 300.0
_NOTICE_S = 20.0
_NUM_SEEDS = 2**32
_RULES = (
    "-deathmatch +sv_forcerespawn 1 +sv_noautoaim 1 +sv_respawnprotect 1 +sv_spawnfarthest 1 +sv_nocrouch 1 "
    "+sv_nojump 1 +sv_nofreelook 1 +sv_noexit 1 +viz_respawn_delay 0"
)


class DoomMatchEnv:
    """A deathmatch of ``num_agents`` players, each of whom is an agent.

    Observations and actions are those of :class:`sf_examples.vizdoom.doom_env.DoomEnv`, one for each player. Rewards
    are what the match pays for frags, deaths, hits and damage. Who dies is back at once; the episode is cut off for all
    when time is up, and its last infos have the frags as ``true_objective``.

    Games of a match wait for each other in every tic, so they are stepped tic by tic, in a thread each. They start with
    the first reset. Equal seeds give equal maps and rules, not equal episodes: the games begin to wait for each other
    while they run already.
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 35}  # noqa: RUF012 (as gymnasium declares it)

    def __init__(
        self,
        match: DoomMatch,
        options: VizdoomOptions,
        frameskip: int = 1,
        render_mode: str | None = None,
        env_index: int | None = None,
        demos: DemoFolder | None = None,
    ) -> None:
        """Read the scenario file; start nothing yet.

        Args:
            match: What to play.
            options: Size of the observations, and perhaps another scenario file or time limit.
            frameskip: Number of tics for which each action is held.
            render_mode: ``human`` shows the games in windows; ``rgb_array`` lets :meth:`render` return frames.
            env_index: Number of the environment within a run, for errors.
            demos: Where a demo of each episode is recorded; the games then start anew for each.

        Raises:
            EnvError: There is no such scenario file, it lacks buttons, or there are too many players.
        """
        scenario = options.limit(match.scenario)
        self.name = scenario.name
        self.num_agents = options.num_agents if options.num_agents > 0 else match.num_players
        self._num_bots = match.num_bots if options.num_bots < 0 else options.num_bots
        self._num_humans = options.num_humans
        self._demos = demos
        self._check_players()
        self.render_mode = render_mode
        self._title = scenario.name if env_index is None else f"environment {env_index} ({scenario.name})"
        self._player = DoomPlayer(scenario, options, is_visible=render_mode == "human")
        self._match = match
        self._minutes = scenario.episode_timeout_tics / TICS_PER_MINUTE
        self._frameskip = frameskip
        self.observation_space = self._player.observation_space
        self.action_space = self._player.action_space
        self._rng = np.random.default_rng()
        self._threads: ThreadPoolExecutor | None = None
        self._port: socket.socket | None = None
        self._games: list[vizdoom.DoomGame] = []
        self._others: set[int] = set()
        self._processes: list[psutil.Process] = []
        self._watches: list[GameWatch] = []
        self._frames: list[Observation] = []
        self._variables = np.zeros((self.num_agents, len(match.rewards)))
        self._begun = self._variables

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[Observation], list[dict[str, Any]]]:
        """Start an episode, and the games if they do not run yet.

        Raises:
            EnvError: The games cannot be started, or one is gone.
        """
        del options
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        try:
            if self._games and self._demos is not None:
                self.close()
            if self._games:
                self._together(lambda game: game.new_episode())
            else:
                self._start()
            self._call_bots()
            size = (3, self._games[0].get_screen_height(), self._games[0].get_screen_width())
            self._frames = [np.zeros(size, np.uint8)] * self.num_agents
            observations = self._look()
            self._variables = self._read_variables()
            self._begun = self._variables
        except GAME_ERRORS as error:
            self._fail("reset", error)
        return observations, [{} for _ in self._games]

    def step(
        self, actions: Sequence[Any]
    ) -> tuple[list[Observation], list[float], list[bool], list[bool], list[dict[str, Any]]]:
        """Hold the buttons of all players for ``frameskip`` tics, or until time is up.

        Raises:
            EnvError: A game is gone, or no episode is on.
        """
        if not self._games:
            raise EnvError(f"{self.name}: step() before reset(); call reset() first")
        try:
            for game, action in zip(self._games, actions, strict=True):
                game.set_action(self._player.held(action))
            is_over = False
            for tic in range(self._frameskip):
                # Only the last tic is rendered.
                is_last = tic == self._frameskip - 1
                self._together(functools.partial(_advance_tic, is_last=is_last))
                is_over = any(game.is_episode_finished() for game in self._games)
                if is_over:
                    break
            observations = self._look()
            rewards = self._reward()
        except GAME_ERRORS as error:
            self._fail("step", error)
        ends = [is_over for _ in self._games]
        infos = self._describe() if is_over else [{} for _ in ends]
        return observations, rewards, [False for _ in ends], ends, infos

    def render(self) -> Observation | None:
        """Return the latest frames side by side, [height, width, 3]; ``None`` unless asked for at the start."""
        if self.render_mode != "rgb_array":
            return None
        return np.concatenate([frame.transpose(1, 2, 0) for frame in self._frames], axis=1)

    def close(self) -> None:
        """End the games; a closed environment can be reset and starts new ones."""
        if self._games:
            with contextlib.suppress(EnvError, *GAME_ERRORS):
                self._together(lambda game: game.close())
        self._drop()

    def _start(self) -> None:
        seed, self._port = int(self._rng.integers(_NUM_SEEDS)), reserve_port()
        port = self._port.getsockname()[1]
        patience_s = _PATIENCE_OF_START_S
        if self._num_humans:
            patience_s = _PATIENCE_WITH_HUMANS_S
            words = "%s waits %.0f s for %d more players: join it by -join ADDRESS:%d, with this machine's address"
            logger.warning(words, self._title, patience_s // 2, self._num_humans, port)
        self._games = [self._player.make_game() for _ in range(self.num_agents)]
        for player, game in enumerate(self._games):
            game.set_episode_timeout(0)  # the match has a time limit of its own
            game.set_seed(seed)
            role = f"-join 127.0.0.1:{port}"
            if player == 0:
                num_players = self.num_agents + self._num_humans
                demo = "" if self._demos is None else f"-record {self._demos.next_demo()}"
                role = f"-host {num_players} -port {port} +timelimit {self._minutes} {_RULES} {demo}"
            game.add_game_args(f"{role} +viz_connect_timeout {patience_s // 2:.0f}")
        self._threads = ThreadPoolExecutor(self.num_agents, thread_name_prefix="player")
        self._others = children_of_this_process()
        self._together(lambda game: game.init(), patience_s)
        self._watches = [GameWatch(process.pid, self._title, self) for process in self._find_processes()]

    def _call_bots(self) -> None:
        """Have the host let the bots join; those of the episode before leave."""
        if self._num_bots:
            for command in ("removebots", *["addbot"] * self._num_bots):
                self._games[0].send_game_command(command)

    def _check_players(self) -> None:
        num_players = self.num_agents + self._num_bots + self._num_humans
        if num_players > MOST_PLAYERS:
            raise EnvError(
                f"{self.name}: {self.num_agents} agents, {self._num_bots} bots and {self._num_humans} humans are "
                f"{num_players} players, and a match has {MOST_PLAYERS} at most: use a smaller --num_agents, "
                "--num_bots or --num_humans"
            )
        if self._demos is not None and self._num_bots:
            raise EnvError(
                f"{self.name}: --record_to is for games without bots, which demos do not have: use --num_bots=0, or "
                "--save_video for a video of what is played"
            )

    def _together(self, call: Callable[[vizdoom.DoomGame], Any], patience_s: float | None = None) -> None:
        """Do the same with all games at once; end all of them if that fails for one, for whom the others wait."""
        assert self._threads is not None
        patience_s = patience_s or _PATIENCE_S
        with contextlib.ExitStack() as stack:
            for watch in self._watches:
                stack.enter_context(watch)
            calls = [self._threads.submit(call, game) for game in self._games]
            done, waiting = wait(calls, timeout=patience_s, return_when=FIRST_EXCEPTION)
            failed = next((each for each in done if each.exception() is not None), None)
            if failed is None and not waiting:
                return
            self._kill()
        # Players notice that their games are gone, if late; one whose game died with the lock that they share does not.
        if wait(waiting, timeout=_NOTICE_S).not_done:
            end_player(f"EnvError: {self._title}: a game of the match died and cannot be recovered")
        if failed is not None:
            failed.result()
        raise EnvError(f"{self._title}: the games of the match have not answered each other for {patience_s:g} s")

    def _look(self) -> list[Observation]:
        for player, game in enumerate(self._games):
            frame = self._player.frame(game)
            if frame is not None:
                self._frames[player] = frame
        return [self._player.observe(frame) for frame in self._frames]

    def _reward(self) -> list[float]:
        change, self._variables = -self._variables, self._read_variables()
        change += self._variables
        # What begins anew, at zero, has not been taken away.
        return cast("list[float]", (np.maximum(change, self._lowest) @ self._prices).tolist())

    def _read_variables(self) -> NDArray[np.float64]:
        names = [getattr(vizdoom.GameVariable, name) for name, _ in self._match.rewards]
        return np.array([[game.get_game_variable(name) for name in names] for game in self._games])

    @functools.cached_property
    def _prices(self) -> NDArray[np.float64]:
        return np.array([price for _, price in self._match.rewards])

    @functools.cached_property
    def _lowest(self) -> NDArray[np.float64]:
        # Frags alone can fall: one's own death by one's own hand costs one.
        return np.array([-np.inf if name == "FRAGCOUNT" else 0.0 for name, _ in self._match.rewards])

    def _describe(self) -> list[dict[str, Any]]:
        names = [name for name, _ in self._match.rewards]
        counts = (self._variables - self._begun)[:, [names.index("FRAGCOUNT"), names.index("DEATHCOUNT")]]
        return [
            {"true_objective": frags, "episode_extra_stats": {"frags": frags, "deaths": deaths}}
            for frags, deaths in counts.tolist()
        ]

    def _find_processes(self) -> list[psutil.Process]:
        if not self._processes:
            self._processes = [psutil.Process(pid) for pid in children_of_this_process() - self._others]
        return self._processes

    def _kill(self) -> None:
        for process in self._find_processes() if self._games else []:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def _drop(self) -> None:
        self._kill()
        for watch in self._watches:
            watch.end()
        if self._threads is not None:
            self._threads.shutdown()
        if self._port is not None:
            self._port.close()
        self._threads, self._port, self._games, self._processes, self._watches = None, None, [], [], []

    def _fail(self, where: str, error: Exception) -> NoReturn:
        self._drop()
        raise EnvError(f"{self.name}: a game of the match failed in {where}(): {error}") from error


def _advance_tic(game: vizdoom.DoomGame, *, is_last: bool) -> None:
    game.advance_action(1, is_last)


def make_doom_match_env(
    full_env_name: str, cfg: Config, env_config: EnvPlacement | None, render_mode: str | None = None
) -> DoomMatchEnv | gymnasium.Env[Observation, Any]:
    """Make the environment of one of :data:`DOOM_MATCHES`, for :func:`sample_profiler.envs.register_env`.

    Raises:
        EnvError: Frames are to be stacked, which is for single agents.
    """
    env_index = None if env_config is None else env_config.env_id
    options, demos = cfg.part(VizdoomOptions), demo_folder_of(cfg, env_config)
    frameskip, framestack = cfg.environment.env_frameskip, cfg.environment.env_framestack
    env = as_players(DoomMatchEnv(DOOM_MATCHES[full_env_name], options, frameskip, render_mode, env_index, demos))
    if framestack == 1:
        return env
    if isinstance(env, DoomMatchEnv):
        raise EnvError(
            f"--env_framestack={framestack}: {full_env_name} has several agents, whose frames are not stacked; leave "
            "it at 1 and use a recurrent policy (--use_rnn=True)"
        )
    return FrameStack(env, framestack)


def as_players(env: DoomMatchEnv) -> DoomMatchEnv | OnlyPlayer:
    """Return a match as an environment of several agents, or of one where there are no others."""
    return OnlyPlayer(env) if env.num_agents == 1 else env


class OnlyPlayer(gymnasium.Env[Observation, Any]):
    """A match in which one player is an agent, and all others are bots or humans."""

    metadata = DoomMatchEnv.metadata

    def __init__(self, match: DoomMatchEnv) -> None:
        """Wrap a match.

        Args:
            match: Of one agent.
        """
        self._match = match
        self.render_mode = match.render_mode
        self.observation_space = match.observation_space
        self.action_space = match.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode, and the game if it does not run yet."""
        observations, infos = self._match.reset(seed=seed, options=options)
        return observations[0], infos[0]

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Hold buttons for some tics, or until time is up."""
        observations, rewards, terminated, truncated, infos = self._match.step([action])
        return observations[0], rewards[0], terminated[0], truncated[0], infos[0]

    def render(self) -> Observation | None:
        """Return the latest frame, [height, width, 3]; ``None`` unless asked for at the start."""
        return self._match.render()

    def close(self) -> None:
        """End the game; a closed environment can be reset and starts a new one."""
        self._match.close()
