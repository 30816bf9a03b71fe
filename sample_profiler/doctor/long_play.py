"""Owns the long part of an examination: an environment is played, and then reset again and again, and measured."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sample_profiler.doctor.measurements import CallTimes, Measurements, growth_of
from sample_profiler.doctor.subject import Examined, Step, Subject
from sample_profiler.doctor.surroundings import KINDS, Belongings
from sample_profiler.doctor.values import size_of
from sample_profiler.envs.bad_numbers import is_finite_number
from sample_profiler.runtime.machine.children_time import ChildrenTime

__all__ = ["Limits", "LongPlay", "made", "reset_often"]

_NUM_LOOKS = 40
_NUM_WARM = 10
_INFO_INTERVAL = 20
_MOST_KEPT = 1000
_NUM_RESETS = 200
_RESETS_S = 3.0
_NS_PER_S = 1e9
_YARDSTICK = range(500)  # to add up takes a few microseconds


@dataclass(frozen=True)
class Limits:
    """How long is played.

    Attributes:
        seconds: the long part, at most.
        num_steps: of the long part, at most.
        short_seconds: each of the short parts, at most.
        num_short_steps: of each of them, at most.
        pause_s: from the start of the first short part to that of the second, at least: a clock shows another second.
    """

    seconds: float = 20.0
    num_steps: int = 20_000
    short_seconds: float = 3.0
    num_short_steps: int = 300
    pause_s: float = 1.1


@contextmanager
def made(examined: Examined, seed: int, **options: int) -> Iterator[Subject]:
    """Make an environment, and close it at the end; arguments as of `Subject`."""
    subject = Subject(examined, seed, **options)
    try:
        yield subject
    finally:
        subject.close()
        del subject
        gc.collect()


class _Looks:
    """Looks at the memory now and then.

    Args:
        limits: of the play; there are so many looks in either of its limits.
    """

    def __init__(self, limits: Limits) -> None:
        self._interval, self._interval_s = max(1, limits.num_steps // _NUM_LOOKS), limits.seconds / _NUM_LOOKS
        self._next, self._next_s = self._interval, time.monotonic() + self._interval_s
        self._steps: list[int] = []
        self._memory: list[float] = []
        self._objects: list[float] = []

    def look(self, num_steps: int) -> None:
        """Look, if it is time to."""
        if num_steps < self._next and time.monotonic() < self._next_s:
            return
        self._next, self._next_s = num_steps + self._interval, time.monotonic() + self._interval_s
        gc.collect()
        self._steps.append(num_steps)
        self._memory.append(float(Belongings.look().memory_bytes()))
        self._objects.append(float(sys.getallocatedblocks()))

    def tell(self, measured: Measurements) -> None:
        """Note how it grew, from the second quarter on: caches are filled first."""
        start = len(self._steps) // 4
        measured.memory_bytes = growth_of(self._steps[start:], self._memory[start:])
        measured.objects = growth_of(self._steps[start:], self._objects[start:])


class LongPlay:
    """Plays an environment for long.

    Args:
        examined: how it is looked at.
        subject: the environment, which has been made just now.
        limits: for how long.
        measured: is filled.
    """

    def __init__(self, examined: Examined, subject: Subject, limits: Limits, measured: Measurements) -> None:
        self._watch = examined.stopwatch
        self._subject = subject
        self._limits = limits
        self._measured = measured
        self._measured.constructor_ns = self._watch.last[0]
        self._steps, self._resets, self._yardstick = CallTimes(), CallTimes(), CallTimes()
        self._looks = _Looks(limits)
        self._begun = b""
        self._num_info_bytes = self._num_infos = 0
        self._length, self._return = 0, 0.0
        self._rewards = (float("inf"), -float("inf"), 0.0)

    def play(self, before: Belongings) -> None:
        """Play; then measure.

        Args:
            before: what the process had before there was any environment.

        Raises:
            BrokenError: it cannot be gone on with; what was measured until then is noted.
        """
        try:
            self._play(before)
        finally:
            self._measured.num_steps = self._subject.num_steps
            self._measured.steps = self._steps.summary(_NUM_WARM, self._yardstick)
            self._measured.resets = self._resets.summary(1)  # the first one starts games, and loads what they need
            self._looks.tell(self._measured)
            self._measured.info_bytes = self._num_info_bytes / max(1, self._num_infos)

    def _play(self, before: Belongings) -> None:
        subject, measured = self._subject, self._measured
        deadline_s = time.monotonic() + self._limits.seconds
        self._reset()
        first = subject.seen
        measured.has_moved = False
        children = ChildrenTime()
        children_s = children.seconds()
        begin = time.perf_counter_ns(), time.process_time_ns(), time.thread_time_ns()
        while subject.num_steps < self._limits.num_steps and time.monotonic() < deadline_s:
            step = subject.step()
            self._note(step)
            measured.has_moved = measured.has_moved or subject.seen != first
            if step.has_ended:
                self._end_episode()
            self._looks.look(subject.num_steps)
        wall, process, thread = (
            now - earlier
            for now, earlier in zip(
                (time.perf_counter_ns(), time.process_time_ns(), time.thread_time_ns()), begin, strict=True
            )
        )
        measured.other_cpu_share = max(0.0, (process - thread) / max(1, wall))
        if children_s is not None and (now_s := children.seconds()) is not None:
            measured.children_cpu_share = (now_s - children_s) / max(1, wall) * _NS_PER_S
        now = Belongings.look()
        measured.num_threads = len(now.threads.keys() - before.threads.keys())
        measured.num_processes = len(now.processes)

    def _note(self, step: Step) -> None:
        self._steps.add(*step.took_ns)
        sum(_YARDSTICK)  # so that it is in the caches of the processor again
        self._watch.start()
        sum(_YARDSTICK)
        self._watch.stop()
        self._yardstick.add(*self._watch.last)
        self._length += 1
        self._return += step.reward if is_finite_number(step.reward) else 0.0
        num = self._subject.num_steps
        if is_finite_number(step.reward):
            lowest, highest, size = self._rewards
            self._rewards = min(lowest, step.reward), max(highest, step.reward), size + abs(step.reward)
            self._measured.rewards = *self._rewards[:2], self._rewards[2] / num
        if num % _INFO_INTERVAL == 0:
            self._num_info_bytes += size_of(list(step.infos))
            self._num_infos += 1

    def _end_episode(self) -> None:
        measured = self._measured
        measured.num_episodes += 1
        if len(measured.lengths) < _MOST_KEPT and not self._subject.ends_apart:
            measured.lengths.append(self._length)
            measured.returns.append(self._return)
        self._length, self._return = 0, 0.0
        if not self._subject.ends_apart:
            ended, earlier = self._subject.seen, self._begun
            self._reset()
            measured.num_stale_resets += earlier != self._subject.seen == ended

    def _reset(self) -> None:
        self._subject.reset()
        self._begun = self._subject.seen
        self._resets.add(*self._watch.last)


def reset_often(subject: Subject, limits: Limits, measured: Measurements) -> None:
    """Reset an environment again and again, and note what grows meanwhile.

    Raises:
        BrokenError: it cannot be gone on with.
    """
    deadline_s = time.monotonic() + min(_RESETS_S, limits.seconds)
    numbers: list[int] = []
    looks: list[Belongings] = []
    memory: list[float] = []
    for number in range(_NUM_RESETS):
        subject.reset()
        subject.step()
        if number % (_NUM_RESETS // _NUM_LOOKS) == 0:
            gc.collect()
            numbers.append(number)
            looks.append(Belongings.look())
            memory.append(float(looks[-1].memory_bytes()))
        if time.monotonic() > deadline_s:
            break
    start = len(numbers) // 4
    measured.memory_per_reset_bytes = growth_of(numbers[start:], memory[start:])
    for kind in KINDS:
        nums = [float(len(getattr(look, kind))) for look in looks[start:]]
        measured.belongings_per_reset[kind] = growth_of(numbers[start:], nums)
