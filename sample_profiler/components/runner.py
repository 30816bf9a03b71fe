"""The Runner: listens to all components, decides when the run ends, and keeps its books.

Runs in the main process. It does no work that training waits for.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from sample_profiler.components.messages import Counters, EpisodesFinished, TargetReached, TrainingStatistics
from sample_profiler.components.statistics import RunObserver, RunStatistics
from sample_profiler.components.topology import frames_per_step
from sample_profiler.config import Config
from sample_profiler.profiling import Timing
from sample_profiler.profiling.timer_documents import WorkerTimers, make_run_document, write_document
from sample_profiler.profiling.timer_nodes import GaugeNode, TimerNode
from sample_profiler.profiling.timer_stacks import get_thread_stacks
from sample_profiler.profiling.timers import get_timer_root
from sample_profiler.runtime.child import Failure, Finished, Heartbeat
from sample_profiler.runtime.deliveries import process_gauges
from sample_profiler.runtime.event_loop import Input, Timer

__all__ = ["EndedProcess", "Runner", "Silences"]

logger = logging.getLogger(__name__)

_STATUS_INTERVAL_S = 1.0


class EndedProcess(Protocol):
    """A child process, as far as its end concerns the Runner."""

    name: str
    reports: Any

    def describe_exit(self) -> str:
        """Say how it ended."""


class Silences:
    """Tells which components have not shown a sign of life for too long.

    Args:
        limit_s: after which a silence is worth telling, and told again.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._heard_s: dict[str, float] = {}
        self._told_s: dict[str, float] = {}

    def hear(self, component: str) -> None:
        """Note a sign of life; the first one begins the watch."""
        self._heard_s[component] = self._told_s[component] = time.monotonic()

    def forget(self, component: str) -> None:
        """Stop watching a component that has finished."""
        self._told_s.pop(component, None)

    def find(self) -> list[tuple[str, float]]:
        """Return the components that it is time to tell of, and for how many seconds they have been silent."""
        now_s = time.monotonic()
        late = [component for component, told_s in self._told_s.items() if now_s - told_s >= self._limit_s]
        self._told_s.update(dict.fromkeys(late, now_s))
        return [(component, now_s - self._heard_s[component]) for component in late]


