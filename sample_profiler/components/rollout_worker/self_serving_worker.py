"""The SelfServingWorker: a RolloutWorker that draws its actions itself (`--inference=worker`).

One component with one Timing: what inference does stands in the worker's tree beside the steps of its environments.
RolloutWorker and InferenceWorker are those of the usual wiring; requests and actions go through in-process queues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sample_profiler.components.inference_worker import InferenceWorker
from sample_profiler.components.rollout_worker.worker import RolloutWorker
from sample_profiler.runtime.loop.event_loop import Input, Timer
from sample_profiler.vocabulary import WAIT_FOR_TRAJECTORIES, WAIT_POLICY

__all__ = ["SelfServingWorker"]


class SelfServingWorker:
    """Steps environments, and runs the policies that they follow.

    Args:
        worker: steps the environments.
        inference: for each policy, who draws its actions; records in the worker's Timing.
    """

    def __init__(self, worker: RolloutWorker, inference: Sequence[InferenceWorker]) -> None:
        self.name = worker.name
        self.timing = worker.timing
        self._worker = worker
        self._inference = inference

    def inputs(self) -> list[Input]:
        """Listen to the Batcher and the Learner, and to itself."""
        return [*self._worker.inputs(), *(entry for member in self._inference for entry in member.inputs())]

    def timers(self) -> list[Timer]:
        """Do at intervals what the worker does."""
        return self._worker.timers()

    def gauges(self) -> dict[str, float]:
        """Measure what the worker measures, and the batches of inference (of the first policy, if there are more)."""
        return self._inference[0].gauges() | self._worker.gauges()

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Offer what the worker offers; both of its stages may be made slower."""
        return self._worker.commands() | {"set_slowdown": self._set_slowdown}

    def _set_slowdown(self, stage: str, share: float, seconds: float) -> None:
        for member in self._inference if stage == "inference" else [self._worker]:
            member.commands()["set_slowdown"](stage, share, seconds)

    def start(self) -> None:
        """Begin to sample."""
        for member in self._inference:
            member.start()
        self._worker.start()

    def wait_block(self) -> str:
        """Tell whom it waits for: the Learner, for its first weights or for free slots."""
        blocks = [member.wait_block() for member in self._inference]
        return WAIT_POLICY if WAIT_POLICY in blocks else WAIT_FOR_TRAJECTORIES

    def finish(self) -> None:
        """Let go of everything."""
        for member in self._inference:
            member.finish()
        self._worker.finish()
