"""Owns `sample-profiler diff`: in what two runs differ that are there, whatever has become of them."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path

from sample_profiler.analysis.comparing.comparison import compare_pairs
from sample_profiler.analysis.comparing.cost_changes import (
    MOST_SHOWN,
    SHORTEST_S,
    cost_changes,
    count_changes,
    is_wait,
    largest_blocks,
)
from sample_profiler.analysis.comparing.costs import RunCosts, different_machines, pass_costs, run_costs
from sample_profiler.cli.common.arguments import Commands, add_allow_different_machines, as_output_file, as_share
from sample_profiler.cli.common.problems import files_told_of
from sample_profiler.cli.common.progress import progress_shown
from sample_profiler.errors import SessionError, TooSlowError, UsageError
from sample_profiler.profiling.session.session import Session, read_session
from sample_profiler.profiling.tree.render import printable, printable_text
from sample_profiler.reports.comparison import format_block_changes, format_counts
from sample_profiler.reports.flame_difference import write_flame_difference
from sample_profiler.run_folder import RunFolder

__all__ = ["add_parser", "diff", "diff_captures", "run"]

_NOISE = "One run of each: only compare with several pairs tells a difference from noise"


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "diff",
        help="show in what two runs differ, or two captures",
        description="Show in what two runs differ: throughput, passes through blocks, time in blocks. Of two captures "
        "with call stacks (pyinstrument, py-spy, memray), write a flame graph of the difference.",
    )
    parser.add_argument("run_a", metavar="A", type=Path, help="folder of a run, or a capture: a .speedscope.json")
    parser.add_argument("run_b", metavar="B", type=Path, help="folder of another run, or another capture")
    parser.add_argument(
        "--output",
        type=as_output_file,
        default=Path("difference.html"),
        metavar="FILE",
        help="page with the difference of two captures; default: difference.html",
    )
    parser.add_argument(
        "--fail-over", type=_as_tolerance, metavar="PERCENT", help="exit status 1 if B is slower by more than that: 5%%"
    )
    add_allow_different_machines(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    if arguments.run_a.is_file() and arguments.run_b.is_file():
        diff_captures(arguments.run_a, arguments.run_b, arguments.output)
        return 0
    allow = arguments.allow_different_machines
    diff(arguments.run_a, arguments.run_b, arguments.fail_over, allow_different_machines=allow)
    return 0


def diff_captures(a: Path, b: Path, output: Path) -> None:
    """Write a flame graph of the difference of two captures, and print what differs most.

    Raises:
        UsageError: a file cannot be read or written, or is no such capture.
    """
    with files_told_of(), progress_shown("comparing call stacks"):
        try:
            lines = write_flame_difference(a, b, output)
        except ValueError as error:
            raise UsageError(str(error)) from error
    print(printable_text("\n".join([f"A {a}", f"B {b}", "", *lines, "", f"Flame graph of the difference: {output}"])))


def _as_tolerance(text: str) -> float:
    """Return a percentage from 0 on and below 100 as a share."""
    return as_share(text, lambda percent: 0 <= percent < 100)


def diff(run_a: Path, run_b: Path, fail_over: float | None, *, allow_different_machines: bool) -> None:
    """Print in what two runs differ: in their steady parts; as a whole, if one of them has none.

    So are runs of which one trained on nothing in its steady part.

    Runs that tell of no frames, such as scripts of one's own, are compared by the time of a pass through their blocks.

    Args:
        run_a: folder of the one run.
        run_b: of the other one.
        fail_over: share by which B may be slower; None: any.
        allow_different_machines: whether runs of different machines are compared.

    Raises:
        SessionError: the runs cannot be compared.
        TooSlowError: B is slower by more than `fail_over`.
    """
    folders = (run_a, run_b)
    with progress_shown("reading the runs"):
        sessions, costs, not_steady = _load(run_a, run_b)
    differences = different_machines(*sessions)
    if differences and not allow_different_machines:
        raise SessionError(
            f"the runs are of different machines ({'; '.join(differences)}): --allow-different-machines compares "
            "them all the same"
        )
    if not_steady:
        print(f"{printable(not_steady)}: both are compared as a whole, with start-up and end")
    if costs is None:
        print(printable_text(_describe_passes(folders, sessions, fail_over)))
        return
    a, b = costs
    change = b.fps / a.fps - 1
    print(printable_text(f"A {run_a}\nB {run_b}"))
    print(f"{_NOISE}\n\n{format_counts(count_changes([costs]))}\n")
    print(f"A: {a.fps:,.0f} frames/s over {a.facts.seconds:.0f} s")
    print(f"B: {b.fps:,.0f} frames/s over {b.facts.seconds:.0f} s, {100 * change:+.1f} %\n")
    print(format_block_changes(cost_changes([costs], largest_blocks([costs])), tested=()))
    if fail_over is not None and change < -fail_over:
        raise TooSlowError(f"B is slower by more than {100 * fail_over:g} %")


def _load(run_a: Path, run_b: Path) -> tuple[tuple[Session, Session], tuple[RunCosts, RunCosts] | None, str]:
    """Return what is compared of two runs: sessions, costs if both tell of frames, and why that is not steady parts.

    Raises:
        SessionError: one of them is no run, or cannot be read.
    """
    folders = (run_a, run_b)
    # Killed, over before it was steady, or no run of this framework.
    without = [folder for folder in folders if not os.path.exists(RunFolder(folder).steady)]  # also if not to be seen
    not_steady = f"{_name(without)} {'have' if len(without) > 1 else 'has'} no steady part"
    if not without:
        load = partial(Session.load, with_events=False)
        steady = load(RunFolder(run_a).steady), load(RunFolder(run_b).steady)
        costs = _costs(*steady)
        if costs is not None:
            return steady, costs, ""
        idle = [folder for folder, session in zip(folders, steady, strict=True) if run_costs(session) is None]
        not_steady = f"{_name(idle)} trained on nothing in the steady part"
    whole = read_session(run_a, with_events=False), read_session(run_b, with_events=False)
    return whole, _costs(*whole), not_steady


def _name(folders: list[Path]) -> str:
    return " and ".join(map(str, folders))


def _costs(a: Session, b: Session) -> tuple[RunCosts, RunCosts] | None:
    cost_a, cost_b = run_costs(a), run_costs(b)
    return None if cost_a is None or cost_b is None else (cost_a, cost_b)


def _describe_passes(folders: tuple[Path, Path], sessions: tuple[Session, Session], fail_over: float | None) -> str:
    """Return how the time of a pass through blocks differs.

    Raises:
        SessionError: the runs have no block in common, or throughput is asked for.
    """
    without = [folder for folder, session in zip(folders, sessions, strict=True) if run_costs(session) is None]
    reason = f"{_name(without)} tell{'s' if len(without) == 1 else ''} of no frames trained on"
    if fail_over is not None:
        raise SessionError(f"{reason}, so there is no throughput for --fail-over: leave it out to compare blocks")
    a, b = (pass_costs(session) for session in sessions)
    common = [path for path in a if path in b and not is_wait(path)][:MOST_SHOWN]
    if not common:
        raise SessionError(f"{reason}, and the runs have no block in common: there is nothing to compare")
    changes = {path: compare_pairs([(max(a[path], SHORTEST_S), max(b[path], SHORTEST_S))]) for path in common}
    return f"A {folders[0]}, B {folders[1]}: {reason}, so blocks are compared pass by pass. {_NOISE}\n\n" + (
        format_block_changes(changes, tested=(), title="time per pass")
    )
