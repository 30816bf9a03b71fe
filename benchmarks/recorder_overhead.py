"""Print what the recorder costs a run: its throughput with the recorder on against the same run with it off.

One live run per environment, during which the recorder of all processes is switched on and off in turn (on, off, off,
on, …) every few seconds by `Runner.set_recording_enabled`. The figures of a phase leave out its first half second.
The ratio of on to off is taken in pairs of neighbouring phases, which drifts and neighbours on the machine hit alike;
its estimate is the trimmed mean over the pairs (of logarithms, a fifth cut off at each end), with a 95 % bootstrap
interval. What counts is the frames trained on per second; processor time per frame is there because it is steadier on
a machine with other work.

    python -m benchmarks.recorder_overhead --envs doom_benchmark CartPole-v1 --seconds 150 --phase_seconds 4
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.measuring.alternation import HEADER, Alternation, Comparison, compare
from benchmarks.measuring.live_runs import NAMES, make_run

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


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", choices=NAMES, default=NAMES, help="environments, one run each")
    parser.add_argument("--seconds", type=float, default=100.0, help="how long each run trains")
    parser.add_argument("--phase_seconds", type=float, default=4.0, help="how long the recorder stays as it is")
    parser.add_argument("--serial", action="store_true", help="all components in one process")
    options = parser.parse_args(argv)
    flags = ("--serial_mode=True", "--async_rl=False") if options.serial else ()
    for name in options.envs:
        comparisons = measure(name, options.seconds, options.phase_seconds, flags)
        print(f"{name}, {'serial' if options.serial else 'parallel'}, {len(comparisons[0].on)} pairs of phases")
        print(HEADER)
        for comparison in comparisons:
            print(comparison.describe())
        lost = next(each for each in comparisons if each.name.startswith("frames")).ratio.map(lambda r: (1 - r) * 100)
        verdict = "within" if lost.upper <= MOST_LOST_PERCENT else "NOT shown to be within"
        print(f"throughput lost: at most {lost.upper:.2f} % (95 %), {verdict} {MOST_LOST_PERCENT:g} %\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
