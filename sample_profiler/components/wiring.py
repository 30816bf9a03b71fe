"""Puts the components of a run together: each in a process of its own, or all in one, and lets them run."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence

from sample_profiler.components.blueprint import Blueprint
from sample_profiler.components.course import keep_course
from sample_profiler.components.crew import LocalMember
from sample_profiler.components.observers import RunObserver
from sample_profiler.components.rescue import Rescue
from sample_profiler.components.runner import Runner
from sample_profiler.components.selection import name_some
from sample_profiler.components.topology import plan_components
from sample_profiler.profiling import set_timing
from sample_profiler.runtime.channels import LocalReports
from sample_profiler.runtime.child import finish_component, report_end
from sample_profiler.runtime.event_loop import Component, EventLoop, LocalWaiter, PipeWaiter, Timer
from sample_profiler.runtime.failure import Failure
from sample_profiler.runtime.machine import choose_worker_threads, tame_numerical_libraries
from sample_profiler.runtime.process_captures import CHECK_INTERVAL_S, end_captures, end_due_captures
from sample_profiler.runtime.recording import Recording
from sample_profiler.runtime.supervisor import GRACE_AFTER_FAILURE_S, Child, Supervisor
from sample_profiler.runtime.turns import Turns

__all__ = ["ParallelWiring", "SerialWiring"]

logger = logging.getLogger(__name__)


class ParallelWiring:
    """Every component in a process of its own; the Runner in this one.

    Args:
        blueprint: of the run.
        observers: who is told how the run goes.
        recording: of this process.
        started_ns: when the run began, on the clock of blocks.

    Attributes:
        runner: of the run.
    """

    def __init__(
        self, blueprint: Blueprint, observers: Sequence[RunObserver], recording: Recording, started_ns: int
    ) -> None:
        self._blueprint = blueprint
        self.runner = _make_runner(blueprint, [], observers)
        self.runner.timing.backdate(started_ns)
        self._supervisor = Supervisor()
        self.runner.beat = self._supervisor.beat
        self.runner.beating = self._supervisor.beating
        self.runner.note_shared_memory = self._supervisor.note_shared_memory
        self.runner.guard.rescue = Rescue(blueprint, self._supervisor)
        self._timers = [recording.timer(), Timer(CHECK_INTERVAL_S, end_due_captures)]

    def start(self) -> None:
        """Start the processes of all components, or of no more once the run is to end.

        Raises:
            OSError: the system has no room for one of them.
        """
        try:
            for plan in plan_components(self._blueprint):
                if self.runner.reason:
                    break
                self.runner.watch(self._supervisor.spawn(plan.settings, plan.make))
            answers = LocalReports()
            self.runner.command([LocalMember(self.runner, answers), *self._supervisor.children], answers)
            self._loop = EventLoop([self.runner], PipeWaiter, self._supervisor.beat, timers=self._timers)
            self.runner.stop_loop = self._loop.stop
            self.runner.refresh_loop = self._loop.refresh
        except BaseException:  # Ctrl+C, too: this process would wait for the children at its exit, and they for it
            self._supervisor.kill()
            raise

    def run(self) -> None:
        """Let the components work until the run ends."""
        self.runner.introduce()
        if not self.runner.reason:
            self._loop.run()

    def stop(self) -> None:
        """End all components, and take what they still report."""
        grace_s = GRACE_AFTER_FAILURE_S if self.runner.failure else math.inf
        end_captures()
        with self.runner.timing.add_time("wait_components"):
            beginners = self._end_beginners() if self.runner.is_interrupted else []
            killed = self._supervisor.stop(grace_s, self._take_reports)
        missed = {}
        for child in self._supervisor.children:
            if child in beginners:
                continue
            if child in killed:
                waited_s = min(grace_s, child.patience_s)
                missed[child.name] = f"it did not end within {waited_s:g} seconds and was killed"
            elif not self.runner.knows_end_of(child.name):
                missed[child.name] = f"its process {child.describe_exit()} before it had finished"
        self.runner.miss_ends(missed)

    def _end_beginners(self) -> list[Child]:
        """Kill components that still load their libraries or make their environments, and return them.

        The signal that ends the run may have ended them already, if it went to all processes.
        """
        self._take_reports()
        beginners = [
            child
            for child in self._supervisor.children
            if (child.is_alive() or child.was_asked_to_end) and not self.runner.guard.has_begun(child.name)
        ]
        self._supervisor.kill_now(beginners)
        if beginners:
            logger.info("Ended before they had begun: %s", name_some([child.name for child in beginners]))
        return beginners

    def kill(self) -> None:
        """End all processes at once."""
        self._supervisor.kill()

    def active_component(self) -> str:
        """Return who is at work in this process."""
        return self.runner.name

    def _take_reports(self) -> None:
        for child in self._supervisor.children:
            self.runner.handle_reports(child.reports.receive())


class SerialWiring:
    """All components in this process, one loop for all of them; arguments and attributes are those of the other."""

    def __init__(
        self, blueprint: Blueprint, observers: Sequence[RunObserver], recording: Recording, started_ns: int
    ) -> None:
        self._blueprint = blueprint
        self._recording = recording
        self._started_ns = started_ns
        self._turns = Turns()
        self._components: list[Component] = []
        self._reports = LocalReports()
        self._active = ""
        self._loop: EventLoop | None = None
        self.runner = _make_runner(blueprint, [self._reports], observers)
        self.runner.timing.backdate(started_ns)

    def start(self) -> None:
        """Nothing but this process is there, and it has begun."""

    def run(self) -> None:
        """Let the components work until the run ends."""
        tame_numerical_libraries(choose_worker_threads(1))
        turns, runner = self._turns, self.runner
        turns.begin(runner.name)
        turns.join(runner.name, runner.timing)
        try:
            self._make_components()
        except (Exception, SystemExit) as error:  # observers see the run all the same: they are told of its end
            runner.fail(Failure.from_exception(self._active, error))
        turns.begin(runner.name)
        answers = LocalReports()
        runner.command([LocalMember(component, answers) for component in (runner, *self._components)], answers)
        runner.introduce()
        timers = [self._recording.timer(), Timer(CHECK_INTERVAL_S, end_due_captures)]
        self._loop = EventLoop([runner, *self._components], LocalWaiter, turns=turns, timers=timers)
        runner.stop_loop = self._loop.stop
        if not runner.reason:  # looked at last: a signal from now on stops the loop
            keep_course(self._blueprint, self._components, self._loop, runner)
            self._loop.run()

    def stop(self) -> None:
        """End all components, and take what they still report."""
        for component in self._components:
            self._turns.begin(component.name)
            set_timing(component.timing, process_wide=True)
            finish_component(component, self._reports)
        self._turns.begin(self.runner.name)
        end_captures()
        self._turns.settle()
        for component in self._components:
            report_end(component, self._reports)
        self.runner.handle_reports(self._reports.receive())

    def kill(self) -> None:
        """Nothing but this process is there to be ended."""

    def active_component(self) -> str:
        """Return who is at work in this process."""
        return self._loop.active.name if self._loop else self._active

    def _make_components(self) -> None:
        for plan in plan_components(self._blueprint):
            if self.runner.reason:  # a signal meanwhile
                break
            self._active = plan.settings.name
            self._turns.begin(self._active)
            component = plan.make(self._reports)
            self._turns.join(self._active, component.timing)
            component.timing.backdate(self._started_ns)
            self._recording.attach(component)
            self._components.append(component)


def _make_runner(blueprint: Blueprint, reports: Sequence[LocalReports], observers: Sequence[RunObserver]) -> Runner:
    return Runner(
        blueprint.config,
        blueprint.counters,
        reports,
        observers,
        time.monotonic(),
        blueprint.run_folder,
        blueprint.plan.num_agents_of_policy,
    )
