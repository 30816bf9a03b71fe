"""Switches something on and off in turn while a run goes on, and compares the run's throughput in the phases."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.measuring.statistic import Interval, describe_spread, ratio_interval
from benchmarks.measuring.turns.paired import adjusted_ratio_on_to_off, is_on_in_phase
from sample_profiler.run.observers import RunObserver

if TYPE_CHECKING:
    from benchmarks.measuring.runs.live_runs import LiveRun
    from sample_profiler.run.records.statistics import RunStatus
    from sample_profiler.run.runner import Runner

SETTLE_S = 0.5
_WARM_UP_BATCHES = 4
_LEAST_BATCHES = 3
TRAINED = "frames trained on per second"
ADJUSTED = "frames per second at one processor speed"
LEARNER = "CPU seconds of the Learner per 1,000,000 frames"
_FIGURES = ("steps sampled per second", TRAINED, "CPU seconds per 1,000,000 frames", LEARNER)

Pair = tuple[dict[str, float], dict[str, float]]


@dataclass(frozen=True)
class Sample:
    """What a run had done at one moment.

    Attributes:
        time_s: the moment (monotonic).
        steps: agent steps sampled.
        frames: trained on.
        learner_cpu_s: processor time of the Learners when the last of these frames had been trained on; 0: they have
            no process of their own.
    """

    time_s: float
    steps: int
    frames: int
    learner_cpu_s: float = 0.0


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
        return f"{self.name:48}{describe_spread(self.on):>32}{describe_spread(self.off):>32}{interval:>34}"


HEADER = f"{'':48}{'on: median [quartiles]':>32}{'off: median [quartiles]':>32}{'on against off [95 %]':>34}"


def pairs_of(samples: Sequence[Sample], phases: Sequence[Phase]) -> list[Pair]:
    """Return the figures of neighbouring phases, the one that is on first; the first half second of each is left out.

    Frames are trained on in batches and steps sampled in bursts between them, so a rate is taken from the end of the
    first batch in a phase to the end of its last. A pair with a phase of less than three batches is left out.
    """
    pairs = []
    for first, second in zip(phases[0::2], phases[1::2], strict=False):
        on, off = (first, second) if first.is_on else (second, first)
        pair = _measure(samples, on), _measure(samples, off)
        if all(pair):
            pairs.append(pair)
    return pairs


def compare(pairs: Sequence[Pair]) -> list[Comparison]:
    """Return the throughput and the processor time per frame with the thing on and off.

    Where the Learners' processor time is known, the frames per second are there twice, the second time at one processor
    speed: without what the Learners' processor time per frame explains of them. That counts if what is switched does
    not change the time that a frame takes there, which has its own line.

    Raises:
        ValueError: there are less than two pairs.
    """
    names = [name for name in _FIGURES if all(name in on and name in off for on, off in pairs)]
    on, off = ({name: [pair[side][name] for pair in pairs] for name in names} for side in (0, 1))
    comparisons = [Comparison(name, on[name], off[name], ratio_interval(on[name], off[name])) for name in names]
    if LEARNER in names:
        ratio = adjusted_ratio_on_to_off(on[TRAINED], off[TRAINED], on[LEARNER], off[LEARNER])
        comparisons.append(Comparison(ADJUSTED, on[TRAINED], off[TRAINED], ratio))
    return comparisons


def _measure(samples: Sequence[Sample], phase: Phase) -> dict[str, float]:
    inside = _between(samples, phase.begin_s + SETTLE_S, phase.end_s)
    ends = [later for earlier, later in itertools.pairwise(inside) if later.frames > earlier.frames]
    if len(ends) < _LEAST_BATCHES or ends[-1].steps == ends[0].steps:
        return {}
    first, last = ends[0], ends[-1]
    seconds = last.time_s - first.time_s
    frames = last.frames - first.frames
    cores = phase.cpu_s / (phase.end_s - phase.begin_s)
    learner_cpu_s = last.learner_cpu_s - first.learner_cpu_s
    figures = {
        "steps sampled per second": (last.steps - first.steps) / seconds,
        TRAINED: frames / seconds,
        "CPU seconds per 1,000,000 frames": cores / (frames / seconds) * 1e6,
        LEARNER: learner_cpu_s / frames * 1e6,
    }
    return figures if learner_cpu_s else {name: value for name, value in figures.items() if name != LEARNER}


def _between(samples: Sequence[Sample], begin_s: float, end_s: float) -> list[Sample]:
    return [sample for sample in samples if begin_s <= sample.time_s <= end_s]


def _num_batches(samples: Sequence[Sample]) -> int:
    return len({sample.frames for sample in samples}) - 1
