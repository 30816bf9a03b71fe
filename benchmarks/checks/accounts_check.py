"""Print how much of each component's time has no name, and whether the trees agree with clocks that are not theirs.

For each environment, parallel and serial, one run with three checks:

1. Unaccounted time: of the wall time of each component, counted from the start of its process.
2. A counter outside the recorder: each worker process sums up its own `perf_counter` seconds around the function inside
   the block `env_step`; the sum over all workers is compared with that of their trees.
3. py-spy (`pip install py-spy`), which looks at a process from outside: some hundred times a second it notes on which
   lines the main thread is. The share of samples inside a block is compared with the block's share of the wall in the
   trees, read before and after. Blocks of at least 5 % are compared. A share from n samples is uncertain by itself:
   twice its standard error is printed beside the difference, and a difference counts only beyond the sum of both.

py-spy stops a process for each sample, so runs with it say nothing about throughput. It needs a processor itself: where
all are busy, it tends to look when a process has none, and what runs in short bursts is seen too rarely.

    python -m benchmarks.checks.accounts_check --envs doom_benchmark --wirings parallel --sample_seconds 20
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import sample_profiler
from benchmarks.measuring.alone.sampled_blocks import WAITS, Samples, find_py_spy, sample_blocks
from benchmarks.measuring.moments import AtMoments
from benchmarks.measuring.runs.counted_steps import read_counted_s, register_counted
from benchmarks.measuring.runs.live_runs import NAMES, LiveRun, make_run
from sample_profiler.analysis.accounts import ComponentAccount, accounts
from sample_profiler.profiling.record.reader import ProcessRecord
from sample_profiler.profiling.session.session import read_session
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.profiling.tree.tree import TreeNode

SOURCE = Path(sample_profiler.__file__).parent
WARM_UP_S = 15.0
SAMPLED = ("RolloutWorker_w0", "InferenceWorker", "Learner")
MOST_UNACCOUNTED_PERCENT = 2.0
MOST_DIFFERENCE_PERCENT = 3.0
LEAST_SHARE = 0.05
FLAGS = {"parallel": (), "serial": ("--serial_mode=True", "--async_rl=False")}


@dataclass(frozen=True)
class BlockShare:
    """The share of a block, in the wall time of its process, seen from both sides.

    Attributes:
        process: name of the process.
        key: of the block.
        tree: the share in the trees.
        sampled: the share of samples.
        standard_error: of that.
        num_unreadable: samples of the process that py-spy had to leave out.
    """

    process: str
    key: str
    tree: float
    sampled: float
    standard_error: float
    num_unreadable: int


@dataclass
class Sampler:
    """Samples a run's processes one after another, in a thread of its own.

    Attributes:
        run: to look at.
        py_spy: the program.
        seconds: for each process.
        rate: samples per second.
        shares: what came out.
        error: what went wrong, if anything.
    """

    run: LiveRun
    py_spy: str
    seconds: int
    rate: int
    shares: list[BlockShare] = field(default_factory=list)
    error: str = ""
    thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; goes on in the background."""
        self.thread = threading.Thread(target=self._sample_all, name="sampler")
        self.thread.start()

    def _sample_all(self) -> None:
        try:
            for name in find_processes(read_records(self.run)):
                self._sample(name)
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"

    def _sample(self, name: str) -> None:
        before = read_records(self.run)[name]
        samples = sample_blocks(self.py_spy, before.pid, self.seconds, self.rate, SOURCE)
        self.shares += compare(before, read_records(self.run)[name], samples)


def read_records(run: LiveRun) -> dict[str, ProcessRecord]:
    """Return the record of every process of a run as it is now, by name."""
    return {record.name: record for record in read_session(run.folder, with_events=False).processes}


def find_processes(records: dict[str, ProcessRecord]) -> list[str]:
    """Return those to be sampled: one of each kind; in the serial wiring there is one."""
    found = [name for wanted in SAMPLED for name in [n for n in records if n.startswith(wanted)][:1]]
    return found or list(records)[:1]


def compare(before: ProcessRecord, after: ProcessRecord, samples: Samples) -> list[BlockShare]:
    """Return the blocks of at least 5 % on either side."""
    wall_ns = after.read_ns - before.read_ns
    shares = []
    for key in sorted(samples.in_block):
        if key == WAITS and len(after.components) > 1:
            continue  # there, other components' turns are waits, too
        tree = (total_ns(after, key) - total_ns(before, key)) / wall_ns
        if max(tree, samples.share(key)) >= LEAST_SHARE:
            share, error = samples.share(key), samples.standard_error(key)
            shares.append(BlockShare(after.name, key, tree, share, error, samples.num_unreadable))
    return sorted(shares, key=lambda share: -share.tree)


def total_ns(record: ProcessRecord, key: str) -> int:
    """Return the time in all blocks of a key, in all trees; a block inside one of its own key adds nothing."""
    total, stack = 0, list(record.trees.values())
    while stack:
        node: TreeNode = stack.pop()
        if node.key == key or (key == WAITS and node.key.startswith("wait_")):
            total += node.statistics.total_ns
        else:
            stack.extend(node.children.values())
    return total


