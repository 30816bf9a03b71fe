"""Owns what happens inside a child process: one component, one event loop, and reports of how it went.

What a child guarantees, whatever its component does:

1. An exception anywhere, the constructor included, reaches the Runner as a `Failure` with its traceback, and the exit
   status is 1; unless the child was asked to end by a signal (3.): its simulators may have got that, too.
2. Whatever happened, the component's `finish` runs and the Runner hears of its end in a `Finished`.
3. Ctrl+C in the terminal does not reach it (it has a session of its own): the Runner decides. SIGTERM and SIGHUP to
   the child itself end its loop; it finishes, and then dies of the signal.
4. When the Runner is gone, or has been silent for too long, the child finishes, within its patience, and takes its own
   children with it. A Runner that goes on one day, as one that was suspended, finds in its log why. Reports that the
   pipe has no room for are dropped then, and only then: a child that waited for room could not finish.
5. Asked by a signal, it writes down where all of its threads are, whatever they are doing (`STACKS_SIGNAL`).
6. Log records travel to the Runner, which writes the only log.
7. Nothing fails because standard output or error cannot be written to (any more): an environment may print.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import logging
import logging.handlers
import math
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from sample_profiler.errors import FROM_OUTSIDE, shorten
from sample_profiler.profiling.record.process_clock import process_start_ns
from sample_profiler.runtime.commands.commands import CAPTURE_COMMANDS, Command, Patience, run_command
from sample_profiler.runtime.commands.process_captures import CHECK_INTERVAL_S, end_captures, end_due_captures
from sample_profiler.runtime.loop.event_loop import Component, EventLoop, Input, PipeWaiter, Timer
from sample_profiler.runtime.loop.recording import Recording, RecordingOptions
from sample_profiler.runtime.loop.transports import MakeWaiter
from sample_profiler.runtime.machine.libraries import tame_numerical_libraries
from sample_profiler.runtime.machine.niceness import add_niceness
from sample_profiler.runtime.machine.open_files import allow_all_open_files
from sample_profiler.runtime.messages.channels import PipeEnd, PipeReports, Reports
from sample_profiler.runtime.messages.heartbeats import CAPTURE_S, Heartbeat, RunnerPulse
from sample_profiler.runtime.processes.failure import Failure
from sample_profiler.runtime.processes.orphans import become_subreaper, end_descendants, list_shared_memory
from sample_profiler.runtime.processes.runner_gone import is_closed, watch_runner
from sample_profiler.runtime.signals.ending_signals import SAME_SIGNAL_S, EndRequests, prepare_for_signals
from sample_profiler.runtime.signals.suspension import LOOK_INTERVAL_S
from sample_profiler.runtime.surroundings.alarms import survive_alarms
from sample_profiler.runtime.surroundings.outputs import keep_outputs
from sample_profiler.runtime.surroundings.own_pipes import FILES_CLOSED, OwnPipes
from sample_profiler.runtime.surroundings.process_settings import SETTINGS_INTERVAL_S, ProcessSettings
from sample_profiler.vocabulary import START_UP

__all__ = [
    *("STOP", "ChildLinks", "ChildSettings", "Finished", "SharedMemoryNames", "TellsChanges"),
    *("end_stuck_process", "finish_component", "report_end", "report_shared_memory", "run_child"),
]

logger = logging.getLogger(__name__)

STACKS_SIGNAL = int(signal.SIGRTMAX) - 3
"""Has a child write down where its threads are; environments have handlers of their own for the ones with names."""

STOP = "stop"
"""Goes down the control pipe and ends the loop of a child."""

_MOST_LOGGED, _MOST_LOGGED_BY_COPY = 64_000, 1_000  # characters of a record; four bytes each at most
_PLAIN = (type(None), bool, int, float, str)
_OF_ANY_RECORD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None)))

TellsChanges = Literal["all", "later", "none"]
"""Which changes of its process a child says."""

MakeComponent = Callable[[Reports], Component]
"""Builds a component in the process that will run it; gets the way to report to the Runner."""


@dataclass(frozen=True)
class Finished:
    """The component has let go of everything.

    Attributes:
        component: who.
        unrecorded: its Timing as plain data, which nobody can read in a record file: there is none. Else None.
    """

    component: str
    unrecorded: dict[str, Any] | None = None


@dataclass(frozen=True)
class SharedMemoryNames:
    """What a child has started has made named shared memory, which nobody would find if both were killed.

    Attributes:
        names: paths under /dev/shm.
        pid: the child's process.
    """

    names: frozenset[str]
    pid: int


@dataclass(frozen=True)
class ChildLinks:
    """What a child and its parent share.

    Attributes:
        reports: objects from the child to the Runner.
        control: commands from the Runner to the child.
        lifeline: the read end of a pipe that ends when the Runner does.
        runner_pulse: the Runner's sign of life.
        stacks: a file without a name; the child writes there where its threads are.
    """

    reports: PipeReports
    control: PipeReports
    lifeline: PipeEnd
    runner_pulse: RunnerPulse
    stacks: PipeEnd


@dataclass(frozen=True)
class ChildSettings:
    """What the process is like before its component exists.

    Attributes:
        name: the component's name, also the process title in the log.
        niceness: is added to the process's niceness.
        cpus: the cores that the process may use; None leaves all.
        heartbeat_interval_s: between two signs of life.
        hang_timeout_s: without a sign of life of the Runner, after which this process ends; infinite: never.
        num_threads: for numerical libraries; None leaves their defaults.
        patience_s: that it is given to finish when it is asked to, or the Runner is gone; more with a capture.
        log_level: the level of the root logger.
        recording: where the process shows what it does.
        has_environments: whether somebody else's code runs in it, which may change what belongs to the whole process.
        tells_changes: which of these it says: all; those that come after its component was made, since another process
            has said the earlier ones; or none.
        make_waiter: how its loop waits for what the component listens to.
    """

    name: str
    niceness: int = 0
    cpus: tuple[int, ...] | None = None
    num_threads: int | None = None
    heartbeat_interval_s: float = 2.0
    hang_timeout_s: float = math.inf
    patience_s: float = 6.0
    log_level: int = logging.INFO
    recording: RecordingOptions = field(default_factory=RecordingOptions)
    has_environments: bool = False
    tells_changes: TellsChanges = "none"
    make_waiter: MakeWaiter = PipeWaiter


class _RecordsToRunner:
    """A queue for `QueueHandler` that puts log records among the reports.

    Copies of the process, as those of a vector of environments, write to the same pipe: only what the kernel takes in
    one piece, and without waiting for a lock that nobody in the copy holds. One that comes while a long report of the
    original waits for room would still tear that apart.
    """

    def __init__(self, reports: PipeReports) -> None:
        self._reports = reports
        self._owner = os.getpid()

    def put_nowait(self, record: logging.LogRecord) -> None:
        # `extra` as far as it is plain: not every object that can be pickled can be unpickled, and that would fail the
        # Runner.
        plain = logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, record.msg, (), None)
        for name, value in vars(record).items():
            if name in _OF_ANY_RECORD or (type(value) in _PLAIN and name != "message"):  # which is `msg` once more
                setattr(plain, name, value)
        is_copy = os.getpid() != self._owner
        plain.msg = shorten(str(plain.msg), _MOST_LOGGED_BY_COPY if is_copy else _MOST_LOGGED)
        if is_copy:
            self._reports.send_if_possible(plain)
        else:
            self._reports.send(plain)


class _Lifeline:
    """The pipe that ends when the Runner does, as an input of the loop."""

    def __init__(self, end: PipeEnd) -> None:
        self.fileno = end.fileno

    def receive(self) -> list[int]:
        return [0]


class _Controlled:
    """A component whose loop ends at the Runner's word, or when the Runner is gone."""

    def __init__(
        self,
        component: Component,
        links: ChildLinks,
        recording: Recording,
        settings: ChildSettings,
        patience: Patience,
        is_runner_silent: Callable[[], bool],
        process_settings: ProcessSettings | None,
    ) -> None:
        self._process_settings = process_settings
        self._component = component
        self._patience = patience
        self._reports = links.reports
        self._recording = recording
        self._heartbeat_interval_s = settings.heartbeat_interval_s
        self._is_runner_silent = is_runner_silent
        self._controls = [Input(links.control, self._on_control), Input(_Lifeline(links.lifeline), self._on_orphaned)]
        self.loop: EventLoop | None = None
        self.name = component.name
        self.timing = component.timing

    def inputs(self) -> Sequence[Input]:
        return [*self._component.inputs(), *self._controls]

    def timers(self) -> Sequence[Timer]:
        captures = Timer(CHECK_INTERVAL_S, lambda: end_due_captures(self._beat))
        runner = Timer(LOOK_INTERVAL_S, self._look_at_runner)
        own = [Timer(self._heartbeat_interval_s, self._beat), self._recording.timer(), captures, runner]
        if self._process_settings is not None:
            own.append(Timer(SETTINGS_INTERVAL_S, self._process_settings.check))
        return [*self._component.timers(), *own]

    def gauges(self) -> dict[str, float]:
        return self._component.gauges()

    def commands(self) -> dict[str, Callable[..., Any]]:
        return self._component.commands()

    def start(self) -> None:
        self._component.start()
        self._check_settings()
        self._beat()

    def wait_block(self) -> str:
        return self._component.wait_block()

    def finish(self) -> None:
        self._component.finish()

    def _check_settings(self) -> None:
        if self._process_settings is not None:
            self._process_settings.check()

    def _beat(self, patience_s: float = 0.0) -> None:
        self._reports.send(Heartbeat(self.name, patience_s))

    def _on_control(self, messages: list[Any]) -> None:
        for message in messages:
            if isinstance(message, Command):
                with self.timing.add_time("commands"):
                    self._run(message)
            elif self.loop is not None:
                self.loop.stop()

    def _run(self, command: Command) -> None:
        self._patience.note(command)
        if command.method in CAPTURE_COMMANDS:
            self._beat(CAPTURE_S)
        self._reports.send(run_command(self._component, command))
        if command.method in CAPTURE_COMMANDS:
            self._beat()

    def _on_orphaned(self, _: list[int]) -> None:
        if self.loop is not None:
            self.loop.stop()

    def _look_at_runner(self) -> None:
        if self.loop is not None and self._is_runner_silent():
            self.loop.stop()


