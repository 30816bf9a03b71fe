"""Switches something on and off in turn while a run goes on, and compares the run's throughput in the phases."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.measuring.paired import Interval, describe_spread, is_on_in_phase, ratio_on_to_off
from sample_profiler.components.observers import RunObserver

if TYPE_CHECKING:
    from benchmarks.measuring.live_runs import LiveRun
    from sample_profiler.components.runner import Runner
    from sample_profiler.components.statistics import RunStatus

SETTLE_S = 0.5
_WARM_UP_BATCHES = 4
_LEAST_BATCHES = 3
_FIGURES = ("steps sampled per second", "frames trained on per second", "CPU seconds per 1,000,000 frames")


@dataclass(frozen=True)
class Sample:
    """What a run had done at one moment.

    Attributes:
        time_s: the moment (monotonic).
        steps: agent steps sampled.
        frames: trained on.
    """

    time_s: float
    steps: int
    frames: int


@dataclass
class Phase:
    """A time with the thing on, or off.

    Attributes:
        is_on: which.
        begin_s: when it had been switched (monotonic).
        end_s: when it was switched back.
        cpu_s: processor time of all processes of the run meanwhile.
    """

    is_on: bool
    begin_s: float
    end_s: float
    cpu_s: float


class Alternation(RunObserver):
    """Observes a run and switches.

    Args:
        run: that is observed.
        switch: turns the thing on or off.
        phase_s: how long a phase is; the Runner's turn of a second decides when it is over.
        warm_up_s: how long after the first trained batches the first phase begins.

    Attributes:
        phases: that are over.
        at_end: called when the run is over and its processes have ended.
    """

    def __init__(self, run: LiveRun, switch: Callable[[bool], None], phase_s: float, warm_up_s: float) -> None:
        self._run = run
        self._switch = switch
        self._phase_s = phase_s
        self._warm_up_s = warm_up_s
        self._first_s: float | None = None
        self._begin: tuple[float, float] | None = None
        self.phases: list[Phase] = []
        self.at_end: Callable[[], object] = lambda: None

    def on_status(self, _: RunStatus) -> None:
        """Switch if it is time."""
        if self._run.runner is not None and self._run.runner.reason:
            return  # the run has ended: nobody is there to be switched
        now_s = time.monotonic()
        if self._first_s is None:
            if _num_batches(self._run.samples) >= _WARM_UP_BATCHES:
                self._first_s = now_s + self._warm_up_s
            return
        if now_s < self._first_s:
            return
        if self._begin is not None:
            begin_s, begin_cpu_s = self._begin
            if now_s < begin_s + self._phase_s - 0.5:  # turns are a second apart: take the nearest one
                return
            is_on = is_on_in_phase(len(self.phases))
            self.phases.append(Phase(is_on, begin_s, now_s, self._run.cpu_s() - begin_cpu_s))
        self._switch(is_on_in_phase(len(self.phases)))
        self._begin = time.monotonic(), self._run.cpu_s()

    def on_stop(self, runner: Runner) -> None:  # noqa: ARG002
        """The phase that goes on at the end of a run does not count."""
        self.at_end()


@dataclass(frozen=True)
class Comparison:
    """One figure of all phases.

    Attributes:
        name: of the figure.
        on: its values while the thing was on.
        off: its values while it was off.
        ratio: on to off, from pairs of neighbouring phases.
    """

    name: str
    on: list[float]
    off: list[float]
    ratio: Interval

    def describe(self) -> str:
        """Return one line."""
        change = self.ratio.map(lambda ratio: (ratio - 1) * 100)
        interval = f"{change.estimate:+.2f} % [{change.lower:+.2f}, {change.upper:+.2f}]"
        return f"{self.name:34}{describe_spread(self.on):>32}{describe_spread(self.off):>32}{interval:>34}"


HEADER = f"{'':34}{'on: median [quartiles]':>32}{'off: median [quartiles]':>32}{'on against off [95 %]':>34}"


def compare(samples: Sequence[Sample], phases: Sequence[Phase]) -> list[Comparison]:
    """Return the throughput and the processor time per frame of the phases, the first half second of each left out.

    Frames are trained on in batches and steps sampled in bursts between them, so a rate is taken from the end of the
    first batch in a phase to the end of its last. A pair with a phase of less than three batches is left out.

    Raises:
        ValueError: less than two pairs are left.
    """
    figures: dict[str, list[float]] = {name: [] for name in _FIGURES}
    for first in range(0, len(phases) - 1, 2):
        pair = [_measure(samples, phase) for phase in phases[first : first + 2]]
        if all(pair):
            ordered = pair if phases[first].is_on else pair[::-1]
            for name in _FIGURES:
                figures[name] += [rates[name] for rates in ordered]
    return [
        Comparison(name, values[0::2], values[1::2], ratio_on_to_off(values[0::2], values[1::2]))
        for name, values in figures.items()
    ]


def _measure(samples: Sequence[Sample], phase: Phase) -> dict[str, float]:
    inside = _between(samples, phase.begin_s + SETTLE_S, phase.end_s)
    ends = [later for earlier, later in itertools.pairwise(inside) if later.frames > earlier.frames]
    if len(ends) < _LEAST_BATCHES or ends[-1].steps == ends[0].steps:
        return {}
    first, last = ends[0], ends[-1]
    seconds = last.time_s - first.time_s
    frames_per_s = (last.frames - first.frames) / seconds
    cores = phase.cpu_s / (phase.end_s - phase.begin_s)
    return dict(
        zip(_FIGURES, ((last.steps - first.steps) / seconds, frames_per_s, cores / frames_per_s * 1e6), strict=True)
    )


def _between(samples: Sequence[Sample], begin_s: float, end_s: float) -> list[Sample]:
    return [sample for sample in samples if begin_s <= sample.time_s <= end_s]


def _num_batches(samples: Sequence[Sample]) -> int:
    return len({sample.frames for sample in samples}) - 1
