"""Owns when a Learner waits for those of other ranks, which train the same policy, and what it makes of their ends."""

from __future__ import annotations

import logging
import math

import torch

from sample_profiler.components.messages import Counters, RankEnded
from sample_profiler.errors import RankError
from sample_profiler.ppo.ranks import Meeting, Ranks
from sample_profiler.profiling import Timing
from sample_profiler.runtime.machine.ranks import RankState
from sample_profiler.runtime.messages.channels import Reports
from sample_profiler.runtime.messages.heartbeats import Pulse
from sample_profiler.runtime.processes.child import has_reported_failure, is_runner_gone
from sample_profiler.vocabulary import (
    ADDING_UP_RATIO,
    CLOCK_ERROR_S,
    CLOCK_OFFSET_S,
    FOR_RANKS,
    SLOWEST_RANK,
    SLOWEST_RANK_IN_STEPS,
    WAIT,
)

__all__ = ["RankMeetings"]

logger = logging.getLogger(__name__)


class RankMeetings:
    """All ranks meet before each dataset: each takes as many steps as the others, and none is waited for that has left.

    The first that comes to its end says so at the next meeting, which is the last: everybody knows then that nobody
    will come any more. A single rank meets with nobody.

    Args:
        ranks: who trains the policy.
        policy: index of it.
        counters: say why the run ends.
        pulse: gives signs of life meanwhile.
        reports: to the Runner.
        timing: where the wait is recorded.
    """

    def __init__(
        self, ranks: Ranks, policy: int, counters: Counters, pulse: Pulse, reports: Reports, timing: Timing
    ) -> None:
        self._ranks = ranks
        self._policy = policy
        self._counters = counters
        self._pulse = pulse
        self._reports = reports
        self._timing = timing
        self._latest = Meeting()
        self._is_over = False

    def is_over(self, *, has_reached_target: bool) -> bool:
        """Tell whether a rank has come to its end; wait for all of them to find out, unless that is known already.

        Args:
            has_reached_target: whether this one has.

        Raises:
            RankError: another rank is lost, or has failed.
        """
        if not self._is_over:
            self._meet(RankState.DONE if has_reached_target else RankState.GOES_ON)
        return self._is_over

    def take_leave(self) -> None:
        """Tell the other ranks that this one ends, unless they know, or have no connections with it any more."""
        if self._is_over or self._ranks.is_broken or self._ranks.size == 1:
            return
        has_failed = is_runner_gone() or has_reported_failure()
        try:
            self._meet(RankState.FAILED if has_failed else self._counters.end_state)
        except RankError as error:
            logger.info("Nobody could be told of the end: %s", error)

    def mean(self, value: float) -> float:
        """Return the mean over all ranks of a number that each of them has, for what is to be the same at all."""
        if self._ranks.size == 1:
            return value
        total = torch.tensor([value], dtype=torch.float64)
        self._ranks.add_up([total])
        return float(total) / self._ranks.size

    def gauges(self) -> dict[str, float]:
        """Measure for whom the others wait, and by how much this one's clock is ahead of rank 0's."""
        if self._ranks.size == 1:
            return {}
        clock, latest = self._ranks.clock, self._latest
        gauges = {SLOWEST_RANK: float(latest.slowest)}
        if latest.slowest_in_steps is not None:
            gauges |= {
                SLOWEST_RANK_IN_STEPS: float(latest.slowest_in_steps),
                ADDING_UP_RATIO: latest.adding_up_ratio,
            }
        if clock is not None and math.isfinite(clock.error_s):
            gauges |= {CLOCK_OFFSET_S: clock.offset_s, CLOCK_ERROR_S: clock.error_s}
        return gauges

    def _meet(self, state: RankState) -> None:
        if self._ranks.size == 1:
            self._is_over = state != RankState.GOES_ON
            return
        with self._timing.add_time(WAIT + FOR_RANKS), self._pulse.beating(self._ranks.timeout_s):
            meeting = self._ranks.meet(state)
        self._latest = meeting
        self._is_over = meeting.state != RankState.GOES_ON
        if not self._is_over or state != RankState.GOES_ON:  # this one's own end needs no other reason
            return
        if meeting.state == RankState.FAILED:
            raise RankError(f"rank {meeting.rank} has failed: its own log says why")
        self._reports.send(
            RankEnded(self._policy, meeting.rank, was_interrupted=meeting.state == RankState.INTERRUPTED)
        )
