"""The Batcher: collects finished trajectories of one policy into datasets for its Learner, and gives slots back.

Runs in a process of its own (parallel wiring). Moves slot indices only; the trajectories stay where they were written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sample_profiler.component_id import BATCHER, ComponentId
from sample_profiler.profiling import Timing
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.profiling.record.flows import SLOT, STEP, flow_point
from sample_profiler.runtime.loop.event_loop import Input, Timer
from sample_profiler.runtime.messages.channels import Channel
from sample_profiler.storage.sampling_plan import SamplingPlan
from sample_profiler.vocabulary import (
    FINISHED_TRAJECTORIES,
    FOR_LEARNER,
    FOR_ROLLOUT_WORKERS,
    TRAJECTORIES_AT_LEARNER,
    WAIT,
)

__all__ = ["Batcher", "BatcherPorts"]


@dataclass(frozen=True)
class BatcherPorts:
    """Where a Batcher listens and talks.

    Attributes:
        finished: slots that RolloutWorkers have filled.
        trained: slots that the Learner is done with.
        datasets: slots for the Learner, `dataset_slots` at a time.
        free: for each RolloutWorker, slots that it may fill again.
    """

    finished: Channel
    trained: Channel
    datasets: Channel
    free: Sequence[Channel]


class Batcher:
    """Makes datasets in the order in which trajectories were finished.

    Args:
        policy: index of the policy.
        plan: who samples what.
        max_datasets: how many datasets the Learner may have at once, the one that it trains on included.
        ports: where to listen and talk.
    """

    def __init__(self, policy: int, plan: SamplingPlan, max_datasets: int, ports: BatcherPorts) -> None:
        self.name = str(ComponentId(BATCHER, policy))
        self.timing = Timing(f"Batcher {policy} profile")
        self._policy = policy
        self._plan = plan
        self._dataset_slots = plan.dataset_slots
        self._max_slots_at_learner = plan.dataset_slots * max_datasets
        self._ports = ports
        self._finished: deque[int] = deque()
        self._at_learner: set[int] = set()
        self._withheld = set(plan.later_slots(policy))
        self._lost_workers: set[int] = set()

    def inputs(self) -> list[Input]:
        """Listen to workers and the Learner."""
        return [Input(self._ports.finished, self._on_finished), Input(self._ports.trained, self._on_trained)]

    def timers(self) -> list[Timer]:
        """Do nothing at intervals."""
        return []

    def gauges(self) -> dict[str, float]:
        """Measure how much waits here and at the Learner."""
        return {FINISHED_TRAJECTORIES: len(self._finished), TRAJECTORIES_AT_LEARNER: len(self._at_learner)}

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Offer what it takes to replace a RolloutWorker."""
        return {"forget_worker": self.forget_worker, "readmit_worker": self.readmit_worker}

    def forget_worker(self, worker: int) -> None:
        """Give no more slots back to a RolloutWorker that is gone, until `readmit_worker`."""
        self._lost_workers.add(worker)

    def readmit_worker(self, worker: int) -> int:
        """Give the successor of a lost RolloutWorker all slots that are its own to fill, and return how many.

        Those are all but the ones that its predecessor has finished and that have not been trained on yet, and before
        the first training step those that are still withheld.
        """
        if finished := self._ports.finished.receive():  # what the predecessor had still sent
            self._on_finished(finished)
        taken = self._at_learner.union(self._finished, self._withheld)
        slots = [slot for slot in self._plan.worker_slots[worker][self._policy] if slot not in taken]
        self._lost_workers.discard(worker)
        self._ports.free[worker].send(slots)
        return len(slots)

    def start(self) -> None:
        """Wait for the first trajectories."""

    def course(self) -> dict[str, Any]:
        """Return where it is, as plain data for `follow`."""
        return {"finished": list(self._finished), "at_learner": sorted(self._at_learner)}

    def follow(self, course: dict[str, Any]) -> None:
        """Go on from a course instead of the beginning; before `start`."""
        self._finished = deque(course["finished"])
        self._at_learner = set(course["at_learner"])

    def wait_block(self) -> str:
        """Tell whom the Batcher waits for: workers for trajectories, or the Learner to take more."""
        return WAIT + FOR_ROLLOUT_WORKERS if len(self._finished) < self._dataset_slots else WAIT + FOR_LEARNER

    def finish(self) -> None:
        """Nothing to let go of."""

    @profile_range("Batcher.batch")
    def _on_finished(self, slots: list[int]) -> None:
        with self.timing.add_time("batching"):
            for slot in slots:
                self.timing.mark_flow(flow_point(STEP, SLOT, slot))
            self._finished.extend(slots)
            self._make_datasets()

    @profile_range("Batcher.release")
    def _on_trained(self, slots: list[int]) -> None:
        with self.timing.add_time("releasing_batches"):
            self._at_learner.difference_update(slots)
            slots = [*slots, *sorted(self._withheld)]
            self._withheld.clear()
            for worker, freed in self._plan.by_worker(slots).items():
                if worker not in self._lost_workers:
                    self._ports.free[worker].send(freed)
        with self.timing.add_time("batching"):
            self._make_datasets()

    def _make_datasets(self) -> None:
        size = self._dataset_slots
        while len(self._finished) >= size and len(self._at_learner) + size <= self._max_slots_at_learner:
            dataset = [self._finished.popleft() for _ in range(size)]
            self._at_learner.update(dataset)
            self._ports.datasets.send(dataset)