class Runner:
    """Watches a run.

    Args:
        config: of the run.
        counters: that the components share.
        reports: report queues of all components.
        exits: sources that tell of the end of a process; none in the serial wiring.
        observers: who is told how the run goes.
        start_s: when the first component was started (monotonic clock).
        run_folder: where the run's files are.

    Attributes:
        stop_loop: ends the loop that the Runner runs in; set by whoever made the loop.
        failure: why the run failed; None: it did not.
        reason: why the run ended, in words.
        timings: Timing of every component that has finished, as plain data, by component.
    """

    def __init__(
        self,
        config: Config,
        counters: Counters,
        reports: Sequence[Any],
        exits: Sequence[Any],
        observers: Sequence[RunObserver],
        start_s: float,
        run_folder: Path,
    ) -> None:
        self.name = "Runner"
        self.timing = Timing("Runner profile")
        self.statistics = RunStatistics(
            counters,
            config.sampling.num_policies,
            config.saving.train_for_env_steps,
            frames_per_step(config),
            config.machine.stats_avg,
            start_s,
        )
        self.stop_loop: Callable[[], None] = lambda: None
        self.failure: Failure | None = None
        self.reason = ""
        self.timings: dict[str, dict[str, Any]] = {}
        self._config = config
        self._counters = counters
        self._reports = reports
        self._exits = exits
        self._observers = observers
        self._silences = Silences(config.machine.heartbeat_reporting_interval)
        self._timers_path = run_folder / "summary" / f"{run_folder.name}_timers.json"
        self._deliveries: dict[tuple[str, int], WorkerTimers] = {}
        self._gauges: dict[str, GaugeNode] = {}
        self._policies_to_train = set(range(config.sampling.num_policies))

    def inputs(self) -> list[Input]:
        """Listen to everybody."""
        return [
            *(Input(source, self.handle_reports) for source in self._reports),
            *(Input(source, self._on_exits) for source in self._exits),
        ]

    def timers(self) -> list[Timer]:
        """Look at the clock, tell observers."""
        return [
            Timer(_STATUS_INTERVAL_S, self._update_status),
            Timer(self._config.machine.experiment_summaries_interval, self._write_summaries),
        ]

    def gauges(self) -> dict[str, float]:
        """Measure throughput."""
        return {"fps": self.statistics.throughput.rate(10)}

    def start(self) -> None:
        """Wait for the first report."""

    def wait_block(self) -> str:
        """Tell that the Runner waits for any component."""
        return "wait_components"

    def finish(self) -> None:
        """Take the last figures and let observers go."""
        self._update_status()
        self._write_summaries()
        for observer in self._observers:
            observer.on_stop()

    def expect_heartbeats(self, components: Iterable[str]) -> None:
        """Watch for signs of life of these components from now on."""
        for component in components:
            self._silences.hear(component)

    def interrupt(self, reason: str) -> None:
        """End the run early, on behalf of its user."""
        self._end(reason)

    def handle_reports(self, reports: list[Any]) -> None:
        """Take in what components report; also called while they are being stopped."""
        for report in reports:
            match report:
                case logging.LogRecord():
                    logging.getLogger(report.name).handle(report)
                case EpisodesFinished():
                    self.statistics.add_episodes(report.episodes)
                    self._update_metrics()
                case TrainingStatistics():
                    self.statistics.add_training(report.policy, report.values)
                case TargetReached():
                    self._policies_to_train.discard(report.policy)
                    if not self._policies_to_train:
                        self._end("all policies have been trained for as many frames as asked")
                case Failure():
                    self.fail(report)
                case Finished():
                    self.timings[report.component] = report.timing
                    self._silences.forget(report.component)
                case WorkerTimers():
                    self._deliveries[report.worker, report.process] = report
                case Heartbeat():
                    self._silences.hear(report.component)

    def fail(self, failure: Failure) -> None:
        """End the run because of a failure; the first one counts, later ones are often its consequences."""
        text = f"{failure.component} failed: {failure.message}\n{failure.traceback_text}"
        logger.error("%s", text.rstrip())
        if self.failure is None:
            self.failure = failure
        self._end(f"{failure.component} failed")

    def _end(self, reason: str) -> None:
        if not self.reason:
            self.reason = reason
        self.stop_loop()

    def _on_exits(self, processes: list[EndedProcess]) -> None:
        for process in processes:
            self.handle_reports(process.reports.receive())  # it may have said why
            if self.failure is None and not self.reason:
                self.fail(Failure(process.name, f"its process {process.describe_exit()}", ""))

    def _update_status(self) -> None:
        self.statistics.sample()
        status = self.statistics.status()
        for observer in self._observers:
            observer.on_status(status)
        for component, silent_s in self._silences.find() if not self.reason else ():
            logger.warning("%s has shown no sign of life for %.0f s", component, silent_s)
        if self.statistics.elapsed_s >= self._config.saving.train_for_seconds:
            self._end("the run has trained for as many seconds as asked")

    def _write_summaries(self) -> None:
        status = self.statistics.status()
        for observer in self._observers:
            observer.on_summaries(status)
        self._write_timers()

    def _write_timers(self) -> None:
        """Write the timers and gauges of all processes as they were last delivered."""
        for name, value in (self.gauges() | process_gauges()).items():
            self._gauges.setdefault(name, GaugeNode()).update(value)
        own = WorkerTimers(
            worker=self.name, group=self.name, process=os.getpid(), root=TimerNode.from_tree(self.timing.snapshot())
        )
        stack = get_thread_stacks().current()
        document = make_run_document(
            get_timer_root(), stack.gauges | self._gauges, stack.metadata, [own, *self._deliveries.values()]
        )
        try:
            write_document(document, self._timers_path)
        except OSError as error:  # a full disk is no reason to end a run, nor to lose its last words
            logger.warning("Cannot write the timers: %s", error)

    def _update_metrics(self) -> None:
        for policy in range(self._config.sampling.num_policies):
            metric = self.statistics.metric(policy, self._config.saving.save_best_metric)
            if metric is not None:
                self._counters.metric[policy] = metric
