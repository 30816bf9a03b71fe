"""Is what `sample-profiler whatif` says true? Add a delay to a stage, ask what it would give without, and take it away.

For each stage one run has a delay. On it the stage's weight is measured as the command does, and which share of what
the stage does by itself the delay is: that is all that the prediction knows. What taking it away really gives is
measured in other runs, each with the delay and without in turn: slow, fast, fast, slow, and so on. (With the same flags
one run after another may differ by more than the ten points that are asked for.) All of them count the steps of
environments per second. The exit status is 1 if a predicted gain is off by more than ten points from the median of the
pairs.

    python -m benchmarks.whatif_check

takes some 15 minutes for the three stages, with nothing else on the machine. Every run is kept in
results/whatif-check.jsonl as soon as it is over, and the same command goes on behind the last one. Delays are meant to
cost 20 to 60 % on two cores: where they do not, it says which `--scale` would do. `--mixed` checks other kinds of
delays instead: where a stage computes and its delay waits, what is measured of both together is the mean. Among them is
an environment that is very quick, of which a slope does not tell all.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measuring.kept_runs import KeptRuns
from benchmarks.measuring.whatif_cases import CASES, MIXED, Case, injected_share, live_run, steps_per_second
from sample_profiler.analysis.whatif import gain, median_ceiling, stage_weight
from sample_profiler.cli.whatif import choose_lengths, look, measure_pairs
from sample_profiler.errors import CaptureError, SessionError
from sample_profiler.runtime.control_socket import ControlClient

RESULTS = Path(__file__).parent / "results"
_SHARE, _ROUNDS = 0.5, 10  # as the command does by itself
_ORDER = ("slow", "fast", "fast", "slow") * 3  # six pairs a run: what drifts in its course favours neither
_LEAST_RUNS = 2
_TOLERANCE = 0.1
_LEAST_GAIN, _MOST_GAIN, _WANTED_GAIN = 0.2, 0.6, 0.3  # smaller ones are noise, in larger ones ten points are nothing

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What was predicted of a case, and what was seen.

    Attributes:
        name: of the case.
        predicted: gain of taking its delay away.
        interval: its 95 % interval; None: one round has none.
        limit: what bounds it; empty: nothing does.
        gains: real ones, of each pair.
    """

    name: str
    predicted: float
    interval: tuple[float, float] | None
    limit: str
    gains: tuple[float, ...]

    @property
    def seen(self) -> float:
        """The median of the real gains."""
        return median(self.gains)

    @property
    def held(self) -> bool:
        """Whether the prediction is within ten points of it."""
        return abs(self.predicted - self.seen) <= _TOLERANCE

    def describe(self) -> str:
        """Return it as a line, with a second one where the delay is not of the size that is meant."""
        interval = "one round has no interval"
        if self.interval is not None:
            interval = "95 % interval {:+.0f} to {:+.0f} %".format(*(100 * end for end in self.interval))
        limit = f", bounded by {self.limit}" if self.limit else ""
        low, high = 100 * min(self.gains), 100 * max(self.gains)
        text = (
            f"{self.name}: {100 * self.predicted:+.0f} % predicted ({interval}{limit}); "
            f"{100 * self.seen:+.0f} % seen ({low:+.0f} to {high:+.0f} %, {len(self.gains)} pairs); "
            f"{100 * abs(self.predicted - self.seen):.0f} points apart: {'held' if self.held else 'NOT held'}"
        )
        if not _LEAST_GAIN <= self.seen <= _MOST_GAIN:
            text += f"\n  the delay is meant to cost 20 to 60 %: {self._cure()}"
        return text

    def _cure(self) -> str:
        if self.seen <= 0:
            return "give a larger --scale, with another --output"
        return f"give {_WANTED_GAIN / self.seen:.2g} times the --scale, with another --output"


def predict(case: Case, seconds: float | None, rounds: int) -> dict[str, Any]:
    """Ask a run with the delay what it would gain without.

    Raises:
        SessionError: it ended meanwhile, or spent no time with the delay.
        CaptureError: it cannot be asked.
    """
    with live_run(case) as run, contextlib.closing(ControlClient(run.folder / "profile")) as client:
        lengths = choose_lengths(run.folder, seconds)
        pairs = list(measure_pairs(client, run.folder, [case.stage], _SHARE, *lengths, rounds))
    looks = [pair.facts for pair in pairs]
    share = median(injected_share(facts, case) for facts in looks)
    bound = median_ceiling(looks, case.stage, 1 / (1 - share))
    measured = [(pair.base, pair.slowed) for pair in pairs]
    return {"injected_share": share, "pairs": measured, "most": bound.gain, "limit": bound.limit}


