"""Puts the components of a run together: each in a process of its own, or all in one, and lets them run."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sample_profiler.component_id import rollout_worker_index
from sample_profiler.errors import MessageError
from sample_profiler.profiling import set_timing
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.run.commands.selection import name_some
from sample_profiler.run.commands.sender import LocalTarget
from sample_profiler.run.env_probe import EnvProbe
from sample_profiler.run.extensions.component import RunComponent
from sample_profiler.run.extensions.extensions import Extensions
from sample_profiler.run.extensions.mailboxes import LocalMailbox, Mailbox, PipeMailbox
from sample_profiler.run.layout.blueprint import Blueprint
from sample_profiler.run.layout.topology import ComponentPlan, describe_processes, plan_components
from sample_profiler.run.lost_components.rescue import Rescue
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.processes import NoProcesses, Processes, StartedProcesses
from sample_profiler.run.records.run_records import RunRecords
from sample_profiler.run.resume_state import keep_resume_state
from sample_profiler.run.runner import Runner
from sample_profiler.run.runner_links import RunnerLinks
from sample_profiler.runtime.commands.process_captures import CHECK_INTERVAL_S, end_captures, end_due_captures
from sample_profiler.runtime.loop.event_loop import Component, EventLoop, LocalWaiter, LoopControl, PipeWaiter, Timer
from sample_profiler.runtime.loop.recording import Recording
from sample_profiler.runtime.loop.turns import Turns
from sample_profiler.runtime.machine.core_shares import choose_worker_threads
from sample_profiler.runtime.machine.libraries import tame_numerical_libraries
from sample_profiler.runtime.messages.channels import LocalReports
from sample_profiler.runtime.messages.heartbeats import FIRST_SIGN_S, Heartbeat
from sample_profiler.runtime.processes.child import finish_component, report_end
from sample_profiler.runtime.processes.child_process import Child
from sample_profiler.runtime.processes.failure import Failure, HangError
from sample_profiler.runtime.processes.main_thread_watch import MainThreadWatch, WatchedReports
from sample_profiler.runtime.processes.supervisor import GRACE_AFTER_FAILURE_S, Supervisor
from sample_profiler.runtime.surroundings.process_settings import SETTINGS_INTERVAL_S, ProcessSettings
from sample_profiler.vocabulary import FOR_COMPONENTS, START_UP, WAIT

__all__ = ["ParallelWiring", "SerialWiring", "Surroundings"]

logger = logging.getLogger(__name__)

_PROBE_INTERVAL_S = 1.0


@dataclass(frozen=True)
class Surroundings:
    """What there is of a run before its components.

    Attributes:
        recording: of this process.
        records: what all processes record.
        started_ns: when the run began, on the clock of blocks.
        watch: of this thread.
        probe: of the run's environment; None: that has ended.
    """

    recording: Recording
    records: RunRecords
    started_ns: int
    watch: MainThreadWatch
    probe: EnvProbe | None


class ParallelWiring:
    """Every component in a process of its own; the Runner in this one.

    Args:
        blueprint: of the run.
        observers: who is told how the run goes.
        surroundings: what there is of the run before its components.
        components: of the user's own.

    Attributes:
        runner: of the run.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        observers: Sequence[RunObserver],
        surroundings: Surroundings,
        components: Sequence[RunComponent] = (),
    ) -> None:
        self._blueprint = blueprint
        self._watch = watch = surroundings.watch
        self._supervisor = Supervisor()
        self._rescue = Rescue(blueprint, self._supervisor)
        self._processes = StartedProcesses(self._supervisor, watch, self._rescue)
        self._control = LoopControl()
        extensions = _make_extensions(blueprint, components, PipeMailbox)
        self.runner = _make_runner(blueprint, observers, surroundings, [], self._processes, self._control, extensions)
        self._timers = [surroundings.recording.timer(), Timer(CHECK_INTERVAL_S, partial(end_due_captures, watch.beat))]
        if surroundings.probe is not None:
            self._timers.append(Timer(_PROBE_INTERVAL_S, surroundings.probe.look))

    def start(self) -> None:
        """Start the processes of all components, or of no more once the run is to end.

        Raises:
            OSError: the system has no room for one of them.
        """
        try:
            for plan in _plan_connected(self._blueprint, self.runner):
                if self.runner.reason:
                    break
                self.runner.watch(self._supervisor.spawn(plan.settings, plan.make))
            answers = LocalReports()
            runner = LocalTarget(self.runner, answers, self._watch.beat)
            self.runner.command([runner, *self._supervisor.children], answers)
        except BaseException:  # Ctrl+C, too: this process would wait for the children at its exit, and they for it
            self._supervisor.kill()
            raise

    def run(self) -> None:
        """Let the components work until the run ends."""
        self.runner.introduce()
        if self.runner.reason:
            return
        beat, alive = self._supervisor.beat, self._watch.beat
        EventLoop([self.runner], PipeWaiter, beat, timers=self._timers, alive=alive, control=self._control).run()

    def stop(self) -> None:
        """End all components, and take what they still report."""
        grace_s = GRACE_AFTER_FAILURE_S if self.runner.failure else math.inf
        end_captures(self._watch.beat)
        places: dict[str, str] = {}
        with self.runner.timing.add_time(WAIT + FOR_COMPONENTS):
            # Where a component has failed others may be about to tell of the same.
            is_over = self.runner.is_interrupted or self.runner.has_failed_itself
            beginners = self._end_beginners() if is_over else []
            killed = self._supervisor.stop(grace_s, self._take_reports, partial(self._note_place, places))
        missed = {}
        for child in self._supervisor.children:
            if child in beginners:
                continue
            if child in killed:
                waited_s = min(grace_s, child.patience_s)
                missed[child.name] = f"it did not end within {waited_s:g} seconds and was killed{places[child.name]}"
            elif not self.runner.ends.knows(child.name):
                missed[child.name] = f"its process {child.describe_exit()} before it had finished"
        self.runner.ends.miss(missed)
        for child in self._supervisor.children:  # those, too, that had not begun, or could not tell of their end
            self.runner.extensions.note_end(child.name)

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

    def _note_place(self, places: dict[str, str], child: Child) -> None:
        """Note where a component is that has to be killed, for those who wonder what takes it so long."""
        place = self._rescue.describe_end(child)
        places[child.name] = f": it was in {place}" if place else ""

    def _take_reports(self) -> None:
        self._watch.beat()
        with contextlib.suppress(MessageError):  # who cannot finish then is killed
            self._blueprint.transport.release()
        for child in self._supervisor.children:
            self.runner.handle_reports(child.reports.receive())
        self.runner.extensions.deliver()  # who ends hears what it has not heard, as far as there is time


