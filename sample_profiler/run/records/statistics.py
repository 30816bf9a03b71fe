"""Owns what a run knows of itself while it goes on: frames, throughput, episodes, policy lag."""

from __future__ import annotations

import bisect
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from sample_profiler.components.messages import Counters, EpisodeStatistics, EvaluationFinished
from sample_profiler.config import SavingOptions
from sample_profiler.reports.sections.history import EPISODE_LENGTH, EPISODE_RETURN, name_deviation, name_figure
from sample_profiler.vocabulary import LEARNING_FIGURES

__all__ = ["RunStatistics", "RunStatus", "Throughput", "learning_figures"]

logger = logging.getLogger(__name__)

FPS_WINDOWS_S = (10, 60, 300)
_MOST_POINTS = 4096
_MOST_NAMES = 500
_TRUE_OBJECTIVE = "true_objective"
_FEWEST_AVERAGED = 20  # a mean over less is mostly chance, and where episodes are long, more take too many frames
_SCALE = 2.0**64  # a power of two, so that nothing is rounded; no sum has as many terms


@dataclass(frozen=True)
class RunStatus:
    """A run at one moment.

    Attributes:
        elapsed_s: since the first component was started, without the time for which the run stood still.
        frames: by policy: trained on, earlier runs included.
        target_frames: at which the run ends, per policy.
        fps: by window in seconds: frames of all policies per second; only windows that something is known of.
        sampled_frames: of all policies, in this run.
        episodes: by policy: means over the latest episodes by name (`reward`, `len`, …); empty while there are none.
        num_episodes: by policy, in this run.
        policy_lag: by policy: mean and maximum lag of the samples trained on in this run, in optimizer steps.
        least_policy_lag: by policy: the minimum of it; 0 before anything has been trained on.
        training: by policy: the Learner's latest statistics.
        evaluation: by policy: the latest evaluation; empty while there are none.
        progress: share of what the run is to do that is done, by frames or by time, whichever is more.
    """

    elapsed_s: float
    frames: dict[int, int]
    target_frames: int
    fps: dict[int, float]
    sampled_frames: int
    episodes: dict[int, dict[str, float]]
    num_episodes: dict[int, int]
    policy_lag: dict[int, tuple[float, float]]
    training: dict[int, dict[str, float]]
    evaluation: dict[int, EvaluationFinished] = field(default_factory=dict)
    progress: float = 0.0
    least_policy_lag: dict[int, float] = field(default_factory=dict)


class Throughput:
    """Frames over time, for rates over windows of it.

    However long a run goes on, there are not more than a few thousand points: those older than the longest window of
    `FPS_WINDOWS_S` are thinned out.

    Args:
        start_s: when counting began (monotonic clock).

    Attributes:
        left_out_s: seconds that do not count.
    """

    def __init__(self, start_s: float) -> None:
        self._times_s = [start_s]
        self._frames = [0.0]
        self._spacing_s = 1.0
        self.left_out_s = 0.0

    def add(self, time_s: float, frames: float) -> None:
        """Note how many frames there were at a time later than all before."""
        self._times_s.append(time_s - self.left_out_s)
        self._frames.append(frames)
        if len(self._times_s) > _MOST_POINTS:
            self._thin_out()

    def leave_out(self, begin_s: float, end_s: float) -> None:
        """Let a span of time not count, later than all before and not later than now: nothing could happen in it."""
        begin_s = max(begin_s - self.left_out_s, self._times_s[0])
        length_s = max(0.0, end_s - self.left_out_s - begin_s)
        self._times_s = [min(time_s, max(begin_s, time_s - length_s)) for time_s in self._times_s]
        self.left_out_s += length_s

    def rate(self, window_s: float) -> float:
        """Return frames per second over the last `window_s` seconds, or over all there is if that is less."""
        end_s = self._times_s[-1]
        begin_s = max(self._times_s[0], end_s - window_s)
        if end_s <= begin_s:
            return 0.0
        return (self._frames[-1] - self._frames_at(begin_s)) / (end_s - begin_s)

    def steady_rate(self, share: float = 0.75) -> float:
        """Return frames per second over the last `share` of the frames: start-up and warm-up left out."""
        total = self._frames[-1]
        if total <= 0:
            return 0.0
        first = total * (1 - share)
        after = bisect.bisect_left(self._frames, first)
        begin_s = self._times_s[0]
        if after > 0:
            begin_s = _interpolate(first, self._frames[after - 1 : after + 1], self._times_s[after - 1 : after + 1])
        duration_s = self._times_s[-1] - begin_s
        return (total - first) / duration_s if duration_s > 0 else 0.0

    def _thin_out(self) -> None:
        """Keep points that are evenly far apart of what is older than the longest window, and all others."""
        # The one before the window is one of its ends.
        first_kept = max(0, bisect.bisect_left(self._times_s, self._times_s[-1] - FPS_WINDOWS_S[-1]) - 1)
        while len(old := self._pick_spaced(first_kept)) > _MOST_POINTS // 2:
            self._spacing_s *= 2
        for values in (self._times_s, self._frames):
            values[:first_kept] = [values[index] for index in old]

    def _pick_spaced(self, end: int) -> list[int]:
        """Return the first point and, of those up to an end, each that is far enough from the one before."""
        picked: list[int] = []
        for index in range(end):
            if not picked or self._times_s[index] >= self._times_s[picked[-1]] + self._spacing_s:
                picked.append(index)
        return picked

    def _frames_at(self, time_s: float) -> float:
        after = min(bisect.bisect_left(self._times_s, time_s), len(self._times_s) - 1)
        if after == 0:
            return self._frames[0]
        return _interpolate(time_s, self._times_s[after - 1 : after + 1], self._frames[after - 1 : after + 1])


