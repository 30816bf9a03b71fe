"""Owns an examination, in the process that the environment is in: what is tried, in which order, and for how long.

First some environments are played for a while: one, another with the same seed, one with the same seed again while a
fourth with another seed takes turns with it, and one with that seed and other actions. Then one is played for long, and
another one reset again and again.
"""

from __future__ import annotations

import time

from sample_profiler.doctor.findings import Finding
from sample_profiler.doctor.long_play import Limits, LongPlay, made, reset_often
from sample_profiler.doctor.measurements import Measurements
from sample_profiler.doctor.subject import BrokenError, Examined, Subject
from sample_profiler.doctor.surroundings import KINDS, Belongings, describe_left

__all__ = ["examine"]

_SEED, _OTHER_SEED, _LONG_SEED = 1, 2, 3
_OTHER_ACTIONS = 8  # seed of them
_FEWEST_STEPS = 20  # with other actions: fewer may be those in which nothing can be done yet


def examine(examined: Examined, limits: Limits) -> Measurements:
    """Examine an environment; return what was measured. What is found is added to the findings.

    Args:
        examined: how environments are made, and what looks at them.
        limits: how long it may take.
    """
    measured = Measurements()
    before = Belongings.look()
    after: list[Belongings] = []
    try:
        _try_seeds(examined, limits, after)
        with made(examined, _LONG_SEED) as subject:
            LongPlay(examined, subject, limits, measured).play(before)
        measured.close_ns = examined.stopwatch.last[0]
        after.append(Belongings.settled(after[-1]))
        with made(examined, _LONG_SEED) as subject:
            reset_often(subject, limits, measured)
        after.append(Belongings.settled(after[-1]))
    except BrokenError:
        return measured
    for kind in KINDS:
        if finding := describe_left(kind, [getattr(each, kind) for each in after]):
            examined.findings.add(finding)
    return measured


class _Course:
    """What one environment shows in its first steps.

    Args:
        subject: the environment.
        limits: how long it is played.
    """

    def __init__(self, subject: Subject, limits: Limits) -> None:
        self._subject = subject
        self._limits = limits
        self._deadline_s = time.monotonic() + limits.short_seconds
        subject.reset()
        self.drawn_seeds: tuple[object, ...] = ()
        self.marks = [subject.seen]
        self.firsts = [subject.seen]

    def advance(self) -> bool:
        """Take a step, and begin the next episode after the last; tell whether there is time for more."""
        step = self._subject.step()
        self.marks.append(step.fingerprint)
        if step.has_ended and not self._subject.ends_apart:
            self._subject.reset()
            self.marks.append(self._subject.seen)
            self.firsts.append(self._subject.seen)
        return len(self.marks) <= self._limits.num_short_steps and time.monotonic() < self._deadline_s


def _try_seeds(examined: Examined, limits: Limits, after: list[Belongings]) -> None:
    begin_s = time.monotonic()
    courses: list[_Course] = []
    for _ in range(2):
        with made(examined, _SEED) as subject:
            course = _Course(subject, limits)
            while course.advance():
                pass
            course.drawn_seeds = subject.drawn_seeds()
            courses.append(course)
        after.append(Belongings.settled(after[-1] if after else Belongings.look()))
        time.sleep(max(0.0, begin_s + limits.pause_s - time.monotonic()))
    with made(examined, _SEED) as subject, made(examined, _OTHER_SEED) as other:
        side_by_side = _Course(subject, limits), _Course(other, limits)
        while all([course.advance() for course in side_by_side]):
            pass
        side_by_side[1].drawn_seeds = other.drawn_seeds()
    _judge_seeds(examined, courses, side_by_side)
    if _first_difference(*(course.marks for course in courses)) is None:
        _try_other_actions(examined, limits, courses[0].marks)


def _try_other_actions(examined: Examined, limits: Limits, marks: list[bytes]) -> None:
    with made(examined, _SEED, action_seed=_OTHER_ACTIONS) as subject:
        course = _Course(subject, limits)
        while len(course.marks) < len(marks) and _first_difference(marks, course.marks) is None:
            if not course.advance():
                break
        has_choice = subject.has_choice()
    num_compared = min(len(marks), len(course.marks))
    if has_choice and num_compared >= _FEWEST_STEPS and _first_difference(marks, course.marks) is None:
        examined.findings.add(
            Finding(
                "warning",
                "actions ignored",
                "Other actions give the same course",
                f"two environments after reset(seed={_SEED}) do not differ in {num_compared} steps of other "
                "random actions: not in an observation, a reward or an end",
                "look whether step() uses its action, and whether what the action does is in the observation or the "
                "reward soon",
            )
        )


def _judge_seeds(examined: Examined, alone: list[_Course], beside: tuple[_Course, _Course]) -> None:
    first, second = (course.marks for course in alone)
    add = examined.findings.add
    if (index := _first_difference(first, second)) is not None:
        add(
            Finding(
                "warning",
                "seed",
                "The same seed gives another course",
                f"two environments after reset(seed={_SEED}) and the same actions differ {_describe_index(index)}",
                "draw all random numbers from self.np_random (super().reset(seed=seed) makes it), and let nothing "
                "depend on the clock, the number of the process or the order of a set",
            )
        )
    elif (index := _first_difference(first, beside[0].marks)) is not None:
        add(
            Finding(
                "error",
                "shared state",
                "Two environments in one process disturb each other",
                f"after reset(seed={_SEED}) the course is another one {_describe_index(index)} if a second environment "
                "takes turns with it",
                "keep what belongs to an environment in self, not in its class, a module or a global generator: a "
                "worker has several environments",
            )
        )
    elif _first_difference(first, beside[1].marks) is None and _is_unseeded(alone[0], beside[1]):
        add(
            Finding(
                "warning",
                "seed ignored",
                "Different seeds give the same course, though it draws random numbers",
                f"reset(seed={_SEED}) and reset(seed={_OTHER_SEED}) do not differ in {len(first)} observations",
                "make the generator of the seed that reset is given (super().reset(seed=seed), then self.np_random): "
                "all environments of a run see the same",
            )
        )


def _is_unseeded(course: _Course, other: _Course) -> bool:
    """Tell whether equal courses have random numbers in them, of generators that know nothing of their seeds."""
    is_random = len(set(course.firsts)) > 1 or bool(course.drawn_seeds)
    return is_random and course.drawn_seeds == other.drawn_seeds


def _first_difference(a: list[bytes], b: list[bytes]) -> int | None:
    return next((index for index, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), None)


def _describe_index(index: int) -> str:
    return "in the first observation" if index == 0 else f"from step {index} on"
