"""Owns whether the policies of a run have become as good as was asked for (`--thresholds`, `--stop_at`)."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sample_profiler.components.messages import Counters
from sample_profiler.config import Condition, SavingOptions, parse_conditions
from sample_profiler.run.records.statistics import RunStatistics
from sample_profiler.storage.goal_times import Reached, name_of_stop

__all__ = ["Goals", "GoalsReport"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GoalsReport:
    """What there is to tell of the goals of a run that has ended.

    Attributes:
        facts: as plain data: when each policy has reached each of the `thresholds`, and what the run was to `stop_at`,
            as far as these were asked for. `run_s`, `process_s` and `frames` are None for what was not reached; seconds
            also if an earlier start of the run was not timed.
        lines: the same of the thresholds, in words.
        reached_before: says that an earlier start has ended because the run was good enough; empty: it has not.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    reached_before: str = ""


class Goals:
    """Looks at the means of the latest episodes whenever some have ended, and notes what they reach, and when.

    Args:
        options: what is to be reached.
        statistics: of the run.
        counters: where it is noted.
        num_averaged: how many of the latest episodes means are taken over.
    """

    def __init__(
        self, options: SavingOptions, statistics: RunStatistics, counters: Counters, num_averaged: int
    ) -> None:
        self._thresholds = parse_conditions(options.thresholds)
        self._end = parse_conditions(options.stop_at)
        self._stop = name_of_stop(options)
        self._statistics = statistics
        self._frames = counters.trained_frames
        self._goal_times = counters.goal_times
        self._num_averaged = num_averaged
        self._policies = range(len(self._frames))
        self._unknown: set[tuple[int, str]] = set()

    def look(self) -> str:
        """Note what is reached by now; return in words why the run is to end, empty if it is to go on."""
        for policy in self._policies:
            for condition in self._thresholds:
                if condition.concerns(policy) and not self._goal_times.find(policy, str(condition)):
                    self._look_at(policy, condition)
        if not self._end or not all(self._holds(policy, each) for each in self._end for policy in self._policies):
            return ""
        for policy in self._policies:
            if not self._goal_times.find(policy, self._stop):  # an earlier start may have noted it for some of them
                self._goal_times.note(policy, self._stop, int(self._frames[policy]))
        reached = _describe(self._goal_times.find(0, self._stop))
        wanted = ", ".join(map(str, self._end))
        return f"{wanted}, on average over the latest {self._num_averaged:,} episodes, {reached}"

    def reached_before(self) -> str:
        """Say that an earlier start of the run has ended because it was good enough; empty: it has not."""
        reached = [self._goal_times.find(policy, self._stop) for policy in self._policies]
        return "" if None in reached else f"--stop_at was reached before, {_describe(reached[0])}"

    def report(self) -> GoalsReport:
        """Return what there is to tell of them at the end of a run."""
        found = {
            (condition, policy): self._goal_times.find(policy, str(condition))
            for condition in self._thresholds
            for policy in self._policies
            if condition.concerns(policy)
        }
        facts: dict[str, Any] = {}
        if self._thresholds:
            facts["thresholds"] = [
                {"threshold": str(condition), "policy": policy, **_to_dict(reached)}
                for (condition, policy), reached in found.items()
            ]
        if self._end:
            reached_by = {policy: self._goal_times.find(policy, self._stop) for policy in self._policies}
            facts["stop_at"] = [{"policy": policy, **_to_dict(reached)} for policy, reached in reached_by.items()]
        lines = [
            f"Threshold {self._name(policy, each)}: {_describe(reached)}" for (each, policy), reached in found.items()
        ]
        return GoalsReport(facts, tuple(lines), self.reached_before())

    def _name(self, policy: int, condition: Condition) -> str:
        return f"{condition} of policy {policy}" if len(self._policies) > 1 else str(condition)

    def _look_at(self, policy: int, condition: Condition) -> None:
        if not self._holds(policy, condition):
            return
        reached = self._goal_times.note(policy, str(condition), int(self._frames[policy]))
        logger.info("Reached: %s %s", self._name(policy, condition), _describe(reached))

    def _holds(self, policy: int, condition: Condition) -> bool:
        if not condition.concerns(policy):
            return True
        mean = self._statistics.full_mean(policy, condition.statistic)
        if mean is None:
            self._warn_if_unknown(policy, condition)
        return mean is not None and condition.holds(mean)

    def _warn_if_unknown(self, policy: int, condition: Condition) -> None:
        names, wanted = self._statistics.names(policy), (policy, condition.statistic)
        if names and condition.statistic not in (*names, "true_objective") and wanted not in self._unknown:
            self._unknown.add(wanted)
            logger.warning(
                "No episode of policy %d has a statistic %r so far, so %s is not reached; there are %s",
                *(policy, condition.statistic, condition, ", ".join(names)),
            )


def _describe(reached: Reached | None) -> str:
    """Say when something was reached."""
    if reached is None:
        return "not reached"
    if math.isnan(reached.run_s):
        return f"after {reached.frames:,} frames; an earlier start of the run was not timed"
    seconds = f"after {reached.run_s:.1f} s ({reached.process_s:.1f} s since the start of the process)"
    return f"{seconds} and {reached.frames:,} frames"


def _to_dict(reached: Reached | None) -> dict[str, Any]:
    if reached is None:
        return {"run_s": None, "process_s": None, "frames": None}
    seconds = {"run_s": reached.run_s, "process_s": reached.process_s}
    known = {name: None if math.isnan(value) else round(value, 3) for name, value in seconds.items()}
    return {**known, "frames": reached.frames}
