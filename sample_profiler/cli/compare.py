"""Owns `sample-profiler compare` and `sample-profiler diff`: is this setting faster than that one, or is it noise?"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sample_profiler.analysis.comparison import PairedComparison, compare_pairs, holm
from sample_profiler.analysis.costs import RunCosts, different_machines, run_costs
from sample_profiler.errors import SessionError
from sample_profiler.profiling.session import Session, steady_path
from sample_profiler.reports.comparison import describe_throughput, format_block_changes, format_counts

__all__ = ["CompareRequest", "compare", "diff"]

_SLOWER, _BAD_USAGE = 1, 2
_MOST_TESTED = 5
_NUM_SHOWN = 10


@dataclass(frozen=True)
class CompareRequest:
    """What is compared.

    Attributes:
        command: that trains, without the flags that differ.
        flags: of A and of B.
        num_pairs: runs of each.
        blocks: at most five, whose differences are tested; empty: none.
        margin: differences of throughput up to this share do not matter.
        output: folder for the runs; those that are complete in it are not made again.
    """

    command: Sequence[str]
    flags: tuple[str, str]
    num_pairs: int
    blocks: Sequence[str]
    margin: float
    output: Path


def compare(request: CompareRequest) -> int:
    """Run both settings in turn, in fresh processes, and print what can be said.

    Returns:
        Exit status: 0: done; 2: a run failed, or the request makes no sense; 130: Ctrl+C: the runs that are complete
        are kept.
    """
    if len(request.blocks) > _MOST_TESTED:
        print(f"sample-profiler compare: at most {_MOST_TESTED} blocks can be tested at once", file=sys.stderr)
        return _BAD_USAGE
    if not request.command:
        print("sample-profiler compare: give the training command after --", file=sys.stderr)
        return _BAD_USAGE
    pairs: list[tuple[RunCosts, RunCosts]] = []
    try:
        for number in range(request.num_pairs):
            # A B, then B A: what drifts in the course of the comparison favours neither.
            order = (0, 1) if number % 2 == 0 else (1, 0)
            costs = {which: _run(request, which, number) for which in order}
            pairs.append((costs[0], costs[1]))
            print(f"pair {number + 1}: A {costs[0].fps:,.0f}, B {costs[1].fps:,.0f} frames/s", flush=True)
        conclusion = _conclude(request, pairs)
    except (SessionError, OSError) as error:
        print(f"sample-profiler compare: {error}", file=sys.stderr)
        return _BAD_USAGE
    except KeyboardInterrupt:
        print(f"The runs that are complete are kept in {request.output}", file=sys.stderr)
        return 130
    print(f"\n{conclusion}")
    return 0


def diff(run_a: Path, run_b: Path, fail_over: float | None, *, allow_different_machines: bool) -> int:
    """Print in what two runs differ.

    Args:
        run_a: folder of the one run.
        run_b: of the other one.
        fail_over: share by which B may be slower; None: any.
        allow_different_machines: whether runs of different machines are compared.

    Returns:
        Exit status: 0; 1: B is slower by more than `fail_over`; 2: the runs cannot be compared.
    """
    try:
        sessions = [Session.load(steady_path(folder)) for folder in (run_a, run_b)]
    except SessionError as error:
        print(f"sample-profiler diff: {error}", file=sys.stderr)
        return _BAD_USAGE
    differences = different_machines(*sessions)
    if differences and not allow_different_machines:
        problem = f"the runs are of different machines ({'; '.join(differences)})"
        print(
            f"sample-profiler diff: {problem}: --allow-different-machines compares them all the same", file=sys.stderr
        )
        return _BAD_USAGE
    costs = [run_costs(session) for session in sessions]
    for folder, cost in zip((run_a, run_b), costs, strict=True):
        if cost is None:
            print(f"sample-profiler diff: {folder} has trained on nothing in its steady part", file=sys.stderr)
            return _BAD_USAGE
    a, b = costs[0], costs[1]
    assert a is not None and b is not None
    change = b.fps / a.fps - 1
    print(f"A {run_a}: {a.fps:,.0f} frames/s over {a.facts.seconds:.0f} s")
    print(f"B {run_b}: {b.fps:,.0f} frames/s over {b.facts.seconds:.0f} s, {100 * change:+.1f} %")
    print("One run of each: only compare with several pairs tells a difference from noise\n")
    print(format_counts(a, b))
    print()
    print(format_block_changes(_changes([(a, b)], _largest([(a, b)])), tested=()))
    if fail_over is not None and change < -fail_over:
        print(f"sample-profiler diff: B is slower by more than {100 * fail_over:g} %", file=sys.stderr)
        return _SLOWER
    return 0


def _run(request: CompareRequest, which: int, number: int) -> RunCosts:
    """Make one run, unless it is there, and return its costs.

    Raises:
        SessionError: it failed, or has nothing to compare.
        OSError: the command cannot be started.
    """
    name = f"{'ab'[which]}_{number:02d}"
    folder = request.output / name
    flags = shlex.split(request.flags[which])
    command = [*request.command, *flags, f"--train_dir={request.output}", f"--experiment={name}"]
    mark = folder / "compared.json"
    if not mark.exists() or json.loads(mark.read_text()) != command:
        done = subprocess.run(
            [*command, "--restart_behavior=overwrite"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            last = "\n".join(done.stdout.splitlines()[-15:])
            raise SessionError(f"{shlex.join(command)} ended with status {done.returncode}:\n{last}")
        mark.write_text(json.dumps(command))
    costs = run_costs(Session.load(steady_path(folder)))
    if costs is None:
        raise SessionError(f"the run in {folder} was over before it was steady: let it train for longer")
    return costs


def _conclude(request: CompareRequest, pairs: Sequence[tuple[RunCosts, RunCosts]]) -> str:
    fps = [(a.fps, b.fps) for a, b in pairs]
    tested = [_resolve(block, pairs) for block in request.blocks]
    alone = [compare_pairs(fps, request.margin), *_changes(pairs, tested).values()]
    corrected = holm([comparison.p_value for comparison in alone])
    throughput = compare_pairs(fps, request.margin, corrected[0])
    changes = {
        path: compare_pairs(_seconds(pairs, path), request.margin, p_value)
        for path, p_value in zip(tested, corrected[1:], strict=True)
    }
    changes |= {path: each for path, each in _changes(pairs, _largest(pairs)).items() if path not in changes}
    document = {
        "command": list(request.command),
        "flags": list(request.flags),
        "fps": fps,
        "throughput": asdict(throughput),
        "blocks": {path: asdict(comparison) for path, comparison in changes.items()},
        "tested": tested,
    }
    (request.output / "comparison.json").write_text(json.dumps(document, indent=1) + "\n")
    parts = [
        f"A: {request.flags[0] or 'the command as it is'}\nB: {request.flags[1] or 'the command as it is'}",
        describe_throughput(throughput, request.margin),
        format_counts(*pairs[-1]),
        format_block_changes(changes, tested),
    ]
    return "\n\n".join(parts)


def _resolve(block: str, pairs: Sequence[tuple[RunCosts, RunCosts]]) -> str:
    """Return the full path of a block that is given by its end."""
    common = [path for path in pairs[0][0].blocks if all(path in side.blocks for pair in pairs for side in pair)]
    found = [path for path in common if path == block or path.endswith(f"/{block}")]
    if len(found) != 1:
        there = ", ".join(found or sorted(common)[:20])
        raise SessionError(f"{len(found) or 'no'} blocks are called {block}; there are {there}")
    return found[0]


def _largest(pairs: Sequence[tuple[RunCosts, RunCosts]]) -> list[str]:
    """Return the blocks that take most time, waits left out, of those that all runs have."""
    first = pairs[0][0].blocks
    common = [
        path
        for path in first
        if not path.rpartition("/")[2].startswith("wait_")
        and all(path in side.blocks for pair in pairs for side in pair)
    ]
    return sorted(common, key=lambda path: -first[path].seconds)[:_NUM_SHOWN]


def _seconds(pairs: Sequence[tuple[RunCosts, RunCosts]], path: str) -> list[tuple[float, float]]:
    return [(max(a.blocks[path].seconds, 1e-12), max(b.blocks[path].seconds, 1e-12)) for a, b in pairs]


def _changes(pairs: Sequence[tuple[RunCosts, RunCosts]], paths: Sequence[str]) -> dict[str, PairedComparison]:
    return {path: compare_pairs(_seconds(pairs, path)) for path in paths}
