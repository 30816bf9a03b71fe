"""Owns observers as Sample Factory's code writes them, told of a run of this package."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sample_profiler.components.messages import EpisodesFinished
from sample_profiler.run.observers import RunObserver, SummaryWriter

if TYPE_CHECKING:
    from sample_profiler.compat.running.training import Runner as RunnerOfTheirs
    from sample_profiler.run.records.statistics import RunStatus
    from sample_profiler.run.runner import Runner

__all__ = ["EPISODIC", "POLICY_ID_KEY", "TRAIN_STATS", "AlgoObserver", "ObserverOfAll"]

EPISODIC = "episodic"
"""Key of an episode's figures in messages, and of who handles them."""

TRAIN_STATS = "train"
"""Key of messages of the Learner, which are not served."""

POLICY_ID_KEY = "policy_id"
"""Key of the number of the policy that a message is of."""

_EXTRA = "episode_extra_stats"


class AlgoObserver:
    """Somebody who is told how a run goes; override what is of interest."""

    def on_init(self, runner: RunnerOfTheirs) -> None:
        """See the run before anything is trained."""

    def on_connect_components(self, runner: RunnerOfTheirs) -> None:
        """See the run before its components are started."""

    def on_start(self, runner: RunnerOfTheirs) -> None:
        """See the run begin."""

    def on_training_step(self, runner: RunnerOfTheirs, training_iteration_since_resume: int) -> None:
        """See that another dataset has been trained on."""

    def extra_summaries(self, runner: RunnerOfTheirs, policy_id: int, writer: Any, env_steps: int) -> None:
        """Add figures of one's own; `env_steps` and `writer` may stand in either order, by their names."""

    def on_stop(self, runner: RunnerOfTheirs) -> None:
        """Let go of everything."""


class ObserverOfAll(RunObserver):
    """Tells observers of Sample Factory's kind of a run, and keeps what they read of its Runner.

    Args:
        runner: As they know it.
        observers: Of their kind.
        handlers: Of messages of episodes, called as `handler(runner, message, policy_id)`.
    """

    def __init__(
        self, runner: RunnerOfTheirs, observers: Sequence[AlgoObserver], handlers: Sequence[Callable[..., None]]
    ) -> None:
        self._runner = runner
        self._observers = observers
        self._handlers = handlers
        self._opened: dict[int, SummaryWriter] = {}

    def on_init(self, runner: Runner) -> None:
        """Begin to listen to episodes."""
        runner.register_message_handler(EpisodesFinished, self._take_episodes)
        for observer in self._observers:
            observer.on_init(self._runner)
            observer.on_connect_components(self._runner)

    def on_start(self, runner: Runner) -> None:  # noqa: ARG002
        """Pass it on."""
        for observer in self._observers:
            observer.on_start(self._runner)

    def on_status(self, status: RunStatus) -> None:
        """Keep what is read of the Runner."""
        self._runner.env_steps = dict(status.frames)
        self._runner.policy_lag = [
            {"version_diff_min": status.least_policy_lag[policy], "version_diff_avg": mean, "version_diff_max": most}
            for policy, (mean, most) in status.policy_lag.items()
        ]

    def on_summaries(self, status: RunStatus) -> None:
        """Keep it at the end, too, which may come before anybody was told of a status."""
        self.on_status(status)

    def on_training_step(self, runner: Runner, training_iteration: int) -> None:
        """Pass it on; the frames are known by then."""
        self._runner.env_steps = dict(enumerate(runner.counters.trained_frames.tolist()))
        for observer in self._observers:
            observer.on_training_step(self._runner, training_iteration)

    def extra_summaries(self, runner: Runner, policy_id: int, env_steps: int, writer: SummaryWriter) -> None:  # noqa: ARG002
        """Pass it on, in the order in which the observer has the last two, and write what there is to write by now."""
        self._opened[policy_id] = writer
        summaries = self._runner.writers[policy_id]
        for observer in self._observers:
            are_first = _expects_steps_first(observer.extra_summaries)
            last = (env_steps, summaries) if are_first else (summaries, env_steps)
            observer.extra_summaries(self._runner, policy_id, *last)
        summaries.hand_on(writer, env_steps)

    def on_stop(self, runner: Runner) -> None:  # noqa: ARG002
        """Pass it on, and write what is written at the end: the run's own writers are closed afterwards."""
        for observer in self._observers:
            observer.on_stop(self._runner)
        for policy, writer in self._opened.items():
            self._runner.writers[policy].hand_on(writer, self._runner.env_steps.get(policy, 0))

    def _take_episodes(self, runner: Runner, message: EpisodesFinished) -> None:  # noqa: ARG002
        for episode in message.episodes:
            extra = dict(episode.extra)
            objective = extra.pop("true_objective", episode.episode_return)
            figures = {"reward": episode.episode_return, "len": episode.length_frames, "true_objective": objective}
            for name, value in (figures | extra).items():
                self._figures_of(name)[episode.policy].append(value)
            told = {EPISODIC: {**figures, _EXTRA: extra}, POLICY_ID_KEY: episode.policy}
            for handler in self._handlers:
                handler(self._runner, told, episode.policy)

    def _figures_of(self, name: str) -> list[deque[float]]:
        cfg = self._runner.cfg
        empty: list[deque[float]] = [deque(maxlen=cfg.stats_avg) for _ in range(cfg.num_policies)]
        return self._runner.policy_avg_stats.setdefault(name, empty)


def _expects_steps_first(extra_summaries: Callable[..., None]) -> bool:
    """Tell whether a method has the frames before the writer: declared so there, and called the other way round."""
    names = list(inspect.signature(extra_summaries).parameters)
    return len(names) > 2 and ("step" in names[2] or "frame" in names[2])
