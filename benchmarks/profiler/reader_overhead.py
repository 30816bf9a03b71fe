"""Print what being watched costs a run: its throughput with two processes reading all its record files, and without.

One live run per environment. Two reader processes, started before the run, read every file of the run's
`profile/live/` twice a second while they are told to, and sleep otherwise; they take turns every few seconds (on, off,
off, on, …). Ratio, estimate and interval are those of `recorder_overhead`. The readers compete with the run for
processors, as somebody's `sample-profiler status` would; their own processor time is printed, too.

What two readings a second cost is far less than a machine's speed changes from one phase to the next. With
`--hertz 20` they read ten times as often; a tenth of the change, and of its interval, is then printed as that of 2 Hz.
Whether the cost grows in proportion is seen by the readers' processor shares at both.

    python -m benchmarks.profiler.reader_overhead --envs doom_benchmark --seconds 150 --hertz 20
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from benchmarks.measuring.runs.live_runs import NAMES, make_run
from benchmarks.measuring.turns.alternation import HEADER, TRAINED, Alternation, Comparison, compare, pairs_of
from sample_profiler.run_folder import RunFolder

NUM_READERS = 2
USUAL_HERTZ = 2.0
MOST_CHANGE_PERCENT = 1.0


@contextlib.contextmanager
def readers(folder: Path, hertz: float, is_with_events: bool) -> Iterator[list[psutil.Popen]]:
    """Start processes that read record files while they are told to."""
    command = [sys.executable, "-m", "benchmarks.measuring.alone.polling_reader", str(folder), f"--hertz={hertz:g}"]
    if is_with_events:
        command.append("--with_events")
    processes = [psutil.Popen(command, stdin=-1, text=True) for _ in range(NUM_READERS)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdin.close()


def measure(
    name: str, seconds: float, phase_s: float, hertz: float, is_with_events: bool
) -> tuple[list[Comparison], list[float]]:
    """Make a run that is watched and not watched in turn; return also each reader's processor seconds per second."""
    run = make_run(name, seconds)
    with readers(RunFolder(run.folder).live().path, hertz, is_with_events) as processes:
        run.foreign_pids.update(process.pid for process in processes)

        def switch(is_on: bool) -> None:
            for process in processes:
                process.stdin.write("on\n" if is_on else "off\n")
                process.stdin.flush()

        alternation = Alternation(run, switch, phase_s, warm_up_s=5.0)
        cpu_s: list[float] = []
        alternation.at_end = lambda: cpu_s.extend(sum(process.cpu_times()[:2]) for process in processes)
        run.execute([alternation])
    watched_s = sum(phase.end_s - phase.begin_s for phase in alternation.phases if phase.is_on)
    return compare(pairs_of(run.samples, alternation.phases)), [seconds / watched_s for seconds in cpu_s]


def in_proportion(hertz: float) -> Callable[[float], float]:
    """Return what makes a change by readers at this rate one by readers at 2 Hz; that of slower ones stays as it is."""
    return lambda change: change * min(1.0, USUAL_HERTZ / hertz)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", choices=NAMES, default=NAMES, help="environments, one run each")
    parser.add_argument("--seconds", type=float, default=100.0, help="how long each run trains")
    parser.add_argument("--phase_seconds", type=float, default=3.0, help="how long the readers stay as they are")
    parser.add_argument("--hertz", type=float, default=USUAL_HERTZ, help="how often a second each reader reads")
    parser.add_argument("--with_events", action="store_true", help="follow the latest blocks, too")
    options = parser.parse_args(argv)
    for name in options.envs:
        comparisons, cores = measure(name, options.seconds, options.phase_seconds, options.hertz, options.with_events)
        watched_by = f"{NUM_READERS} readers at {options.hertz:g} Hz"
        print(f"{name}, parallel, {watched_by}, {len(comparisons[0].on)} pairs of phases")
        print(HEADER)
        for comparison in comparisons:
            print(comparison.describe())
        ratio = next(each for each in comparisons if each.name == TRAINED).ratio
        change = ratio.map(lambda ratio: (ratio - 1) * 100).map(in_proportion(options.hertz))
        is_within = max(-change.lower, change.upper) < MOST_CHANGE_PERCENT
        verdict = "within" if is_within else "NOT shown to be within"
        print(
            f"change of throughput by reading at {min(USUAL_HERTZ, options.hertz):g} Hz: "
            f"{change.lower:+.2f} to {change.upper:+.2f} % (95 %), {verdict} {MOST_CHANGE_PERCENT:g} %"
        )
        print(f"a reader's processor share while it reads: {', '.join(f'{each:.1%}' for each in cores)}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
