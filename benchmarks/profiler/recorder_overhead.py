"""Print what the recorder costs a run: its throughput with the recorder on against the same run with it off.

One live run per environment, during which the recorder of all processes is switched on and off in turn (on, off, off,
on, …) every few seconds by `Runner.set_recording_enabled`. The figures of a phase leave out its first half second.
The ratio of on to off is taken in pairs of neighbouring phases, which drifts and neighbours on the machine hit alike;
its estimate is the trimmed mean over the pairs (of logarithms, a fifth cut off at each end), with a 95 % bootstrap
interval.

What counts is the frames trained on per second. On machines that they share with others, processors change their speed
within seconds, and so does the throughput, far more than by anything a recorder does. How fast they were in a phase is
told by the processor time that the Learner took for a frame: it enters some tens of blocks for thousands of frames, so
the recorder has next to no part in it, and the line of that figure shows so. Where the Learner is a process of its
own, the verdict is about the frames per second without what this explains of them (a control variate); those as they
were are in the line above.

With `--keep FILE` the pairs of a run join those of earlier runs in the file, and the verdict is about all of them: on a
machine whose speed moves, one run is seldom enough. Keep a file for each machine and each version of the recorder.

    python -m benchmarks.profiler.recorder_overhead --envs doom_benchmark CartPole-v1 --seconds 600
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring.runs.live_runs import NAMES, make_run
from benchmarks.measuring.turns.alternation import ADJUSTED, HEADER, TRAINED, Alternation, Pair, compare, pairs_of

MOST_LOST_PERCENT = 3.0


def measure(name: str, seconds: float, phase_s: float, flags: Sequence[str]) -> list[Pair]:
    """Make a run in which the recorder is on and off in turn."""
    run = make_run(name, seconds, flags)

    def switch(is_on: bool) -> None:
        assert run.runner is not None, "observers are told by a Runner"
        run.runner.set_recording_enabled(is_on)

    alternation = Alternation(run, switch, phase_s, warm_up_s=5.0)
    run.execute([alternation])
    return pairs_of(run.samples, alternation.phases)


def keep(pairs: Sequence[Pair], kind: str, path: Path) -> list[Pair]:
    """Add the pairs of a run to a file, a line of JSON for each run, and return all that it has of the kind.

    Args:
        pairs: of one run.
        kind: runs of which kind are alike.
        path: of the file.
    """
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"kind": kind, "pairs": pairs}) + "\n")
    runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(on, off) for run in runs if run["kind"] == kind for on, off in run["pairs"]]


def print_verdict(pairs: Sequence[Pair]) -> None:
    """Print how the phases differ, and whether the recorder is shown to cost little."""
    print(f"{len(pairs)} pairs of phases\n{HEADER}")
    comparisons = {each.name: each for each in compare(pairs)}
    for comparison in comparisons.values():
        print(comparison.describe())
    lost = comparisons.get(ADJUSTED, comparisons[TRAINED]).ratio.map(lambda ratio: (1 - ratio) * 100)
    verdict = "within" if lost.upper <= MOST_LOST_PERCENT else "NOT shown to be within"
    print(f"throughput lost: at most {lost.upper:.2f} % (95 %), {verdict} {MOST_LOST_PERCENT:g} %\n", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", choices=NAMES, default=NAMES, help="environments, one run each")
    parser.add_argument("--seconds", type=float, default=100.0, help="how long each run trains")
    parser.add_argument("--phase_seconds", type=float, default=3.0, help="how long the recorder stays as it is")
    parser.add_argument("--keep", type=Path, help="file of all runs' pairs; the verdict is about all of its kind")
    parser.add_argument("--serial", action="store_true", help="all components in one process")
    options = parser.parse_args(argv)
    flags = ("--serial_mode=True", "--async_rl=False") if options.serial else ()
    for name in options.envs:
        pairs = measure(name, options.seconds, options.phase_seconds, flags)
        kind = f"{name}, {'serial' if options.serial else 'parallel'}"
        print(kind, end=": ")
        print_verdict(pairs)
        if options.keep:
            print(f"{kind}, all runs in {options.keep}", end=": ")
            print_verdict(keep(pairs, kind, options.keep))
    return 0


if __name__ == "__main__":
    sys.exit(main())
