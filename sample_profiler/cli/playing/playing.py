"""Owns what the `enjoy_*` programs do: a policy plays, its rewards are printed, and a video is saved if asked for."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from sample_profiler.cli.common.problems import describe_os_error, note
from sample_profiler.cli.common.program import Program
from sample_profiler.cli.common.progress import progress_shown
from sample_profiler.cli.common.statuses import BAD_USAGE, status_of_interrupt
from sample_profiler.config import Config, parse_run_config
from sample_profiler.config.parts import EvaluationOptions
from sample_profiler.config.seeds import draw_seed
from sample_profiler.envs import EnvSpec, env_probed, inspect_env, make_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.bad_numbers import BadNumbers
from sample_profiler.errors import ConfigError, EnvError, SampleProfilerError, is_out_of_memory
from sample_profiler.policies import PlayedPolicies, load_state, roles_of
from sample_profiler.profiling.tree.render import printable
from sample_profiler.reports.video import VideoWriter
from sample_profiler.run.checks.spaces import find_problems_of_network
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.signals.ending_signals import signals_raising, write_to_nowhere
from sample_profiler.runtime.surroundings.crashes import crashes_told
from sample_profiler.runtime.surroundings.outputs import take_any_text

if TYPE_CHECKING:
    from sample_profiler.components.evaluation import Cast, PlayedEpisode, Player

__all__ = ["describe_episodes", "find_problems_of_run", "load_played", "play_as_told", "told"]

_DEFAULT_FPS = 30.0


def play_as_told(program: Program, episodes: list[PlayedEpisode] | None = None) -> int:
    """Play a policy of a run, and tell what is in the way if it cannot be done.

    Args:
        program: that plays, with `EvaluationOptions` among its parts.
        episodes: takes those that were played.

    Returns:
        Exit status, as of `enjoy`.
    """
    return told(partial(_play_program, program), [] if episodes is None else episodes)


def _play_program(program: Program, episodes: list[PlayedEpisode]) -> None:
    config = parse_run_config(program.argv, extra_parts=program.extra_parts, defaults=program.defaults)
    _check(config)
    _play(config, episodes)


def told(do: Callable[[list[PlayedEpisode]], None], episodes: list[PlayedEpisode]) -> int:
    """Do something that plays episodes, print what they were like, and tell what is in the way if it cannot be done.

    Args:
        do: plays, and adds to the episodes.
        episodes: that are played.

    Returns:
        Exit status, as of `enjoy`.
    """
    status = 0
    take_any_text()
    try:
        try:
            with signals_raising(), crashes_told():
                do(episodes)
        except KeyboardInterrupt as error:
            status = status_of_interrupt(error)
        except (SampleProfilerError, OSError):
            if episodes:  # these have been played whatever came then
                print(describe_episodes(episodes), flush=True)
            raise
        print(describe_episodes(episodes), flush=True)
    except BrokenPipeError:  # whoever read our output has seen enough
        write_to_nowhere(1)
    except (SampleProfilerError, OSError, MemoryError, RuntimeError) as error:
        note(_explain(error))
        _drop_unwritten_output()
        status = BAD_USAGE
    return status


def _explain(error: Exception) -> str:
    """Return what is to be told of an error, of which nobody needs to see where it was raised.

    Raises:
        RuntimeError: it is one of those of which somebody does.
    """
    if isinstance(error, OSError):
        return describe_os_error(error)
    if not isinstance(error, MemoryError | RuntimeError):
        return str(error)
    if not is_out_of_memory(error):
        raise error
    return f"There is not enough memory: {error}"


def _drop_unwritten_output() -> None:
    """Write what is left of standard output; if it cannot be, Python shall not try it again on its way out."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        write_to_nowhere(1)


def describe_episodes(episodes: Sequence[PlayedEpisode]) -> str:
    """Return mean reward and spread, over episodes, and the means of what environments add."""
    if not episodes:
        return "No episode was played to its end"
    rewards = [episode.reward for episode in episodes]
    with np.errstate(all="ignore"):  # huge rewards have an infinite sum or spread, and are told all the same
        mean, spread = np.mean(rewards), np.std(rewards, ddof=1) if len(rewards) > 1 else 0.0
    frames = np.mean([episode.num_frames for episode in episodes])
    lines = [
        f"Mean reward {mean:.3f} ± {spread:.3f} over {len(rewards)} "
        f"episode{'s' if len(rewards) > 1 else ''} (lowest {min(rewards):.3f}, highest {max(rewards):.3f}), "
        f"mean length {frames:,.0f} frames"
    ]
    for key in sorted({key for episode in episodes for key in episode.extra} - {"reward", "len"}):
        values = [episode.extra[key] for episode in episodes if key in episode.extra]
        with np.errstate(all="ignore"):
            lines.append(f"Mean {printable(key)} {np.mean(values):.3f}")
    return "\n".join(lines)


