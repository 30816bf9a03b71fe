"""Is what `sample-profiler whatif` says true? Add a delay to a stage, ask what it would give without, and take it away.

For each stage runs have a delay. On them the stage's weight is measured as the command does, and which share of what
the stage does by itself the delay is: that is all that the prediction knows. What taking it away really gives is
measured on the same runs, in turn with what the prediction comes from: what else the machine does comes and goes within
minutes, and of two runs with the same flags one may be faster by more than the ten points that are asked for. All
measurements count the steps of environments per second. The exit status is 1 if a predicted gain is off by more than
ten points from the median of the real ones.

    python -m benchmarks.checks.whatif_check

takes some 15 minutes for the three stages, with nothing else on the machine. Every run is kept in
results/whatif-check.jsonl as soon as it is over, and the same command goes on behind the last one. Delays are meant to
cost 20 to 40 % on two cores: where they do not, it says which `--scale` would do. `--mixed` checks other kinds of
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
from benchmarks.measuring.runs.whatif_cases import CASES, MIXED, Case, injected_share, live_run, steps_per_second
from sample_profiler.analysis.whatif import gain, median_ceiling, stage_weight
from sample_profiler.cli.slowing import Pair, choose_lengths, look, measure_pairs
from sample_profiler.errors import CaptureError, SessionError
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.commands.control_socket import ControlClient

RESULTS = Path(__file__).parents[1] / "results"
_SHARE = 0.5  # as the command does by itself
_ROUNDS = 4  # of the three runs together some more than its ten
_ORDERS = (("fast", "slow"), ("slow", "fast"))  # in turn: what drifts favours neither
_LEAST_RUNS = 2
_TOLERANCE = 0.1
_LEAST_GAIN, _MOST_GAIN, _WANTED_GAIN = 0.2, 0.4, 0.3  # smaller ones are noise, in larger ones ten points are nothing

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What was predicted of a case, and what was seen.

    Attributes:
        name: of the case.
        predicted: gain of taking its delay away.
        interval: its 95 % interval; None: fewer than six pairs have none.
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
        interval = "fewer than six pairs have no interval"
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
            text += f"\n  the delay is meant to cost 20 to 40 %: {self._cure()}"
        return text

    def _cure(self) -> str:
        if self.seen <= 0:
            return "give a larger --scale, with another --output"
        return f"give {_WANTED_GAIN / self.seen:.2g} times the --scale, with another --output"


def measure(case: Case, seconds: float | None, rounds: int) -> dict[str, Any]:
    """Ask a run with the delay what it would gain without, and take the delay away and give it back in turn with that.

    Raises:
        SessionError: it ended meanwhile, or spent no time with the delay.
        CaptureError: it cannot be asked.
        OSError: it cannot be reached.
    """
    pairs: list[Pair] = []
    rates: dict[str, list[float]] = {"slow": [], "fast": []}
    with live_run(case) as run, contextlib.closing(ControlClient(RunFolder(run.folder).control_socket)) as client:
        length_s, settle_s = choose_lengths(run.folder, seconds)
        for pair in measure_pairs(client, run.folder, [case.stage], _SHARE, length_s, settle_s, rounds):
            for kind in _ORDERS[len(pairs) % 2]:
                run.set_delay(kind == "slow")
                time.sleep(settle_s)
                rates[kind].append(steps_per_second(look(run.folder, length_s)))
            run.set_delay(True)
            pairs.append(pair)
    looks = [pair.facts for pair in pairs]
    share = median(injected_share(facts, case) for facts in looks)
    bound = median_ceiling(looks, case.stage, 1 / (1 - share))
    asked = [(pair.base, pair.slowed) for pair in pairs]
    return {"injected_share": share, "asked": asked, "most": bound.gain, "limit": bound.limit, **rates}


def outcome(name: str, stage: str, results: Sequence[Result]) -> Outcome:
    """Return what the runs of a case come to.

    Args:
        name: of the case.
        stage: that it slows.
        results: its runs, in any order; the pairs of all of them count alike.
    """
    weight = stage_weight(stage, list(itertools.chain(*(result["asked"] for result in results))), _SHARE)
    speedup = 1 / (1 - median(result["injected_share"] for result in results))
    most, limit = sorted((result["most"], result["limit"]) for result in results)[len(results) // 2]

    def bounded(value: float) -> float:
        return min(gain(value, speedup), float(most))

    pairs = [zip(result["slow"], result["fast"], strict=True) for result in results]
    return Outcome(
        name,
        bounded(weight.weight),
        weight.interval and (bounded(weight.interval[0]), bounded(weight.interval[1])),
        limit if gain(weight.weight, speedup) > most else "",
        tuple(fast / slow - 1 for slow, fast in itertools.chain(*pairs)),
    )


def make_missing_runs(name: str, case: Case, kept: KeptRuns, options: argparse.Namespace) -> list[Result]:
    """Make the runs of a case that are not there yet; return all of it.

    Raises:
        SystemExit: one of them failed.
    """
    own: list[Result] = [result for result in kept.results if result["case"] == name]
    while len(own) < options.runs:
        try:
            made = {"case": name, **measure(case, options.seconds, options.rounds)}
        except (SessionError, CaptureError, OSError) as error:
            raise SystemExit(f"{name}: {error}") from error
        kept.add(made)
        print(f"{name}: {_describe(made)}", flush=True)
        own.append(made)
    return own


def _describe(result: Result) -> str:
    asked, real = (
        ", ".join(f"{one:,.0f} and {other:,.0f}" for one, other in pairs)
        for pairs in (result["asked"], zip(result["slow"], result["fast"], strict=True))
    )
    return (
        f"the delay is {100 * result['injected_share']:.0f} % of the stage; passes/s with the delay, and with the "
        f"stage slowed: {asked}; with the delay, and without: {real}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Check the cases and print them; the exit status is 1 if one is off by more than ten points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=(*CASES, *MIXED), help="default: the three stages")
    parser.add_argument("--mixed", action="store_true", help="check other kinds of delays instead")
    parser.add_argument("--runs", type=int, default=3, help="of each case")
    parser.add_argument("--seconds", type=float, help="length of each measurement; default: as the command")
    parser.add_argument(
        "--rounds",
        type=int,
        default=_ROUNDS,
        help="of each run: measurements in turn of what is predicted and what is seen",
    )
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