@dataclass(frozen=True)
class _OwnReports:
    """How this process, being a child, reports; for code that nobody has handed anything."""

    component: str
    reports: Reports
    lifeline: PipeEnd
    existed_before: frozenset[str]
    pid: int


_own_reports: _OwnReports | None = None
_has_failed = False


def run_child(settings: ChildSettings, make_component: MakeComponent, links: ChildLinks) -> None:
    """Run one component until the Runner says stop; the target of every child process."""
    global _own_reports
    started_ns = process_start_ns()
    existed_before = list_shared_memory()
    reports = links.reports
    _own_reports = _OwnReports(settings.name, reports, links.lifeline, existed_before, os.getpid())
    component: Component | None = None
    recording: Recording | None = None
    end_requests: EndRequests | None = None
    failed = False
    try:
        patience = Patience(settings.patience_s)
        is_runner_silent = _prepare_process(settings, links, existed_before, patience)
        recording = Recording(settings.recording, settings.name)
        process_settings = None
        if settings.has_environments:
            survive_alarms()
            process_settings = ProcessSettings(is_told=settings.tells_changes == "all")
        component = make_component(reports)
        component.timing.backdate(started_ns, START_UP)
        recording.attach(component)
        controlled = _Controlled(component, links, recording, settings, patience, is_runner_silent, process_settings)
        loop = controlled.loop = EventLoop([controlled], settings.make_waiter)
        if process_settings is not None:
            process_settings.check()
            process_settings.is_told = settings.tells_changes != "none"
        end_requests = EndRequests(loop.stop)
        if process_settings is not None:
            process_settings.expect_change()
        loop.run()
    except BaseException as error:  # SystemExit, too: environments call sys.exit
        failure = Failure.from_exception(settings.name, error)
        if end_requests is not None and end_requests.was_asked(SAME_SIGNAL_S):
            # A signal to all processes ends simulators, too, maybe before their worker gets it.
            logger.warning("%s was asked to end, and could not go on until then: %s", settings.name, failure.message)
        else:
            failed = True
            _report_failure(reports, failure, existed_before)
    allow_all_open_files()
    if component is not None:
        failed = not finish_component(component, reports) or failed
        report_end(component, reports, is_recorded=recording is not None and recording.path is not None)
    if recording is not None:
        recording.close()
    end_descendants(existed_before)
    for stream in filter(None, (sys.stdout, sys.stderr)):  # one that was closed before is None
        with contextlib.suppress(OSError, ValueError):  # an environment may have closed it, or set another
            stream.flush()
    if end_requests is not None and not failed:
        end_requests.die_of_signal()
    # Not sys.exit: threads of numerical libraries and simulators must not be able to delay the end.
    os._exit(1 if failed else 0)


