"""Print which share of each process's time its recorder takes: blocks per second × cost of a block.

Blocks are counted by the recorder itself (points of flows with them), between two looks at the record files of a live
run, some seconds after its start and at its end. A block's cost is measured in this process by the loops of
`block_cost`, with a record file and its ring of events attached as in a run; the quickest of several repeats. The
share is of the processor time that the process has had meanwhile, and of the wall time. With `--run_dir` the run is
one that somebody else has started: a live one is looked at twice, a finished one counts from its start.

    python -m benchmarks.recorder_share --envs doom_benchmark CartPole-v1
    python -m benchmarks.recorder_share --run_dir train_dir/make_run
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

from benchmarks.block_cost import cost_ns, empty, nested
from benchmarks.measuring.live_runs import NAMES, make_run
from benchmarks.measuring.moments import AtMoments
from sample_profiler.profiling import TWIN, Timing
from sample_profiler.profiling.record_file import RecordFile
from sample_profiler.profiling.record_reader import ProcessRecord
from sample_profiler.profiling.session import read_session

NUM_PASSES = 200_000
MOST_PERCENT = 1.0


@dataclass(frozen=True)
class Look:
    """What a process had done at one moment.

    Attributes:
        time_s: the moment (monotonic).
        num_blocks: that have been closed, or points of flows.
        cpu_s: processor time so far.
    """

    time_s: float
    num_blocks: int
    cpu_s: float


def measure_block_ns() -> float:
    """Return what one block inside another costs with everything on."""
    with tempfile.TemporaryDirectory() as folder:
        timing = Timing()
        file = RecordFile(Path(folder, "block_cost.rec"), process_name="block_cost")
        file.attach(timing, "block_cost")
        try:
            return (cost_ns(nested, timing, NUM_PASSES) - cost_ns(empty, timing, NUM_PASSES)) / 2
        finally:
            file.close()


def look(record: ProcessRecord) -> Look:
    """Return how far a process is; its processor time is that of now if it lives."""
    num_passes = sum(node.statistics.count for tree in record.trees.values() for node in tree.walk())
    num_events = record.num_events_lost + len(record.events)
    cpu_s = record.gauges["cpu_s"].value if "cpu_s" in record.gauges else float("nan")
    if not record.is_closed:
        with contextlib.suppress(OSError):
            # Exact to the nanosecond, unlike the usual count of ticks, which sees little of what runs in short bursts.
            threads = Path(f"/proc/{record.pid}/task").iterdir()
            cpu_s = sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    return Look(record.read_ns / 1e9, max(num_passes, num_events), cpu_s)


def look_at_all(run_dir: Path) -> dict[tuple[str, int], tuple[Look, bool]]:
    """Return how far each process of a run is, by name and number, and whether it has ended."""
    session = read_session(run_dir, with_histograms=False)
    return {(record.name, record.pid): (look(record), record.is_closed) for record in session.processes}


def print_shares(before: dict[tuple[str, int], Look], after: dict[tuple[str, int], Look], block_ns: float) -> None:
    """Print one line per process."""
    print(f"{'process':24}{'blocks/s':>12}{'% of CPU':>12}{'% of wall':>12}")
    worst = 0.0
    for process, end in sorted(after.items()):
        begin = before[process]
        seconds, cpu_s = end.time_s - begin.time_s, end.cpu_s - begin.cpu_s
        recorder_s = (end.num_blocks - begin.num_blocks) * block_ns / 1e9
        of_cpu, of_wall = recorder_s / cpu_s * 100 if cpu_s > 0 else float("nan"), recorder_s / seconds * 100
        worst = max(worst, of_wall, of_cpu if cpu_s > 0 else 0.0)
        rate = (end.num_blocks - begin.num_blocks) / seconds
        print(f"{process[0]:24}{rate:>12,.0f}{of_cpu:>12.3f}{of_wall:>12.3f}")
    print(
        f"most: {worst:.3f} %, {'within' if worst <= MOST_PERCENT else 'NOT within'} {MOST_PERCENT:g} %\n", flush=True
    )


def measure(name: str, seconds: float, flags: Sequence[str], block_ns: float) -> None:
    """Make a run, look at it twice and print."""
    run = make_run(name, seconds, flags)
    looks: list[dict[tuple[str, int], Look]] = []

    def take() -> None:
        looks.append({process: each for process, (each, _) in look_at_all(run.folder).items()})

    run.execute([AtMoments([(seconds / 3, take), (seconds - 2.0, take)])])
    print(f"{name}, {'serial' if flags else 'parallel'}")
    common = {process: each for process, each in looks[1].items() if process in looks[0]}
    print_shares(looks[0], common, block_ns)


def measure_foreign(run_dir: Path, seconds: float, block_ns: float) -> None:
    """Look at a run that somebody else has made, and print."""
    first = look_at_all(run_dir)
    if all(is_closed for _, is_closed in first.values()):
        starts = {
            (r.name, r.pid): Look(r.process_started_ns / 1e9, 0, 0.0)
            for r in read_session(run_dir, with_events=False).processes
        }
        print_shares(starts, {process: each for process, (each, _) in first.items()}, block_ns)
        return
    time.sleep(seconds)
    second = look_at_all(run_dir)
    before = {process: each for process, (each, _) in first.items() if process in second}
    print_shares(before, {process: second[process][0] for process in before}, block_ns)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", choices=NAMES, default=NAMES, help="environments, one run each")
    parser.add_argument("--seconds", type=float, default=40.0, help="how long each run trains, or a live one is seen")
    parser.add_argument("--serial", action="store_true", help="all components in one process")
    parser.add_argument("--run_dir", type=Path, help="a run that is there, instead")
    options = parser.parse_args(argv)
    block_ns = measure_block_ns()
    print(f"one block: {block_ns:.0f} ns ({TWIN} recorder, with its ring of events)\n")
    if options.run_dir:
        measure_foreign(options.run_dir, options.seconds, block_ns)
        return 0
    flags = ("--serial_mode=True", "--async_rl=False") if options.serial else ()
    for name in options.envs:
        measure(name, options.seconds, flags, block_ns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
