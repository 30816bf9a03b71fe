"""Is what `sample-profiler whatif` says true? Add a delay to a stage, ask what it would give without, and take it away.

For each stage one run has a delay. On it the stage's weight is measured as the command does, and which share of the
stage's time the delay is: that is all that the prediction knows. What taking it away really gives is measured in other
runs, with the delay and without, in turn: slow, fast, fast, slow. All of them count the steps of environments per
second. The exit status is 1 if a predicted gain is off by more than ten points from the median of the pairs.

    python -m benchmarks.whatif_check

takes some 17 minutes for the three stages, with nothing else on the machine. Every run is kept in
results/whatif-check.jsonl as soon as it is over, and the same command goes on behind the last one. Delays are meant to
cost 20 to 60 % on two cores: where they do not, it says which `--scale` would do. `--mixed` checks other kinds of
delays instead: where a stage computes and its delay waits, what is measured of both together is the mean.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measuring.kept_runs import KeptRuns
from benchmarks.measuring.whatif_cases import CASES, MIXED, Case, injected_share, live_run, steps_per_second
from sample_profiler.analysis.whatif import ceiling, gain, stage_weight
from sample_profiler.cli.whatif import look, measure_pairs
from sample_profiler.errors import CaptureError, SessionError
from sample_profiler.runtime.control_socket import ControlClient

RESULTS = Path(__file__).parent / "results"
_SHARE, _SECONDS, _SETTLE_S, _ROUNDS = 0.5, 8.0, 3.0, 4  # as the command does by itself
_LEAST_PAIRS = 3
_TOLERANCE = 0.1
_LEAST_GAIN, _MOST_GAIN, _WANTED_GAIN = 0.2, 0.6, 0.4  # smaller ones are noise, in larger ones ten points are nothing

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


def predict(case: Case, seconds: float, rounds: int) -> dict[str, Any]:
    """Ask a run with the delay what it would gain without.

    Raises:
        SessionError: it ended meanwhile, or spent no time with the delay.
        CaptureError: it cannot be asked.
    """
    with live_run(case) as folder, contextlib.closing(ControlClient(folder / "profile")) as client:
        facts = look(folder, seconds)
        measured = measure_pairs(client, folder, [case.stage], _SHARE, seconds, _SETTLE_S, rounds)
        pairs = [(base, slowed) for _, base, slowed in measured]
    share = injected_share(facts, case.stage)
    bound = ceiling(facts, case.stage, 1 / (1 - share))
    return {"injected_share": share, "pairs": pairs, "most": bound.gain, "limit": bound.limit}


def measure(case: Case, seconds: float) -> dict[str, Any]:
    """Return how quickly a run with the delays of a case samples.

    Raises:
        SessionError: it ended meanwhile.
    """
    with live_run(case) as folder:
        return {"steps_per_second": steps_per_second(look(folder, seconds))}


def schedule(num_pairs: int) -> list[tuple[str, int]]:
    """Return the runs of a case, each as what it is for and its number: slow, fast, fast, slow, … after the prediction.

    What drifts in the course of them favours neither.
    """
    runs = [("prediction", 0)]
    for number in range(num_pairs):
        pair = [("slow", number), ("fast", number)]
        runs += pair if number % 2 == 0 else pair[::-1]
    return runs


def outcome(name: str, stage: str, results: Sequence[Result]) -> Outcome:
    """Return what the runs of a case come to.

    Args:
        name: of the case.
        stage: that it slows.
        results: its runs, in any order; pairs of which one is missing do not count.
    """
    asked = next(result for result in results if result["kind"] == "prediction")
    weight = stage_weight(stage, asked["pairs"], _SHARE)
    speedup = 1 / (1 - asked["injected_share"])

    def bounded(value: float) -> float:
        return min(gain(value, speedup), float(asked["most"]))

    rates = {(r["kind"], r["number"]): float(r["steps_per_second"]) for r in results if "steps_per_second" in r}
    both = [(rates["slow", n], rates["fast", n]) for kind, n in rates if kind == "slow" and ("fast", n) in rates]
    return Outcome(
        name,
        bounded(weight.weight),
        weight.interval and (bounded(weight.interval[0]), bounded(weight.interval[1])),
        asked["limit"] if gain(weight.weight, speedup) > asked["most"] else "",
        tuple(fast / slow - 1 for slow, fast in both),
    )


def make_missing_runs(name: str, case: Case, kept: KeptRuns, options: argparse.Namespace) -> list[Result]:
    """Make the runs of a case that are not there yet; return all of it.

    Raises:
        SystemExit: one of them failed.
    """
    done = {(result["kind"], result["number"]) for result in kept.results if result["case"] == name}
    for kind, number in schedule(options.pairs):
        if (kind, number) in done:
            continue
        try:
            if kind == "prediction":
                result = predict(case, options.seconds, options.rounds)
            else:
                result = measure(case if kind == "slow" else case.scaled(0), options.run_seconds)
        except (SessionError, CaptureError, OSError) as error:
            raise SystemExit(f"{name}, {kind}: {error}") from error
        kept.add({"case": name, "kind": kind, "number": number, **result})
        print(f"{name}, {kind} {number}: {_describe(result)}", flush=True)
    return [result for result in kept.results if result["case"] == name]


def _describe(result: Result) -> str:
    if "pairs" not in result:
        return f"{result['steps_per_second']:,.1f} passes/s"
    pairs = ", ".join(f"{base:,.1f} and {slowed:,.1f}" for base, slowed in result["pairs"])
    return f"the delay is {100 * result['injected_share']:.0f} % of the stage; {pairs} passes/s"


def main(argv: Sequence[str] | None = None) -> int:
    """Check the cases and print them; the exit status is 1 if one is off by more than ten points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=(*CASES, *MIXED), help="default: the three stages")
    parser.add_argument("--mixed", action="store_true", help="check other kinds of delays instead")
    parser.add_argument("--pairs", type=int, default=4, help="runs with and without the delay")
    parser.add_argument("--run_seconds", type=float, default=12.0, help="for which each of them is looked at")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="of each measurement of whatif")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="of these measurements")
    parser.add_argument("--scale", type=float, default=1.0, help="delays so many times as long, for other machines")
    parser.add_argument("--output", type=Path, default=RESULTS / "whatif-check.jsonl", help="file of the runs")
    options = parser.parse_args(argv)
    if options.pairs < _LEAST_PAIRS:
        parser.error(f"--pairs {options.pairs}: give {_LEAST_PAIRS} or more, so that one that is off does not count")
    arguments = {name: getattr(options, name) for name in ("run_seconds", "seconds", "rounds", "scale")}
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