def measure(case: Case, seconds: float | None) -> dict[str, Any]:
    """Take the delay of a run away and give it back; return how quickly it samples with it and without.

    Raises:
        SessionError: it ended meanwhile.
    """
    rates: dict[str, list[float]] = {"slow": [], "fast": []}
    with live_run(case) as run:
        length_s, settle_s = choose_lengths(run.folder, seconds)
        for kind in _ORDER:
            run.set_delay(kind == "slow")
            time.sleep(settle_s)
            rates[kind].append(steps_per_second(look(run.folder, length_s)))
    return rates


def outcome(name: str, stage: str, results: Sequence[Result]) -> Outcome:
    """Return what the runs of a case come to.

    Args:
        name: of the case.
        stage: that it slows.
        results: its runs, in any order.
    """
    asked = next(result for result in results if result["kind"] == "prediction")
    weight = stage_weight(stage, asked["pairs"], _SHARE)
    speedup = 1 / (1 - asked["injected_share"])

    def bounded(value: float) -> float:
        return min(gain(value, speedup), float(asked["most"]))

    pairs = [zip(result["slow"], result["fast"], strict=True) for result in results if result["kind"] == "real"]
    return Outcome(
        name,
        bounded(weight.weight),
        weight.interval and (bounded(weight.interval[0]), bounded(weight.interval[1])),
        asked["limit"] if gain(weight.weight, speedup) > asked["most"] else "",
        tuple(fast / slow - 1 for slow, fast in itertools.chain(*pairs)),
    )


def make_missing_runs(name: str, case: Case, kept: KeptRuns, options: argparse.Namespace) -> list[Result]:
    """Make the runs of a case that are not there yet, the prediction first; return all of it.

    Raises:
        SystemExit: one of them failed.
    """
    own: list[Result] = [result for result in kept.results if result["case"] == name]
    for kind in ["prediction", *["real"] * options.runs][len(own) :]:
        try:
            if kind == "prediction":
                result = predict(case, options.seconds, options.rounds)
            else:
                result = measure(case, options.seconds)
        except (SessionError, CaptureError, OSError) as error:
            raise SystemExit(f"{name}, {kind}: {error}") from error
        made = {"case": name, "kind": kind, **result}
        kept.add(made)
        print(f"{name}, {_describe(made)}", flush=True)
        own.append(made)
    return own


def _describe(result: Result) -> str:
    if result["kind"] == "prediction":
        pairs = ", ".join(f"{base:,.1f} and {slowed:,.1f}" for base, slowed in result["pairs"])
        return f"asked: the delay is {100 * result['injected_share']:.0f} % of the stage; {pairs} passes/s"
    with_it, without = (", ".join(f"{rate:,.1f}" for rate in result[kind]) for kind in ("slow", "fast"))
    return f"real: {with_it} passes/s with the delay, {without} without"


def main(argv: Sequence[str] | None = None) -> int:
    """Check the cases and print them; the exit status is 1 if one is off by more than ten points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=(*CASES, *MIXED), help="default: the three stages")
    parser.add_argument("--mixed", action="store_true", help="check other kinds of delays instead")
    parser.add_argument("--runs", type=int, default=3, help="of a case beside the one that is asked; six pairs each")
    parser.add_argument("--seconds", type=float, help="length of each measurement; default: as the command")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="measurements of the stage's weight")
    parser.add_argument("--scale", type=float, default=1.0, help="delays so many times as long, for other machines")
    parser.add_argument("--output", type=Path, default=RESULTS / "whatif-check.jsonl", help="file of the runs")
    options = parser.parse_args(argv)
    if options.runs < _LEAST_RUNS:
        parser.error(f"--runs {options.runs}: give {_LEAST_RUNS} or more, so that a pair that is off does not count")
    arguments = {name: getattr(options, name) for name in ("seconds", "rounds", "scale")}
    kept = KeptRuns(options.output, arguments)
    outcomes = []
    for name in options.cases or (MIXED if options.mixed else CASES):
        case = (CASES | MIXED)[name].scaled(options.scale)
        outcomes.append(outcome(name, case.stage, make_missing_runs(name, case, kept, options)))
        print(outcomes[-1].describe(), flush=True)
    num_held = sum(each.held for each in outcomes)
    print(f"{num_held} of {len(outcomes)} predictions within ten points")
    return int(num_held < len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