class SerialWiring:
    """All components in this process, one loop for all of them; arguments and attributes are those of the other."""

    def __init__(
        self,
        blueprint: Blueprint,
        observers: Sequence[RunObserver],
        surroundings: Surroundings,
        components: Sequence[RunComponent] = (),
    ) -> None:
        self._blueprint = blueprint
        self._watch = surroundings.watch
        settings = surroundings.probe.settings if surroundings.probe else None
        self._settings = ProcessSettings() if settings is None else settings
        self._recording = surroundings.recording
        self._started_ns = surroundings.started_ns
        self._turns = Turns()
        self._components: list[Component] = []
        self._with_others_code: set[str] = set()
        self._reports = WatchedReports(self._watch)
        self._active = ""
        self._loop: EventLoop | None = None
        self._control = LoopControl()
        extensions = _make_extensions(blueprint, components, LocalMailbox)
        self.runner = _make_runner(
            blueprint, observers, surroundings, [self._reports], NoProcesses(), self._control, extensions
        )

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
        except BaseException as error:  # observers see the run, too: they are told of its end
            if isinstance(error, KeyboardInterrupt):
                raise
            runner.take_error(self._active, error)
        turns.begin(runner.name)
        answers = LocalReports()
        components, beat = [runner, *self._components], self._watch.beat
        runner.command([LocalTarget(component, answers, beat) for component in components], answers)
        runner.introduce()
        timers = [
            self._recording.timer(),
            Timer(CHECK_INTERVAL_S, partial(end_due_captures, beat)),
            Timer(SETTINGS_INTERVAL_S, self._settings.check),
        ]
        loop = self._loop = EventLoop(
            components,
            LocalWaiter,
            turns=turns,
            timers=timers,
            alive=self._beat,
            control=self._control,
            on_begun=lambda name: self._reports.send(Heartbeat(name)),
        )
        if not runner.reason:  # looked at last: a signal from now on stops the loop
            keep_resume_state(self._blueprint, self._components, loop, runner)
            loop.run()

    def stop(self) -> None:
        """End all components, and take what they still report."""
        self._settings.check()
        for component in self._components:
            self._turns.begin(component.name)
            set_timing(component.timing, process_wide=True)
            self._watch.beat()
            try:
                finish_component(component, self._reports)
            except HangError as error:
                if rollout_worker_index(component.name) is None:
                    self.runner.fail(Failure.from_exception(component.name, error))
                    continue
                logger.warning("%s did not end: its environments, and those of others, are not closed", component.name)
                break  # workers are the last ones, and nothing but the environments of the others is left
        self._turns.begin(self.runner.name)
        end_captures(self._watch.beat)
        self._settings.check()
        self._turns.settle()
        for component in self._components:
            report_end(component, self._reports, is_recorded=self._recording.path is not None)
        self.runner.handle_reports(self._reports.receive())

    def kill(self) -> None:
        """Nothing but this process is there to be ended."""

    def active_component(self) -> str:
        """Return who is at work in this process."""
        return self._loop.active.name if self._loop else self._active

    def _beat(self) -> None:
        self._watch.beat()
        if self.active_component() in self._with_others_code:  # it has been, and the next one begins
            self._settings.look()

    def _make_components(self) -> None:
        for plan in _plan_connected(self._blueprint, self.runner):
            if self.runner.reason:  # a signal meanwhile
                break
            self._active = plan.settings.name
            self._turns.begin(self._active)
            self._settings.expect_change()
            self._watch.beat(FIRST_SIGN_S)  # for libraries; whoever makes environments beats
            try:
                component = plan.make(self._reports)
            finally:
                if plan.settings.has_environments:
                    self._with_others_code.add(self._active)
                    self._settings.check()
            self._turns.join(self._active, component.timing)
            component.timing.backdate(self._started_ns, START_UP)
            self._recording.attach(component)
            self._components.append(component)


