"""Print which share of each process's time its recorder takes: blocks per second × cost of a block.

Blocks and points of flows are counted by the recorder itself, between two looks at the record files of a live run, some
seconds after its start and at its end. What each costs is measured in this process by the loops of `block_cost`, with a
record file and its ring of events attached as in a run; the quickest of several repeats. The share is of the processor
time that the process has had meanwhile, and of the wall time. With `--run_dir` the run is one that somebody else has
started: a live one is looked at twice, a finished one counts from its start.

    python -m benchmarks.profiler.recorder_share --envs doom_benchmark CartPole-v1
    python -m benchmarks.profiler.recorder_share --run_dir train_dir/make_run
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring.alone.block_loops import VARIANTS, empty, seconds_of
from benchmarks.measuring.machine.processor_time import processor_time_s
from benchmarks.measuring.moments import AtMoments
from benchmarks.measuring.runs.live_runs import NAMES, make_run
from sample_profiler.profiling import TWIN
from sample_profiler.profiling.record.reader import ProcessRecord
from sample_profiler.profiling.session.session import read_session

NUM_PASSES = 200_000
NUM_REPEATS = 7
MOST_PERCENT = 1.0


@dataclass(frozen=True)
class Costs:
    """What the recorder takes, in nanoseconds, with a record file and its ring of events.

    Attributes:
        block_ns: for a block.
        point_ns: for a point of a flow.
    """

    block_ns: float
    point_ns: float


@dataclass(frozen=True)
class Look:
    """What a process had done at one moment.

    Attributes:
        time_s: the moment (monotonic).
        num_blocks: that have been closed.
        num_points: of flows.
        cpu_s: processor time so far.
    """

    time_s: float
    num_blocks: int
    num_points: int
    cpu_s: float


def measure_costs() -> Costs:
    """Measure in this process."""
    with tempfile.TemporaryDirectory() as folder:
        return Costs(cost_ns("ring", Path(folder, "block")), cost_ns("flow", Path(folder, "flow")))


def cost_ns(variant: str, folder: Path) -> float:
    """Return what one pass of a loop of `block_loops` costs, less the empty loop; the least of several repeats."""
    folder.mkdir()
    loop = VARIANTS[variant](str(folder))
    seconds = min(seconds_of(loop, NUM_PASSES) - seconds_of(empty, NUM_PASSES) for _ in range(NUM_REPEATS))
    return seconds / NUM_PASSES * 1e9


def look(record: ProcessRecord) -> Look:
    """Return how far a process is; its processor time is that of now if it lives."""
    num_passes = sum(node.statistics.count for tree in record.trees.values() for node in tree.walk())
    num_events = record.num_events_lost + len(record.events)
    cpu_s = record.gauges["cpu_s"].value if "cpu_s" in record.gauges else float("nan")
    if not record.is_closed:
        with contextlib.suppress(OSError):
            cpu_s = processor_time_s(record.pid)
    return Look(record.read_ns / 1e9, num_passes, max(0, num_events - num_passes), cpu_s)


def look_at_all(run_dir: Path) -> dict[tuple[str, int], tuple[Look, bool]]:
    """Return how far each process of a run is, by name and number, and whether it has ended."""
    session = read_session(run_dir, with_histograms=False)
    return {(record.name, record.pid): (look(record), record.is_closed) for record in session.processes}


def print_shares(before: dict[tuple[str, int], Look], after: dict[tuple[str, int], Look], costs: Costs) -> None:
    """Print one line per process."""
    print(f"{'process':24}{'blocks/s':>12}{'points/s':>12}{'% of CPU':>12}{'% of wall':>12}")
    worst = 0.0
    for process, end in sorted(after.items()):
        begin = before[process]
        seconds, cpu_s = end.time_s - begin.time_s, end.cpu_s - begin.cpu_s
        num_blocks, num_points = end.num_blocks - begin.num_blocks, end.num_points - begin.num_points
        recorder_s = (num_blocks * costs.block_ns + num_points * costs.point_ns) / 1e9
        of_cpu, of_wall = recorder_s / cpu_s * 100 if cpu_s > 0 else float("nan"), recorder_s / seconds * 100
        worst = max(worst, of_wall, of_cpu if cpu_s > 0 else 0.0)
        rates = f"{num_blocks / seconds:>12,.0f}{num_points / seconds:>12,.0f}"
        print(f"{process[0]:24}{rates}{of_cpu:>12.3f}{of_wall:>12.3f}")
    print(
        f"most: {worst:.3f} %, {'within' if worst <= MOST_PERCENT else 'NOT within'} {MOST_PERCENT:g} %\n", flush=True
    )


def measure(name: str, seconds: float, flags: Sequence[str], costs: Costs) -> None:
    """Make a run, look at it twice and print."""
    run = make_run(name, seconds, flags)
    looks: list[dict[tuple[str, int], Look]] = []

    def take() -> None:
        looks.append({process: each for process, (each, _) in look_at_all(run.folder).items()})

    run.execute([AtMoments([(seconds / 3, take), (seconds - 2.0, take)])])
    print(f"{name}, {'serial' if flags else 'parallel'}")
    common = {process: each for process, each in looks[1].items() if process in looks[0]}
    print_shares(looks[0], common, costs)


def measure_foreign(run_dir: Path, seconds: float, costs: Costs) -> None:
    """Look at a run that somebody else has made, and print."""
    first = look_at_all(run_dir)
    if all(is_closed for _, is_closed in first.values()):
        starts = {
            (r.name, r.pid): Look(r.process_started_ns / 1e9, 0, 0, 0.0)
            for r in read_session(run_dir, with_events=False).processes
        }
        print_shares(starts, {process: each for process, (each, _) in first.items()}, costs)
        return
    time.sleep(seconds)
    second = look_at_all(run_dir)
    before = {process: each for process, (each, _) in first.items() if process in second}
    print_shares(before, {process: second[process][0] for process in before}, costs)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", choices=NAMES, default=NAMES, help="environments, one run each")
    parser.add_argument("--seconds", type=float, default=40.0, help="how long each run trains, or a live one is seen")
    parser.add_argument("--serial", action="store_true", help="all components in one process")
    parser.add_argument("--run_dir", type=Path, help="a run that is there, instead")
    options = parser.parse_args(argv)
    costs = measure_costs()
    print(
        f"one block: {costs.block_ns:.0f} ns, one point of a flow: {costs.point_ns:.0f} ns "
        f"({TWIN} recorder, with its ring of events)\n"
    )
    if options.run_dir:
        measure_foreign(options.run_dir, options.seconds, costs)
        return 0
    flags = ("--serial_mode=True", "--async_rl=False") if options.serial else ()
    for name in options.envs:
        measure(name, options.seconds, flags, costs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
