"""Owns what components report to the Runner, and the counters that they share.

Between components travel only integers (groups and slots), through the channels of `blueprint.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sample_profiler.runtime.machine.ranks import RankState
from sample_profiler.runtime.messages.shared_memory import SharedArrays
from sample_profiler.storage.goal_times import GoalTimes

__all__ = [
    *("MESSAGE_TYPES", "CheckpointSaved", "ComponentSummaries", "Counters", "EpisodeStatistics", "EpisodesFinished"),
    *("EvaluationFinished", "RankEnded", "Started", "Stopped", "Stopping", "TargetReached", "TrainingStatistics"),
    *("TrainingStep", "WeightsPublished"),
]


@dataclass(frozen=True)
class EpisodeStatistics:
    """One finished episode of one agent.

    Attributes:
        policy: that the agent followed.
        episode_return: sum of the environment's own rewards.
        length_frames: agent steps × frames per step.
        extra: what the environment reports of itself: `true_objective` and `episode_extra_stats` of its last info.
    """

    policy: int
    episode_return: float
    length_frames: int
    extra: dict[str, float]


@dataclass(frozen=True)
class EpisodesFinished:
    """Episodes that ended at one RolloutWorker since its last report, a second ago or more.

    Attributes:
        episodes: one for each agent whose episode ended.
        component: the RolloutWorker.
    """

    episodes: tuple[EpisodeStatistics, ...]
    component: str = ""


@dataclass(frozen=True)
class TrainingStatistics:
    """How training goes, from one Learner, some times a minute.

    Attributes:
        policy: that it trains.
        frames: trained on so far.
        values: figures by their TensorBoard name.
    """

    policy: int
    frames: int
    values: dict[str, float]


@dataclass(frozen=True)
class EvaluationFinished:
    """A policy has played some episodes, apart from training.

    Attributes:
        policy: that played.
        frames: that it had been trained on.
        num_episodes: that it played.
        values: means over the episodes by name: "reward", "len", what the environment adds; and "reward_stddev".
        component: that has let it play.
    """

    policy: int
    frames: int
    num_episodes: int
    values: dict[str, float]
    component: str = ""

    def __str__(self) -> str:
        values = self.values
        return (
            f"Evaluation of policy {self.policy} after {self.frames:,} frames: reward {values['reward']:.3f} ± "
            f"{values['reward_stddev']:.3f} over {self.num_episodes} episode{'s' if self.num_episodes > 1 else ''}"
        )


@dataclass(frozen=True)
class TargetReached:
    """A Learner has trained as far as the run is to go (`train_for_env_steps`, or an earlier start with `stop_at`).

    Attributes:
        policy: that it trains.
    """

    policy: int


@dataclass(frozen=True)
class RankEnded:
    """A Learner has heard that another rank, which trains the same policy, does not any more.

    Attributes:
        policy: that it trains.
        rank: the other one.
        was_interrupted: whether its user ended it; else it has come as far as it is to go.
    """

    policy: int
    rank: int
    was_interrupted: bool

    def __str__(self) -> str:
        return f"rank {self.rank} {'was interrupted' if self.was_interrupted else 'has come to its end'}"


@dataclass(frozen=True)
class ComponentSummaries:
    """Figures for TensorBoard, from a component of the user's own.

    Attributes:
        component: that reports them.
        policy: with whose figures they are written.
        frames: that it had been trained on.
        values: figures by their TensorBoard name.
    """

    component: str
    policy: int
    frames: int
    values: dict[str, float]


MESSAGE_TYPES = (EpisodesFinished, EvaluationFinished, TargetReached, TrainingStatistics, ComponentSummaries)
"""What handlers can be registered for."""


@dataclass(frozen=True)
class Started:
    """A component has begun to work; of the Runner: the run has, and all components have been started.

    Attributes:
        component: which.
    """

    component: str


@dataclass(frozen=True)
class TrainingStep:
    """A Learner has trained on another dataset.

    Attributes:
        component: the Learner.
        policy: that it trains.
        iteration: datasets that it has trained on in this run, this one included.
        frames: that the policy has been trained on, earlier runs included.
    """

    component: str
    policy: int
    iteration: int
    frames: int


@dataclass(frozen=True)
class WeightsPublished:
    """A Learner has published weights: inference uses them from now on.

    Attributes:
        component: the Learner.
        policy: whose weights they are.
        version: optimizer steps behind them.
    """

    component: str
    policy: int
    version: int


@dataclass(frozen=True)
class CheckpointSaved:
    """A Learner has written a checkpoint.

    Attributes:
        component: the Learner.
        policy: that is in it.
        kind: "latest", "best" or "milestone".
        path: of the file; that of the latest is removed when there are enough newer ones.
        frames: that the policy in it had been trained on.
    """

    component: str
    policy: int
    kind: str
    path: str
    frames: int


@dataclass(frozen=True)
class Stopping:
    """The run is about to end.

    Attributes:
        component: that is to end with it, or the Runner.
        reason: why, in words.
    """

    component: str
    reason: str


@dataclass(frozen=True)
class Stopped:
    """A component has let go of everything, or is lost; of the Runner: all have, and the run is over.

    Attributes:
        component: which.
        failure: why it, or the run, failed; empty: it ended in order, or with a run that was interrupted before it had
            begun.
    """

    component: str
    failure: str = ""


class Counters:
    """Numbers that one process counts and others read at any time, without a message.

    Args:
        num_workers: of the run, one that brings trajectories of other machines included.
        num_policies: of the run.
        num_averaged: how many of the latest episodes means are taken over.
        goals: names of what the run is to reach.

    Attributes:
        agent_steps: `[num_workers, num_policies]` int64: sampled so far, since the start of this process.
        trained_frames: `[num_policies]` int64: what each Learner has trained on, resumed runs included.
        resumed_frames: `[num_policies]` int64: the part of them that earlier runs had trained on.
        has_begun: `[num_policies]` bool: whether the Learner has said how many frames the policy has been trained on.
        training_iterations: `[num_policies]` int64: datasets that were trained on in this run.
        optimizer_steps: `[num_policies]` int64: the version of each policy's weights.
        first_training_ns: `[num_policies]` int64: when the first batch had been trained on (monotonic); 0: not yet.
        metric: `[num_policies]` float64: mean of `save_best_metric` over the latest episodes; NaN: too few yet.
        latest_metrics: `[num_policies, num_averaged]` float64: `save_best_metric` of the latest episodes, the newest in
            the place of the oldest; see `recent_metrics`.
        num_metrics: `[num_policies]` int64: how many have been put there.
        lag_sum, lag_count, lag_min, lag_max: `[num_policies]` float64: policy lag, in optimizer steps, of what was
            trained on; there is no least and no largest while the count is 0.
        goal_times: when each policy has reached what.
    """

    def __init__(self, num_workers: int, num_policies: int, num_averaged: int = 100, goals: Sequence[str] = ()) -> None:
        self._arrays = SharedArrays(
            {
                "agent_steps": ((num_workers, num_policies), np.int64),
                "trained_frames": ((num_policies,), np.int64),
                "resumed_frames": ((num_policies,), np.int64),
                "has_begun": ((num_policies,), np.bool_),
                "training_iterations": ((num_policies,), np.int64),
                "optimizer_steps": ((num_policies,), np.int64),
                "first_training_ns": ((num_policies,), np.int64),
                "metric": ((num_policies,), np.float64),
                "latest_metrics": ((num_policies, num_averaged), np.float64),
                "num_metrics": ((num_policies,), np.int64),
                "lag": ((num_policies, 4), np.float64),
                "end_state": ((1,), np.int64),
            }
        )
        self.goal_times = GoalTimes(goals, num_policies)
        self._name_arrays()
        self.metric[:] = np.nan

    @property
    def end_state(self) -> RankState:
        """Why the run ends, as the Runner knows it; before that, as if it had come as far as it is to go."""
        return max(RankState.DONE, RankState(int(self._arrays["end_state"][0])))

    def note_end(self, state: RankState) -> None:
        """Note why the run ends, the first time."""
        if not self._arrays["end_state"][0]:
            self._arrays["end_state"][0] = state

    def add_metric(self, policy: int, value: float) -> None:
        """Add `save_best_metric` of one more episode."""
        count = int(self.num_metrics[policy])
        self.latest_metrics[policy, count % self.latest_metrics.shape[1]] = value
        self.num_metrics[policy] = count + 1

    def recent_metrics(self, policy: int) -> npt.NDArray[np.float64]:
        """Return `save_best_metric` of the latest episodes, at most `num_averaged` of them, the oldest first."""
        count, values = int(self.num_metrics[policy]), self.latest_metrics[policy]
        return values[:count].copy() if count <= len(values) else np.roll(values, -(count % len(values)))

    def resume_metrics(self, policy: int, values: npt.NDArray[np.float64]) -> None:
        """Go on from what `recent_metrics` returned in an earlier run; as many as there is room for, of the latest."""
        values = values[-self.latest_metrics.shape[1] :]
        self.latest_metrics[policy, : len(values)] = values
        self.num_metrics[policy] = len(values)

    def __getstate__(self) -> dict[str, Any]:
        return {"arrays": self._arrays, "goal_times": self.goal_times}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._arrays, self.goal_times = state["arrays"], state["goal_times"]
        self._name_arrays()

    def _name_arrays(self) -> None:
        self.agent_steps: npt.NDArray[np.int64] = self._arrays["agent_steps"]
        self.trained_frames: npt.NDArray[np.int64] = self._arrays["trained_frames"]
        self.resumed_frames: npt.NDArray[np.int64] = self._arrays["resumed_frames"]
        self.has_begun: npt.NDArray[np.bool_] = self._arrays["has_begun"]
        self.training_iterations: npt.NDArray[np.int64] = self._arrays["training_iterations"]
        self.optimizer_steps: npt.NDArray[np.int64] = self._arrays["optimizer_steps"]
        self.first_training_ns: npt.NDArray[np.int64] = self._arrays["first_training_ns"]
        self.metric: npt.NDArray[np.float64] = self._arrays["metric"]
        self.latest_metrics: npt.NDArray[np.float64] = self._arrays["latest_metrics"]
        self.num_metrics: npt.NDArray[np.int64] = self._arrays["num_metrics"]
        lag: npt.NDArray[np.float64] = self._arrays["lag"]
        self.lag_sum, self.lag_count, self.lag_min, self.lag_max = lag.T