def find_problems_of_run(config: Config, policy_index: int) -> list[str]:
    """Find what is in the way of playing a policy of a run.

    Args:
        config: of the run.
        policy_index: of the policy.
    """
    problems = []
    if not RunFolder(config.run.folder).config.exists():
        problems.append(
            f"there is no run in {config.run.folder}: say which with --train_dir and --experiment, as it was trained"
        )
    if config.run.restart_behavior != "resume":
        problems.append("--restart_behavior is for training: leave it out, nothing is changed here")
    if policy_index >= config.sampling.num_policies:
        problems.append(
            f"--policy_index={policy_index}: the run has {config.sampling.num_policies} "
            f"polic{'y' if config.sampling.num_policies == 1 else 'ies'}, counted from 0"
        )
    return problems


def _check(config: Config) -> None:
    options = config.part(EvaluationOptions)
    problems = find_problems_of_run(config, options.policy_index)
    if options.eval_env_frameskip and config.environment.env_frameskip % options.eval_env_frameskip:
        problems.append(
            f"--eval_env_frameskip={options.eval_env_frameskip} does not divide "
            f"--env_frameskip={config.environment.env_frameskip}, for which each action was trained"
        )
    if problems:
        raise ConfigError(problems)


def _play(config: Config, episodes: list[PlayedEpisode]) -> None:
    options = config.part(EvaluationOptions)
    frameskip = _choose_frameskip(config)
    played = replace(config, environment=replace(config.environment, env_frameskip=frameskip))
    make = partial(make_env, config.run.env, played, None)
    seed = draw_seed() if config.run.seed is None else config.run.seed
    with env_probed(make, config.run.env) as probe:  # without pictures: no window is opened for a look
        render_mode = _choose_render_mode(options, probe, config.run.env)
        spec = inspect_env(probe, config.run.env)
        fps = options.fps or _read_render_fps(probe) / frameskip
    # Only now: what is wrong is known sooner without PyTorch.
    from sample_profiler.components.evaluation import Places, play

    player = _load_player(config, spec, seed)
    env = AgentsEnv(partial(make, render_mode=render_mode), spec, config.run.env, 0, seed)
    bad_numbers = BadNumbers(config.run.env, stops=config.faults.on_bad_numbers == "stop", is_training=False)
    with contextlib.ExitStack() as stack:
        stack.callback(env.close)
        show = _Show(env, fps, render_mode, options, config.run.folder, stack)
        repeats = _count_repeats(config, frameskip, env)
        places = Places(env, options.max_num_episodes, player.agents)
        stack.enter_context(progress_shown("playing", options.max_num_episodes, lambda: len(episodes)))
        num_pictures = 0
        for episode in play(env, player, frameskip, repeats, bad_numbers):
            if episode is None:
                if num_pictures == options.max_num_frames:  # only now: an episode may have ended with the last one
                    break
                show()
                num_pictures += 1
                continue
            if not places.take(episode):
                continue
            episodes.append(episode)
            reward = (
                f"{episode.reward:.3f}" if len(episode.rewards) == 1 else f"{[round(r, 3) for r in episode.rewards]}"
            )
            print(f"Episode {len(episodes)}: reward {reward}, {episode.num_frames:,} frames", flush=True)
            if places.are_taken:
                break


def _read_render_fps(env: Any) -> float:
    metadata = getattr(env, "metadata", None)
    try:
        fps = float(metadata["render_fps"]) if isinstance(metadata, Mapping) else _DEFAULT_FPS
    except (KeyError, TypeError, ValueError, OverflowError):
        return _DEFAULT_FPS
    return fps if 0 < fps < math.inf else _DEFAULT_FPS


def _choose_frameskip(config: Config) -> int:
    """Return the frames of a step: those of training, unless others are asked for; for stacked frames by the user."""
    trained, asked = config.environment.env_frameskip, config.part(EvaluationOptions).eval_env_frameskip
    if asked is None:
        return trained
    if config.environment.env_framestack == 1 or asked == trained:
        return asked
    if config.origin("eval_env_frameskip") != "command line":
        print(f"Frames are stacked: --eval_env_frameskip={trained}, as in training, instead of {asked}")
        return trained
    print(
        f"Frames are stacked, and with --eval_env_frameskip={asked} not those that the policy was trained on, which "
        f"are {trained} apart: leave the flag out to see how well it plays"
    )
    return asked