def _report_failure(reports: Reports, failure: Failure, existed_before: frozenset[str]) -> None:
    global _has_failed
    _has_failed = True
    try:
        reports.send(failure)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        end_descendants(existed_before)
        os._exit(FILES_CLOSED)  # nobody else can be told either


def report_shared_memory(names: Iterable[str]) -> None:
    """Tell the Runner of named shared memory that simulators of this process have made; without a Runner do nothing.

    Whoever answers for this process looks at the memory of the living now and then, and may come too late.

    Args:
        names: paths under /dev/shm; what still has one of these names when this process is gone is removed.
    """
    if _own_reports is not None:
        _own_reports.reports.send(SharedMemoryNames(frozenset(names), _own_reports.pid))


def is_runner_gone() -> bool:
    """Tell whether this process is a child whose Runner has ended."""
    return _own_reports is not None and is_closed(_own_reports.lifeline)


def has_reported_failure() -> bool:
    """Tell whether this process is a child whose component has failed, whatever its Runner knows by now."""
    return _has_failed


def end_stuck_process(message: str, own_memory: frozenset[str] = frozenset()) -> NoReturn:
    """End this process although its main thread is stuck in foreign code; for threads that watch over such code.

    In a child process the Runner is told first, and what the process has started is ended with it.

    Args:
        message: what the main thread waits for in vain, in one line.
        own_memory: paths of shared memory that is this process's or what it has started made; all other that is there
            may have been there before. In a child process that is known anyway.
    """
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    text = "".join(["The main thread is stuck here:\n", *traceback.format_stack(frame)])
    if _own_reports is None:
        logger.error("%s\n%s", message, text)
    else:
        _own_reports.reports.send(Failure(_own_reports.component, message, text))
    end_descendants(list_shared_memory() - own_memory if _own_reports is None else _own_reports.existed_before)
    os._exit(1)