def _mean(values: Collection[float]) -> float:
    """Return the mean of finite numbers, however large."""
    try:
        return fmean(values)
    except OverflowError:  # their sum is too large, which their mean is not
        return fmean(value / _SCALE for value in values) * _SCALE


def _deviation(values: Collection[float], mean: float) -> float:
    """Return the standard deviation of numbers around their mean; infinite if there is no number so large."""
    # Not `math.hypot`, which scales by a number that is zero where a library has denormal ones flushed to that.
    apart = [abs(value - mean) for value in values]
    largest = max(apart)
    if not largest or math.isinf(largest):
        return largest
    return largest * math.sqrt(math.fsum((each / largest) ** 2 for each in apart) / len(apart))


def _interpolate(x: float, xs: list[float], ys: list[float]) -> float:
    """Return y at x on the line through two points."""
    share = (x - xs[0]) / (xs[1] - xs[0]) if xs[1] > xs[0] else 1.0
    return ys[0] + share * (ys[1] - ys[0])


def learning_figures(policy: int, values: Mapping[str, float]) -> dict[str, float]:
    """Return of a Learner's statistics what the verdict on learning is made of, as in a run's history."""
    found = {name: values.get(f"train/{name}", math.nan) for name in LEARNING_FIGURES}
    return {name_figure(name, policy): value for name, value in found.items() if math.isfinite(value)}


@dataclass
class _PolicyEpisodes:
    """The latest episodes of one policy."""

    latest: dict[str, deque[float]] = field(default_factory=dict)
    num_episodes: int = 0