def _count_repeats(config: Config, frameskip: int, env: AgentsEnv) -> int:
    """Return for how many steps of the environment each action is held.

    Raises:
        ConfigError: for several, and agents end their episodes in the middle of the actions of others.
    """
    trained = config.environment.env_frameskip
    if frameskip != trained and env.ends_apart:
        problem = (
            f"--eval_env_frameskip={frameskip}: agents of {config.run.env} end their episodes one by one, so no action "
            f"can be held for {trained // frameskip} steps of all: use {trained}, as in training"
        )
        raise ConfigError([problem])
    return trained // frameskip


def _choose_render_mode(options: EvaluationOptions, env: Any, name: str) -> str | None:
    """Return how an environment is to render what is played, if it is.

    Raises:
        ConfigError: a video is asked for, and the environment offers no pictures.
    """
    if options.save_video:
        if not _may_offer(env, "rgb_array"):
            raise ConfigError([f"--save_video: {name} offers no pictures: its metadata has no render mode 'rgb_array'"])
        return "rgb_array"
    if options.no_render:
        return None
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        print("There is no display: playing without a window (--save_video saves what is played)")
        return None
    if not _may_offer(env, "human"):
        print(f"{name} offers no window: playing without one (its metadata has no render mode 'human')")
        return None
    return "human"


def _may_offer(env: Any, render_mode: str) -> bool:
    """Tell whether an environment offers a way to render, or renders and does not say how."""
    metadata = getattr(env, "metadata", None)
    modes = metadata.get("render_modes") if isinstance(metadata, Mapping) else None
    if modes and isinstance(modes, Collection):
        return render_mode in modes
    render = getattr(type(getattr(env, "unwrapped", env)), "render", None)
    return render not in (None, gymnasium.Env.render, gymnasium.vector.VectorEnv.render)


class _Show:
    """Shows what is played at its own speed, or saves it."""

    def __init__(
        self,
        env: AgentsEnv,
        fps: float,
        render_mode: str | None,
        options: EvaluationOptions,
        folder: Path,
        stack: contextlib.ExitStack,
    ) -> None:
        self._env = env
        self._interval_s = 1 / fps
        self._is_window = render_mode == "human"
        self._next_s = 0.0
        self._most_frames = options.video_frames
        self._video: VideoWriter | None = None
        self._is_over = False
        if options.save_video:
            name = options.video_name.removesuffix(".mp4").removesuffix(".gif")
            self._video = VideoWriter(RunFolder(folder).replay.with_name(name), fps)
            stack.callback(self._finish_video)

    def __call__(self) -> None:
        if self._is_window:
            self._render("use --no_render to play without a window")
            time.sleep(max(0.0, self._next_s - time.monotonic()))
            self._next_s = time.monotonic() + self._interval_s
        elif self._video is not None and not self._is_over:
            frame = self._render("there is no video of it: leave --save_video out")
            if frame is None:
                raise ConfigError(["--save_video: the environment renders nothing for render_mode='rgb_array'"])
            self._video.add(frame)
            self._is_over = self._video.num_frames == self._most_frames

    def _render(self, cure: str) -> Any:
        try:
            return self._env.render()
        except EnvError as error:
            raise EnvError(f"{error}; {cure}") from error.__cause__

    def _finish_video(self) -> None:
        assert self._video is not None
        self._video.close()
        if self._video.num_frames:
            print(f"Video of {self._video.num_frames:,} frames: {printable(str(self._video.path))}")


def _load_player(config: Config, spec: EnvSpec, seed: int) -> Player | Cast:
    from sample_profiler.components.evaluation import cast_player

    options = config.part(EvaluationOptions)
    played = load_played(config, spec, options.policy_index)
    policies = played.restore(config, spec, seed)
    return cast_player(policies, played.roles, options.policy_index, deterministic=options.eval_deterministic)


def load_played(config: Config, spec: EnvSpec, policy_index: int) -> PlayedPolicies:
    """Return what the checkpoints hold that are to be played.

    Args:
        config: of the run.
        spec: of its environment.
        policy_index: of the policy that is looked at; others are played only where they have to be.

    Raises:
        ConfigError: a network does not fit the environment, or the memory.
        CheckpointError: there is no checkpoint, or it cannot be read.
    """
    roles = roles_of(config, spec, policy_index)
    specs = {number: spec.of_agent(agent) for agent, number in enumerate(roles)}
    states = {number: _load_state(config, each, number) for number, each in specs.items()}
    return PlayedPolicies(roles, policy_index, states)


def _load_state(config: Config, spec: EnvSpec, policy_index: int) -> dict[str, Any]:
    from sample_profiler.storage.checkpoints import CheckpointFolder

    if problems := find_problems_of_network(config, spec, num_policies=1, num_copies=1):
        raise ConfigError(problems)
    folder = CheckpointFolder(config.run.folder, policy_index, config.saving.keep_checkpoints)
    return load_state(folder, config.saving.load_checkpoint_kind)
