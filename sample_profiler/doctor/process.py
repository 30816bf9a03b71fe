"""Owns the process in which an environment is examined: from both sides, whatever the environment does to it."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sample_profiler.config import Config
from sample_profiler.doctor.examination import examine
from sample_profiler.doctor.findings import Finding, Findings
from sample_profiler.doctor.judging import judge
from sample_profiler.doctor.long_play import Limits
from sample_profiler.doctor.measurements import Measurements, Stopwatch
from sample_profiler.doctor.position import Place, Position
from sample_profiler.doctor.subject import Examined
from sample_profiler.doctor.surroundings import Surroundings
from sample_profiler.envs import export_registration, import_registration, make_env
from sample_profiler.profiling import Timing
from sample_profiler.runtime.loop.event_loop import PipeWaiter
from sample_profiler.runtime.loop.unasked_component import UnaskedComponent
from sample_profiler.runtime.machine.core_shares import choose_worker_threads
from sample_profiler.runtime.machine.sleeping_threads import find_sleep
from sample_profiler.runtime.messages.channels import PipeEnd, Reports
from sample_profiler.runtime.messages.heartbeats import FIRST_SIGN_S
from sample_profiler.runtime.messages.shared_memory import make_anonymous_file
from sample_profiler.runtime.processes.child import ChildSettings, SharedMemoryNames
from sample_profiler.runtime.processes.child_process import Child
from sample_profiler.runtime.processes.failure import Failure
from sample_profiler.runtime.processes.supervisor import Supervisor

__all__ = ["Diagnosis", "diagnose"]

_NAME = "Doctor"
_LOOK_S = 0.01
_MOST_SHOWN = 2000
_SLEEPS_OF_NOTHING = ("none", "run")


@dataclass(frozen=True)
class Diagnosis:
    """What an examination came to.

    Attributes:
        env: name of the environment.
        findings: the worst first.
        measured: its figures; None: its process ended before there were any.
        sleeps: shares of the looks during steps in which it slept, by what for.
        seconds: that it took.
    """

    env: str
    findings: list[Finding]
    measured: Measurements | None
    sleeps: dict[str, float]
    seconds: float


@dataclass(frozen=True)
class _Results:
    """All that the process has to say in the end."""

    measured: Measurements
    findings: list[Finding]


class _Patient(UnaskedComponent):
    """The environment in the process that was started for it; an `event_loop.Component`. Made means examined."""

    def __init__(
        self, config: Config, payload: bytes, limits: Limits, position: Position, output: PipeEnd, reports: Reports
    ) -> None:
        self.name = _NAME
        self.timing = Timing(f"{_NAME} profile")
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
        if sys.stdout is not None:  # so that what is printed can be told from what libraries write by themselves
            sys.stdout.reconfigure(line_buffering=False)  # type: ignore[union-attr]
        findings = Findings(reports.send)
        name = config.run.env
        import_registration(name, payload)
        examined = Examined(
            name=name,
            make=partial(make_env, name, config, None),
            findings=findings,
            position=position,
            surroundings=Surroundings(findings, output.fileno()),
            stopwatch=Stopwatch(),
        )
        position.leave()
        measured = examine(examined, limits)
        reports.send(_Results(measured, findings.list()))


def _make_patient(
    config: Config, payload: bytes, limits: Limits, position: Position, output: PipeEnd, reports: Reports
) -> _Patient:
    return _Patient(config, payload, limits, position, output, reports)


def diagnose(config: Config, limits: Limits, on_progress: Callable[[Place], None] = lambda _: None) -> Diagnosis:
    """Examine the environment of a configuration, and say what is wrong with it.

    Args:
        config: of a run; its ``--hang_timeout`` is what one call may take.
        limits: how long is played.
        on_progress: is called again and again with where the examination is.

    Raises:
        UnknownEnvError: there is no environment of that name.
    """
    payload = export_registration(config.run.env)
    supervisor = Supervisor()
    try:
        return _Examination(config, payload, limits, supervisor, on_progress).run()
    finally:
        supervisor.kill()


class _Examination:
    """An examination, seen from the process that asked for it."""

    def __init__(
        self,
        config: Config,
        payload: bytes,
        limits: Limits,
        supervisor: Supervisor,
        on_progress: Callable[[Place], None],
    ) -> None:
        self._config = config
        self._supervisor = supervisor
        self._on_progress = on_progress
        self._position = Position()
        self._output = PipeEnd(make_anonymous_file())
        self._found: list[Finding] = []
        self._results: _Results | None = None
        self._failure: Failure | None = None
        self._looks: dict[str, int] = {}
        settings = ChildSettings(
            _NAME,
            num_threads=choose_worker_threads(config.sampling.num_workers),
            log_level=logging.WARNING,
            has_environments=True,
        )
        make = partial(_make_patient, config, payload, limits, self._position, self._output)
        self._child: Child = supervisor.spawn(settings, make)

    def run(self) -> Diagnosis:
        """Follow it to its end."""
        begin_s = changed_s = time.monotonic()
        place = self._position.read()
        while self._results is None and self._child.is_alive():
            self._wait()
            now = self._position.read()
            if now != place:
                place, changed_s = now, time.monotonic()
            self._on_progress(place)
            limit_s = FIRST_SIGN_S if place.method == "import" else self._config.faults.hang_timeout
            if time.monotonic() - changed_s > limit_s:
                self._add_hang(place, limit_s)
                break
        self._take_reports()
        if self._results is None and not self._child.is_alive():
            self._add_end(self._position.read())
        total = sum(self._looks.values())
        sleeps = {what: num / total for what, num in self._looks.items() if what not in _SLEEPS_OF_NOTHING}
        measured = None if self._results is None else self._results.measured
        findings = self._found if self._results is None else self._results.findings
        if measured is not None:
            findings = [*findings, *judge(measured, sleeps)]
        order = Findings()
        for number, finding in enumerate(findings):
            order.add(finding, str(number))
        return Diagnosis(self._config.run.env, order.list(), measured, sleeps, time.monotonic() - begin_s)

    def _wait(self) -> None:
        self._supervisor.beat()
        PipeWaiter([self._child.reports, self._child.exit]).wait(_LOOK_S)
        if self._position.read().method == "step":
            sleep = find_sleep(self._child.pid)
            if sleep is not None and self._position.read().method == "step":
                self._looks[sleep] = self._looks.get(sleep, 0) + 1
        self._take_reports()

    def _take_reports(self) -> None:
        for report in self._child.reports.receive():
            match report:
                case Finding():
                    self._found.append(report)
                case _Results():
                    self._results = report
                case SharedMemoryNames():
                    self._supervisor.note_shared_memory(report)
                case Failure():
                    self._failure = report
                case _:  # signs of life, records of the log
                    pass

    def _add_hang(self, place: Place, limit_s: float) -> None:
        stacks = self._child.dump_stacks()
        self._found.append(
            Finding(
                "error",
                "hangs",
                f"{place.method or 'something'}{'()' if place.method not in ('', 'import', 'constructor') else ''} "
                f"does not return within {limit_s:g} s",
                f"it is in {place}\n{stacks}".rstrip(),
                "find out what it waits for; if it may take so long, give --hang_timeout more, here and to runs",
            )
        )

    def _add_end(self, place: Place) -> None:
        said = self._last_words()
        if self._failure is not None:
            said = f"{self._failure.message}\n{self._failure.traceback_text}\n{said}"
        self._found.append(
            Finding(
                "error",
                "ends its process",
                f"{place} ended its process, which {self._child.describe_exit()}",
                "\n".join(filter(None, (said.strip(), self._child.describe_crash()))) or "it left no message",
                "let no code of it call os._exit or crash: a run loses the worker with all of its environments, and "
                "gives up after --max_worker_restarts of them",
            )
        )

    def _last_words(self) -> str:
        size = os.fstat(self._output.fileno()).st_size
        start = max(0, size - _MOST_SHOWN)
        return os.pread(self._output.fileno(), _MOST_SHOWN, start).decode(errors="replace")