def _make_runner(
    blueprint: Blueprint,
    observers: Sequence[RunObserver],
    surroundings: Surroundings,
    reports: Sequence[LocalReports],
    processes: Processes,
    control: LoopControl,
    extensions: Extensions,
) -> Runner:
    recording = surroundings.recording
    links = RunnerLinks(reports, processes, surroundings.records, recording.update, control, extensions)
    start_s, age_s = time.monotonic(), (time.perf_counter_ns() - surroundings.started_ns) / NS_PER_S
    blueprint.counters.goal_times.begin(start_s, start_s - age_s)
    runner = Runner(
        blueprint.config,
        blueprint.counters,
        blueprint.plan.num_agents_of_policy,
        blueprint.run_folder,
        observers,
        links,
        start_s,
    )
    runner.timing.backdate(surroundings.started_ns, START_UP)
    recording.attach(runner)
    return runner


def _make_extensions(
    blueprint: Blueprint, components: Sequence[RunComponent], make_mailbox: Callable[[str], Mailbox]
) -> Extensions:
    return Extensions(components, list(describe_processes(blueprint)), make_mailbox)


def _plan_connected(blueprint: Blueprint, runner: Runner) -> list[ComponentPlan]:
    """Have everybody connect to signals, and return the components that the run has then."""
    runner.connect_components()
    return plan_components(blueprint, runner.extensions.told, runner.extensions.plan(blueprint))