class RunStatistics:
    """Collects episodes and reads the counters.

    Args:
        counters: that the components share.
        num_agents: that follow each policy.
        options: when the run ends, and by which statistic the best policy is chosen.
        frames_per_step: what one agent step counts for.
        num_averaged: how many of the latest episodes means are taken over.
        start_s: when the first component was started, by the clock.
        clock: returns seconds that never go back.
    """

    def __init__(
        self,
        counters: Counters,
        num_agents: Sequence[int],
        options: SavingOptions,
        frames_per_step: int,
        num_averaged: int,
        start_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counters = counters
        self._clock = clock
        self._target_frames = options.train_for_env_steps
        self._target_s = options.train_for_seconds
        self._frames_per_step = frames_per_step
        self._num_averaged = num_averaged
        self._num_agents = num_agents
        self._metric = options.save_best_metric
        self._episodes = [_PolicyEpisodes() for _ in num_agents]
        self._training: dict[int, dict[str, float]] = {}
        self._evaluation: dict[int, EvaluationFinished] = {}
        self._start_s = start_s
        self._has_warned = self._has_warned_of_names = False
        self.throughput = Throughput(self._start_s)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first component was started, without those for which the run stood still."""
        return self._clock() - self._start_s - self.throughput.left_out_s

    def add_episodes(self, episodes: Iterable[EpisodeStatistics]) -> None:
        """Take finished episodes in."""
        for episode in episodes:
            policy = self._episodes[episode.policy]
            policy.num_episodes += 1
            # Ours last: an environment may call something of its own the same.
            values = {**episode.extra, "reward": episode.episode_return, "len": float(episode.length_frames)}
            metric = values.get(self._metric, episode.episode_return if self._metric == _TRUE_OBJECTIVE else None)
            # Finite rewards may have an infinite sum.
            values = {name: value for name, value in values.items() if math.isfinite(value)}
            if metric is not None and math.isfinite(metric):
                self._counters.add_metric(episode.policy, metric)
            for name, value in values.items():
                if name in policy.latest or len(policy.latest) < _MOST_NAMES:
                    policy.latest.setdefault(name, deque(maxlen=self._num_averaged)).append(value)
                elif not self._has_warned_of_names:
                    self._has_warned_of_names = True
                    logger.warning(
                        "Episodes of policy %d tell more than %d different statistics: %r and all that are new from "
                        "here on are left out; names are for quantities, not for episodes",
                        *(episode.policy, _MOST_NAMES, name),
                    )

    def add_training(self, policy: int, values: Mapping[str, float]) -> None:
        """Take a Learner's statistics in."""
        self._training[policy] = dict(values)

    def add_evaluation(self, evaluation: EvaluationFinished) -> None:
        """Take an evaluation in."""
        self._evaluation[evaluation.policy] = evaluation

    def metric(self, policy: int) -> float | None:
        """Return what the best policy is chosen by, the mean over the latest episodes; None while they are too few.

        The first episodes that end after a start are the short ones, which may be the best or the worst of all. So the
        mean is known when as many have ended as there are agents, and at least so many that a mean means something.
        An episode that the environment tells no `true_objective` of has its reward as that: so it is one quantity from
        the first episode on, also where only some have it. A resumed run goes on with the episodes of the one before.
        """
        episodes = self._episodes[policy]
        values = self._counters.recent_metrics(policy)[-self._num_averaged :].tolist()
        if episodes.latest and not values and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "No episode of policy %d has a statistic %r so far, so no best policy is saved; there are %s",
                *(policy, self._metric, ", ".join(sorted(episodes.latest))),
            )
        if episodes.num_episodes < self._num_agents[policy]:
            return None
        return _mean(values) if len(values) >= min(self._num_averaged, _FEWEST_AVERAGED) else None

    def full_mean(self, policy: int, name: str) -> float | None:
        """Return the mean of a statistic over as many of the latest episodes as means are taken over; None: too few.

        As with `metric`, as many have ended since this start as there are agents. Of what the best policy is chosen by,
        a resumed run goes on with the episodes of the one before.
        """
        episodes = self._episodes[policy]
        if name == self._metric:
            values: Sequence[float] = self._counters.recent_metrics(policy)[-self._num_averaged :].tolist()
        else:
            is_missing = name == _TRUE_OBJECTIVE and name not in episodes.latest
            values = [*episodes.latest.get("reward" if is_missing else name, ())]
        is_known = len(values) >= self._num_averaged and episodes.num_episodes >= self._num_agents[policy]
        return _mean(values) if is_known else None

    def names(self, policy: int) -> list[str]:
        """Return what episodes of a policy have told so far, sorted."""
        return sorted(self._episodes[policy].latest)

    def course(self) -> dict[str, Any]:
        """Return what is known of episodes beside what the counters have, as data for `follow`."""
        return {
            "num_episodes": [policy.num_episodes for policy in self._episodes],
            "latest": [{name: list(values) for name, values in policy.latest.items()} for policy in self._episodes],
        }

    def follow(self, course: dict[str, Any]) -> None:
        """Go on from a course: episodes of the earlier run count as those of this one."""
        for policy, num_episodes, latest in zip(self._episodes, course["num_episodes"], course["latest"], strict=True):
            policy.num_episodes = num_episodes
            policy.latest = {name: deque(values, maxlen=self._num_averaged) for name, values in latest.items()}

    def sample(self) -> None:
        """Note the frames at this moment."""
        self.throughput.add(self._clock(), float(sum(self.trained_frames().values())))

    def trained_frames(self) -> dict[int, int]:
        """Return the frames trained on by this run, without what it resumed, by policy."""
        counters = self._counters
        return dict(enumerate((counters.trained_frames - counters.resumed_frames).tolist()))

    def progress(self) -> float:
        """Return the share of what the run is to do that is done, by frames or by time, whichever is more."""
        by_frames = float(self._counters.trained_frames.min()) / self._target_frames
        return min(1.0, max(by_frames, self.elapsed_s / self._target_s))

    def episode_figures(self) -> dict[str, float]:
        """Return mean and standard deviation of return and length over the latest episodes, as in a run's history."""
        figures: dict[str, float] = {}
        for policy, episodes in enumerate(self._episodes):
            for figure, name in ((EPISODE_RETURN, "reward"), (EPISODE_LENGTH, "len")):
                if values := episodes.latest.get(name):
                    figures[name_figure(figure, policy)] = mean = _mean(values)
                    if math.isfinite(deviation := _deviation(values, mean)):
                        figures[name_deviation(name_figure(figure, policy))] = deviation
        return figures

    def status(self) -> RunStatus:
        """Describe the run at this moment."""
        counters = self._counters
        policies = range(len(self._episodes))
        return RunStatus(
            elapsed_s=self.elapsed_s,
            frames={policy: int(counters.trained_frames[policy]) for policy in policies},
            target_frames=self._target_frames,
            fps={window: self.throughput.rate(window) for window in FPS_WINDOWS_S},
            sampled_frames=int(counters.agent_steps.sum()) * self._frames_per_step,
            episodes={
                policy: {name: _mean(values) for name, values in self._episodes[policy].latest.items()}
                for policy in policies
            },
            num_episodes={policy: self._episodes[policy].num_episodes for policy in policies},
            policy_lag={
                policy: (
                    float(counters.lag_sum[policy] / max(1.0, counters.lag_count[policy])),
                    float(counters.lag_max[policy]),
                )
                for policy in policies
            },
            least_policy_lag={policy: float(counters.lag_min[policy]) for policy in policies},
            training=dict(self._training),
            evaluation=dict(self._evaluation),
            progress=self.progress(),
        )
