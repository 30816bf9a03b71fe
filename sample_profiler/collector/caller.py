"""Owns the caller of a Collector as a component: what it hears of the workers, and the loop in which it listens."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from sample_profiler.components.messages import EpisodesFinished, EpisodeStatistics
from sample_profiler.errors import SampleProfilerError
from sample_profiler.profiling import Timing
from sample_profiler.runtime.commands.commands import CommandResult
from sample_profiler.runtime.loop.event_loop import EventLoop, Input, LoopControl, Timer
from sample_profiler.runtime.messages.channels import Channel
from sample_profiler.runtime.processes.child import SharedMemoryNames
from sample_profiler.runtime.processes.child_process import Child
from sample_profiler.runtime.processes.failure import Failure
from sample_profiler.vocabulary import FINISHED_TRAJECTORIES, FOR_ROLLOUT_WORKERS, WAIT

__all__ = ["MAX_EPISODES", "Caller", "CollectorError", "PausableLoop"]

_LOOK_INTERVAL_S = 0.25
MAX_EPISODES = 100_000  # that nobody has asked for


class CollectorError(SampleProfilerError):
    """The workers of a Collector cannot go on: one of them failed, or did not answer in time."""


class Caller:
    """Takes what workers have finished, and what they report.

    Args:
        finished: slots that have been filled.
        reports: queues of the workers of this process.
        loop: stops the loop that this runs in.
        children: processes of the other workers.
        note_shared_memory: remembers named shared memory, to be removed with the processes that use it.
        explain_end: says why a process has ended that has not told it.

    Attributes:
        finished: slots that nobody has taken yet, oldest first.
        results: of the latest command, by component.
        failure: why a worker cannot go on; None: all can.
        episodes: that have ended and that nobody has taken yet, oldest first.
        is_satisfied: whether there is what the caller waits for, so that the loop may stop.
    """

    def __init__(
        self,
        finished: Channel,
        reports: Sequence[Any],
        loop: LoopControl,
        children: Sequence[Child] = (),
        note_shared_memory: Callable[[SharedMemoryNames], None] = lambda _: None,
        explain_end: Callable[[Child], Failure] = lambda child: Failure(
            child.name, child.describe_exit(), child.describe_crash()
        ),
    ) -> None:
        self.name = "Collector"
        self.timing = Timing("Collector profile")
        self.finished: deque[int] = deque()
        self.results: dict[str, CommandResult] = {}
        self.failure: Failure | None = None
        self.episodes: deque[EpisodeStatistics] = deque(maxlen=MAX_EPISODES)
        self.is_satisfied: Callable[[], bool] = lambda: False
        self._finished_slots = finished
        self._reports = [*reports, *(child.reports for child in children)]
        self._exits = [child.exit for child in children]
        self._loop = loop
        self._note_shared_memory = note_shared_memory
        self._explain_end = explain_end

    def inputs(self) -> list[Input]:
        """Listen to workers, to what they report, and to their ends."""
        return [
            Input(self._finished_slots, self._on_finished),
            *(Input(source, self.handle_reports) for source in self._reports),
            *(Input(source, self._on_exits) for source in self._exits),
        ]

    def timers(self) -> list[Timer]:
        """Look at the clock, which may be what the caller waits for."""
        return [Timer(_LOOK_INTERVAL_S, self._look)]

    def gauges(self) -> dict[str, float]:
        """Measure how much waits for the caller."""
        return {FINISHED_TRAJECTORIES: len(self.finished)}

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Offer nothing."""
        return {}

    def start(self) -> None:
        """Wait for the first trajectories."""

    def wait_block(self) -> str:
        """Tell that the caller waits for trajectories."""
        return WAIT + FOR_ROLLOUT_WORKERS

    def finish(self) -> None:
        """Nothing to let go of."""

    def handle_reports(self, reports: list[Any]) -> None:
        """Take in what components report; also called while they are being stopped."""
        for report in reports:
            match report:
                case logging.LogRecord():
                    if logging.getLogger(report.name).isEnabledFor(report.levelno):
                        logging.getLogger(report.name).handle(report)
                case EpisodesFinished():
                    self.episodes.extend(report.episodes)
                case CommandResult():
                    self.results[report.component] = report
                case Failure():
                    self.fail(report)
                case SharedMemoryNames():
                    self._note_shared_memory(report)
        self._look()

    def fail(self, failure: Failure) -> None:
        """End the loop because of a failure; the first one counts."""
        if self.failure is None:
            self.failure = failure
        self._loop.stop()

    def _on_finished(self, slots: list[int]) -> None:
        self.finished.extend(slots)
        self._look()

    def _on_exits(self, children: list[Child]) -> None:
        for child in children:
            self.handle_reports(child.reports.receive())  # it may have said why
            self.fail(self._explain_end(child))

    def _look(self) -> None:
        if self.is_satisfied():
            self._loop.stop()


class PausableLoop(EventLoop):
    """A loop that can be stopped and run again; `start` starts its components, once."""

    def run(self) -> None:
        """Wait and dispatch until stopped; starts nobody."""
        self.control.is_stopping = False
        self._has_begun = False  # what the caller's program records is the caller's, until now
        while not self.control.is_stopping:
            self._turn()
