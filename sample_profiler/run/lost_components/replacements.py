"""Decides whether a RolloutWorker that was lost is replaced, and remembers why each was lost."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from sample_profiler.component_id import REMOTE_SAMPLER, rollout_worker_index
from sample_profiler.components.messages import Counters
from sample_profiler.config import FaultOptions
from sample_profiler.errors import EnvContractError
from sample_profiler.runtime.processes.failure import Failure
from sample_profiler.storage.sampling_plan import SamplingPlan

__all__ = ["Replacements", "find_worker"]

_WINDOW_S = 3600.0
_SAME_AGAIN_S = 60.0


@dataclass(frozen=True)
class _Loss:
    component: str
    message: str
    at_s: float
    lacked_memory: bool
    hung_at_start: bool


class Replacements:
    """What the Runner knows of the RolloutWorkers that were lost.

    Args:
        options: how many may be replaced.
        counters: of the run; tell what a worker has sampled.
        plan: who samples what.
        clock: returns seconds that never go back.
    """

    def __init__(
        self,
        options: FaultOptions,
        counters: Counters,
        plan: SamplingPlan,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._counters = counters
        self._plan = plan
        self._clock = clock
        self._losses: deque[_Loss] = deque()
        self._steps_at_start = [0] * len(plan.worker_slots)
        self.num_replaced = 0

    def covers(self, component: str) -> bool:
        """Tell whether this component may be replaced at all."""
        return self._options.on_worker_failure == "restart" and find_worker(component, self._plan) is not None

    @property
    def num_recent(self) -> int:
        """How many workers have been replaced within the last hour."""
        return len(self._losses)

    def num_lacking_memory(self, component: str) -> int:
        """Return how many processes of a worker were replaced within the last hour for want of memory."""
        return sum(loss.lacked_memory for loss in self._losses if loss.component == component)

    def find_objection(self, failure: Failure) -> str | None:
        """Return why the lost worker is not to be replaced; None: it is.

        A worker that raises before it has sampled the steps of one rollout of all its environments, or in the same way
        as a minute ago, would do so again and again: whoever writes the environment wants to hear of it now. A killed
        one has done nothing wrong; one whose environments leak has sampled for a while. One that hangs before its first
        rollout may have had bad luck once, as with a port that is taken.
        """
        now_s = self._clock()
        while self._losses and now_s - self._losses[0].at_s > _WINDOW_S:
            self._losses.popleft()
        if len(self._losses) >= self._options.max_worker_restarts:
            return (
                f"{len(self._losses)} workers have been replaced within an hour (--max_worker_restarts="
                f"{self._options.max_worker_restarts})"
            )
        if failure.was_raised and not self._has_sampled_a_rollout(failure.component):
            return "it had not finished a single rollout, and another one would not, either"
        if failure.message.startswith(EnvContractError.__name__):
            return "an environment that breaks its contract would do so again"
        own = [loss for loss in self._losses if loss.component == failure.component]
        if failure.is_hang and own and own[-1].hung_at_start and not self._has_sampled_a_rollout(failure.component):
            return "like the one that it had replaced, it hung before it had finished a single rollout"
        for loss in self._losses:
            is_same = (loss.component, loss.message) == (failure.component, failure.message)
            may_do_again = failure.lacks_memory or not failure.was_raised
            if is_same and not may_do_again and now_s - loss.at_s < _SAME_AGAIN_S:
                return "the worker that it had replaced failed in the same way"
        return None

    def note(self, failure: Failure) -> None:
        """Remember that the worker is replaced now."""
        hung_at_start = failure.is_hang and not self._has_sampled_a_rollout(failure.component)
        now_s = self._clock()
        self._losses.append(_Loss(failure.component, failure.message, now_s, failure.lacks_memory, hung_at_start))
        worker = find_worker(failure.component, self._plan)
        assert worker is not None
        self._steps_at_start[worker] = int(self._counters.agent_steps[worker].sum())
        self.num_replaced += 1

    def _has_sampled_a_rollout(self, component: str) -> bool:
        """Tell whether a worker has taken so many steps that one of its groups has finished a rollout for sure.

        The counter is of all groups together: as long as none has finished one, it is below this. It goes on with a
        successor, whose environments all begin new rollouts.
        """
        worker = find_worker(component, self._plan)
        assert worker is not None
        num_steps = int(self._counters.agent_steps[worker].sum()) - self._steps_at_start[worker]
        return num_steps >= self._plan.rollout * sum(len(group.rows) for group in self._plan.groups_of(worker))


def find_worker(component: str, plan: SamplingPlan) -> int | None:
    """Return which worker a component is, one that brings trajectories of other machines included; None: it is none."""
    return plan.remote_worker if component == REMOTE_SAMPLER else rollout_worker_index(component)
