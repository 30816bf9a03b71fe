"""Print what the recorder costs a run: its throughput with the recorder on against the same run with it off.

One live run per environment, during which the recorder of all processes is switched on and off in turn (on, off, off,
on, …) every few seconds by `Runner.set_recording_enabled`. The figures of a phase leave out its first half second.
The ratio of on to off is taken in pairs of neighbouring phases, which drifts and neighbours on the machine hit alike;
its estimate is the trimmed mean over the pairs (of logarithms, a fifth cut off at each end), with a 95 % bootstrap
interval. What counts is the frames trained on per second; processor time per frame is there because it is steadier on
a machine with other work.

With `--keep FILE` the pairs of a run join those of earlier runs in the file, and the verdict is about all of them: on a
machine whose speed moves, one run is seldom enough. Keep a file for each machine and each version of the recorder.

    python -m benchmarks.recorder_overhead --envs doom_benchmark CartPole-v1 --seconds 150 --phase_seconds 4
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring.alternation import HEADER, Alternation, Comparison, compare
from benchmarks.measuring.live_runs import NAMES, make_run
from benchmarks.measuring.paired import ratio_on_to_off

MOST_LOST_PERCENT = 3.0


def measure(name: str, seconds: float, phase_s: float, flags: Sequence[str]) -> list[Comparison]:
    """Make a run in which the recorder is on and off in turn."""
    run = make_run(name, seconds, flags)

    def switch(is_on: bool) -> None:
        assert run.runner is not None, "observers are told by a Runner"
        run.runner.set_recording_enabled(is_on)

    alternation = Alternation(run, switch, phase_s, warm_up_s=5.0)
    run.execute([alternation])
    return compare(run.samples, alternation.phases)


def pooled(comparison: Comparison, kind: str, path: Path | None) -> Comparison:
    """Add the pairs of a comparison to those of its kind that a file keeps, and return the comparison of all.

    Args:
        comparison: of one run.
        kind: runs of which kind are alike.
        path: of the file, a line of JSON for each run; None: nothing is kept.
    """
    if path is None:
        return comparison
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"kind": kind, "on": comparison.on, "off": comparison.off}) + "\n")
    runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    on, off = ([value for run in runs if run["kind"] == kind for value in run[side]] for side in ("on", "off"))
    return Comparison(comparison.name, on, off, ratio_on_to_off(on, off))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", choices=NAMES, default=NAMES, help="environments, one run each")
    parser.add_argument("--seconds", type=float, default=100.0, help="how long each run trains")
    parser.add_argument("--phase_seconds", type=float, default=4.0, help="how long the recorder stays as it is")
    parser.add_argument("--keep", type=Path, help="file of all runs' pairs; the verdict is about all of its kind")
    parser.add_argument("--serial", action="store_true", help="all components in one process")
    options = parser.parse_args(argv)
    flags = ("--serial_mode=True", "--async_rl=False") if options.serial else ()
    for name in options.envs:
        comparisons = measure(name, options.seconds, options.phase_seconds, flags)
        kind = f"{name}, {'serial' if options.serial else 'parallel'}"
        print(f"{kind}, {len(comparisons[0].on)} pairs of phases")
        print(HEADER)
        for comparison in comparisons:
            print(comparison.describe())
        trained = next(each for each in comparisons if each.name.startswith("frames"))
        trained = pooled(trained, kind, options.keep)
        if options.keep:
            print(f"all {len(trained.on)} pairs in {options.keep}:\n{trained.describe()}")
        lost = trained.ratio.map(lambda ratio: (1 - ratio) * 100)
        verdict = "within" if lost.upper <= MOST_LOST_PERCENT else "NOT shown to be within"
        print(f"throughput lost: at most {lost.upper:.2f} % (95 %), {verdict} {MOST_LOST_PERCENT:g} %\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