def print_accounts(found: Sequence[ComponentAccount]) -> None:
    """Print one line per component."""
    print(f"{'component':24}{'wall s':>9}{'work s':>9}{'waits s':>9}{'unaccounted %':>15}")
    worst = 0.0
    for each in found:
        unaccounted = each.unaccounted_s / each.wall_s * 100
        worst = max(worst, unaccounted)
        work_s, waits_s = sum(each.work.values()), sum(each.waits.values())
        print(f"{each.component:24}{each.wall_s:>9.1f}{work_s:>9.1f}{waits_s:>9.1f}{unaccounted:>15.2f}")
    verdict = "within" if worst <= MOST_UNACCOUNTED_PERCENT else "NOT within"
    print(f"most: {worst:.2f} %, {verdict} {MOST_UNACCOUNTED_PERCENT:g} %")


def print_steps(tree_s: float, counted_s: float) -> None:
    """Print what the trees and the counter say of steps."""
    difference = (tree_s / counted_s - 1) * 100
    verdict = "within" if abs(difference) <= MOST_DIFFERENCE_PERCENT else "NOT within"
    print(
        f"env_step of all workers: trees {tree_s:.2f} s, counter {counted_s:.2f} s: "
        f"{difference:+.2f} %, {verdict} {MOST_DIFFERENCE_PERCENT:g} %"
    )


def print_shares(shares: Sequence[BlockShare]) -> None:
    """Print what the trees and py-spy say of blocks."""
    print(f"{'process':24}{'block':26}{'tree %':>9}{'py-spy %':>10}{'difference %':>14}{'± 2 errors %':>14}")
    num_apart = 0
    for share in shares:
        difference = (share.tree / share.sampled - 1) * 100 if share.sampled else float("inf")
        error = 2 * share.standard_error / share.sampled * 100 if share.sampled else 0.0
        is_apart = abs(difference) > MOST_DIFFERENCE_PERCENT + error
        num_apart += is_apart
        print(
            f"{share.process:24}{share.key:26}{share.tree * 100:>9.2f}{share.sampled * 100:>10.2f}"
            f"{difference:>+14.2f}{error:>14.2f}{'  apart' if is_apart else ''}"
        )
    num_near = len(shares) - num_apart
    print(f"{num_near} of {len(shares)} are within {MOST_DIFFERENCE_PERCENT:g} % and two errors of each other")
    for process, num_unreadable in sorted({(share.process, share.num_unreadable) for share in shares}):
        print(f"{process}: py-spy could not read {num_unreadable} stacks")


def check(name: str, wiring: str, seconds: float, py_spy: str | None, sample_seconds: int, rate: int) -> None:
    """Make a run and print what came out."""
    num_processes = 1 if wiring == "serial" else len(SAMPLED)
    if py_spy:
        # Reading the files and the start of py-spy take their time, too.
        seconds = max(seconds, WARM_UP_S + num_processes * (sample_seconds + 4.0) + 2.0)
    run = make_run(name, seconds, FLAGS[wiring])
    register_counted(name, run.folder)
    sampler = Sampler(run, py_spy, sample_seconds, rate) if py_spy else None
    start_s = time.monotonic()
    result = run.execute([AtMoments([(WARM_UP_S, sampler.start)] if sampler else [])])
    print(f"== {name}, {wiring}, {time.monotonic() - start_s:.0f} s, {result.steady_fps:,.0f} frames/s")
    # Of the whole run: while a serial one goes on, others' waits for the turn under way are not recorded yet.
    print_accounts(accounts(result.session))
    tree_s = sum(map(env_step_s, result.session.processes))
    print_steps(tree_s, read_counted_s(run.folder))
    if sampler and sampler.thread:
        sampler.thread.join()
        print(f"py-spy failed: {sampler.error}" if sampler.error else "", end="\n" if sampler.error else "")
        print_shares(sampler.shares)
    else:
        print("no comparison with py-spy: it is not there; pip install py-spy, or give its place with --py_spy")
    print(flush=True)


def env_step_s(process: ProcessRecord) -> float:
    """Return the seconds in the outermost blocks `env_step` of a process's trees."""
    trees = [tree for tree in process.trees.values() if "env_step" in tree.block_keys()]
    return sum(tree.value_of_key_ns("env_step") for tree in trees) / NS_PER_S


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", choices=NAMES, default=NAMES, help="environments")
    parser.add_argument("--wirings", nargs="+", choices=FLAGS, default=list(FLAGS), help="one run each")
    parser.add_argument("--seconds", type=float, default=40.0, help="how long a run trains at least")
    parser.add_argument("--sample_seconds", type=int, default=20, help="how long py-spy looks at a process")
    parser.add_argument("--rate", type=int, default=297, help="py-spy's samples per second")
    parser.add_argument("--py_spy", default=find_py_spy(), help="where py-spy is")
    options = parser.parse_args(argv)
    for name in options.envs:
        for wiring in options.wirings:
            check(name, wiring, options.seconds, options.py_spy, options.sample_seconds, options.rate)
    return 0


if __name__ == "__main__":
    sys.exit(main())