def finish_component(component: Component, reports: Reports) -> bool:
    """Let the component finish, and tell whether that went well."""
    try:
        with component.timing.add_time("finish"):
            try:
                component.finish()
            finally:
                end_captures()
    except FROM_OUTSIDE:
        raise
    except BaseException as error:
        reports.send(Failure.from_exception(component.name, error))
        return False
    return True


def report_end(component: Component, reports: Reports, *, is_recorded: bool) -> None:
    """Report that a component has finished, and what it has measured unless that is in a record file."""
    reports.send(Finished(component.name, None if is_recorded else component.timing.to_dict()))


def _prepare_process(
    settings: ChildSettings, links: ChildLinks, existed_before: frozenset[str], patience: Patience
) -> Callable[[], bool]:
    """Make the process what it has to be, and return a function that tells whether the Runner is silent."""
    faulthandler.register(STACKS_SIGNAL, file=links.stacks.fileno(), all_threads=True)
    faulthandler.enable(file=links.stacks.fileno(), all_threads=True)  # whose parent tells where it has crashed
    os.setsid()
    become_subreaper()  # a game that a script started in the background is found, too
    prepare_for_signals()
    keep_outputs()
    is_silent = threading.Event()
    links.reports.is_abandoned = is_silent.is_set
    pipes = OwnPipes() if settings.has_environments else None
    arguments = (settings, links, is_silent, existed_before, patience, pipes)
    threading.Thread(target=watch_runner, args=arguments, daemon=True, name="lifeline").start()
    if settings.niceness:
        add_niceness(settings.niceness)
    if settings.cpus is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, settings.cpus)
    tame_numerical_libraries(settings.num_threads)
    root = logging.getLogger()
    root.handlers[:] = [logging.handlers.QueueHandler(_RecordsToRunner(links.reports))]  # type: ignore[arg-type]
    root.setLevel(settings.log_level)
    return is_silent.is_set
