"""Components that do nothing but ask and answer, each in a process of its own, as `benchmarks.transports` wants them.

They are those of a run without environments and networks: many ask one, which takes all that have asked by now and
answers each.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil

from sample_profiler.profiling import Timing
from sample_profiler.runtime.loop.event_loop import Component, Input, Timer
from sample_profiler.runtime.loop.transports import Transport
from sample_profiler.runtime.messages.channels import Channel, Reports, Sender
from sample_profiler.runtime.messages.shared_memory import SharedArrays
from sample_profiler.runtime.processes.child import ChildSettings
from sample_profiler.runtime.processes.supervisor import Supervisor

__all__ = ["RoundTrips", "asking"]

_START_S = 120.0
_ANSWERER = "Answerer"


@dataclass(frozen=True)
class RoundTrips:
    """What was done in a while.

    Attributes:
        number: questions that were answered.
        seconds: that it took.
        processor_s: that all processes had of the processors meanwhile.
    """

    number: int
    seconds: float
    processor_s: float


class _Talking:
    """A component that hears numbers; without anything else that components do."""

    def __init__(self, name: str, source: Channel) -> None:
        self.name = name
        self.timing = Timing(f"{name} profile")
        self._source = source

    def inputs(self) -> list[Input]:
        return [Input(self._source, self.hear)]

    def hear(self, numbers: list[int]) -> None:
        raise NotImplementedError

    def timers(self) -> list[Timer]:
        return []

    def gauges(self) -> dict[str, float]:
        return {}

    def commands(self) -> dict[str, Callable[..., Any]]:
        return {}

    def start(self) -> None:
        """Wait."""

    def wait_block(self) -> str:
        return "wait"

    def finish(self) -> None:
        """Nothing to let go of."""


class _Asker(_Talking):
    def __init__(self, number: int, answers: Channel, questions: Sender, counts: SharedArrays) -> None:
        super().__init__(f"Asker_{number}", answers)
        self._number = number
        self._questions = questions
        self._counts = counts["answers"]

    def start(self) -> None:
        self._questions.send([self._number])

    def hear(self, numbers: list[int]) -> None:
        self._counts[self._number] += len(numbers)
        self._questions.send(numbers)


class _Answerer(_Talking):
    def __init__(self, questions: Channel, answers: list[Channel]) -> None:
        super().__init__(_ANSWERER, questions)
        self._answers = answers

    def hear(self, numbers: list[int]) -> None:
        for number in numbers:
            self._answers[number].send([number])


def _make_asker(number: int, answers: Channel, questions: Sender, counts: SharedArrays, _: Reports) -> Component:
    return _Asker(number, answers, questions, counts)


def _make_answerer(questions: Channel, answers: list[Channel], _: Reports) -> Component:
    return _Answerer(questions, answers)


@contextmanager
def asking(transport: Transport, num_askers: int) -> Iterator[Callable[[float], RoundTrips]]:
    """Have many ask one all the time.

    Args:
        transport: of questions and answers.
        num_askers: who ask.

    Yields:
        A function that looks at them for so many seconds.

    Raises:
        TimeoutError: not everybody begins.
    """
    names = [f"Asker_{number}" for number in range(num_askers)]
    counts = SharedArrays({"answers": ((num_askers,), "int64")})
    questions, (asked,) = transport.make_shared("questions", [_ANSWERER], num_askers)
    answers = [transport.make_channel("answers", name, 1) for name in names]
    transport.open()
    supervisor = Supervisor()

    def spawn(name: str, make: Callable[[Reports], Component]) -> psutil.Process:
        child = supervisor.spawn(ChildSettings(name, make_waiter=transport.waiter_of(name)), make)
        return psutil.Process(child.pid)

    def rest(seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            for child in supervisor.children:
                child.reports.receive()
            time.sleep(min(left_s, 0.5))

    def look(seconds: float) -> RoundTrips:
        begin, begin_s, used_s = int(counts["answers"].sum()), time.monotonic(), _processor_s(processes)
        rest(seconds)
        number, length_s = int(counts["answers"].sum()) - begin, time.monotonic() - begin_s
        return RoundTrips(number, length_s, _processor_s(processes) - used_s)

    try:
        processes = [spawn(_ANSWERER, partial(_make_answerer, asked, answers))]
        for number, name in enumerate(names):
            processes.append(spawn(name, partial(_make_asker, number, answers[number], questions, counts)))
        deadline_s = time.monotonic() + _START_S
        while not counts["answers"].all():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not all of {num_askers} have begun to ask")
            rest(0.2)
        yield look
    finally:
        with contextlib.suppress(psutil.Error):
            supervisor.kill()


def _processor_s(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return float(sum(each.user + each.system for each in times))
