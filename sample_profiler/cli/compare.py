"""Owns `sample-profiler compare`: is this setting faster than that one, or is it noise?"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from sample_profiler.analysis.comparison import compare_pairs, holm
from sample_profiler.analysis.cost_changes import (
    LEAST_PAIRS_OF_COUNTS,
    cost_changes,
    count_changes,
    largest_blocks,
    seconds_of,
)
from sample_profiler.analysis.costs import RunCosts, different_machines, run_costs
from sample_profiler.errors import SessionError
from sample_profiler.files import read_small_text, written_whole
from sample_profiler.profiling.render import printable, printable_text
from sample_profiler.profiling.session import Session
from sample_profiler.reports.comparison import describe_throughput, format_block_changes, format_counts
from sample_profiler.run_folder import RunFolder

__all__ = ["CompareRequest", "compare"]

_BAD_USAGE = 2
_MOST_TESTED = 5


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
        allow_different_machines: whether kept runs of other machines are compared with new ones.
    """

    command: Sequence[str]
    flags: tuple[str, str]
    num_pairs: int
    blocks: Sequence[str]
    margin: float
    output: Path
    allow_different_machines: bool


def compare(request: CompareRequest) -> int:
    """Run both settings in turn, in fresh processes, and print what can be said.

    Returns:
        Exit status: 0: done; 2: a run failed, or the request makes no sense; 130: Ctrl+C: the runs that are complete
        are kept.
    """
    pairs: list[tuple[RunCosts, RunCosts]] = []
    tested: list[str] = []
    try:
        _check(request)
        runs = _Runs(request)
        for number in range(request.num_pairs):
            # A B, then B A: what drifts in the course of the comparison favours neither.
            order = (0, 1) if number % 2 == 0 else (1, 0)
            costs = {which: runs.make(which, number) for which in order}
            pairs.append((costs[0], costs[1]))
            print(f"pair {number + 1}: A {costs[0].fps:,.0f}, B {costs[1].fps:,.0f} frames/s", flush=True)
            # A block that is not there shall not be told after hours.
            tested = list(dict.fromkeys(_resolve(block, pairs) for block in request.blocks))
        conclusion = _conclude(request, pairs, tested)
    except (SessionError, OSError) as error:
        print(printable_text(f"sample-profiler compare: {error}"), file=sys.stderr)
        return _BAD_USAGE
    except KeyboardInterrupt:
        print(printable(f"The runs that are complete are kept in {request.output}"), file=sys.stderr)
        return 130
    print(f"\n{printable_text(conclusion)}")
    return 0


def _check(request: CompareRequest) -> None:
    """See whether a request makes sense before anything runs.

    Raises:
        SessionError: it does not.
    """
    if len(request.blocks) > _MOST_TESTED:
        raise SessionError(f"at most {_MOST_TESTED} blocks can be tested at once")
    if not request.command:
        raise SessionError("give the training command after --")


def _split(name: str, flags: str) -> list[str]:
    try:
        return shlex.split(flags)
    except ValueError as error:
        raise SessionError(f"{name} cannot be split into flags: {error} in {flags!r}: close what is quoted") from error


class _Runs:
    """Makes the runs of a comparison, all of one machine.

    Args:
        request: what is compared.

    Raises:
        SessionError: its flags are none.
    """

    def __init__(self, request: CompareRequest) -> None:
        self._request = request
        self._flags = [_split(name, flags) for name, flags in zip(("--a", "--b"), request.flags, strict=True)]
        self._first: tuple[Path, Session] | None = None

    def make(self, which: int, number: int) -> RunCosts:
        """Make one run, unless it is there, and return its costs.

        Raises:
            SessionError: it failed, is of another machine than the first, or has nothing to compare.
            OSError: the command cannot be started.
        """
        request = self._request
        name = f"{'ab'[which]}_{number:02d}"
        folder = request.output / name
        command = [*request.command, *self._flags[which], f"--train_dir={request.output}", f"--experiment={name}"]
        mark = RunFolder(folder).compared
        if _is_made_by(command, mark):
            made = datetime.fromtimestamp(mark.stat().st_mtime).isoformat(" ", "minutes")
            print(printable(f"{folder}: kept from {made}"), flush=True)
        else:
            _train(command, folder)
            with written_whole(mark) as partial:
                partial.write_text(json.dumps(command))
        session = Session.load(RunFolder(folder).steady, with_events=False)
        self._check_machine(folder, session)
        costs = run_costs(session)
        if costs is None:
            raise SessionError(f"the run in {folder} was over before it was steady: let it train for longer")
        return costs

    def _check_machine(self, folder: Path, session: Session) -> None:
        self._first = self._first or (folder, session)
        differences = different_machines(self._first[1], session)
        if differences and not self._request.allow_different_machines:
            raise SessionError(
                f"the runs in {self._first[0]} and {folder} are of different machines ({'; '.join(differences)}): give "
                "another --output, or --allow-different-machines compares them all the same"
            )


def _is_made_by(command: Sequence[str], mark: Path) -> bool:
    try:
        made_by: object = json.loads(read_small_text(mark))
    except (OSError, ValueError, RecursionError):  # not there, cut off, or not of ours
        return False
    return made_by == command


def _train(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run([*command, "--restart_behavior=overwrite"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    last = "\n".join(done.stdout.decode(errors="backslashreplace").splitlines()[-15:])
    if done.returncode:
        raise SessionError(f"{shlex.join(command)} ended with status {done.returncode}:\n{last}")
    if not RunFolder(folder).steady.exists():
        raise SessionError(
            f"{shlex.join(command)} ended well and left no run in {folder}: give a command that trains, and takes "
            f"--train_dir and --experiment:\n{last}"
        )


def _conclude(request: CompareRequest, pairs: Sequence[tuple[RunCosts, RunCosts]], tested: Sequence[str]) -> str:
    """Write what is to be said of the runs to comparison.json, and return it as a text.

    Args:
        request: what is compared.
        pairs: its runs.
        tested: full paths of the blocks that are tested.

    Raises:
        OSError: the file cannot be written.
    """
    figures = [[(a.fps, b.fps) for a, b in pairs], *(seconds_of(pairs, path) for path in tested)]
    corrected = holm([compare_pairs(figure).p_value for figure in figures])
    throughput, *of_blocks = (
        compare_pairs(figure, request.margin, p_value, len(figures))
        for figure, p_value in zip(figures, corrected, strict=True)
    )
    changes = dict(zip(tested, of_blocks, strict=True))
    changes |= cost_changes(pairs, [path for path in largest_blocks(pairs) if path not in changes])
    document = {
        "command": list(request.command),
        "flags": list(request.flags),
        "fps": figures[0],
        "throughput": asdict(throughput),
        "blocks": {path: asdict(comparison) for path, comparison in changes.items()},
        "tested": list(tested),
    }
    with written_whole(request.output / "comparison.json") as partial:
        partial.write_text(json.dumps(document, indent=1) + "\n")
    parts = [
        f"A: {request.flags[0] or 'the command as it is'}\nB: {request.flags[1] or 'the command as it is'}",
        _describe_counts(pairs),
        describe_throughput(throughput, request.margin),
        format_block_changes(changes, tested),
    ]
    return "\n\n".join(parts)


def _describe_counts(pairs: Sequence[tuple[RunCosts, RunCosts]]) -> str:
    if len(pairs) < LEAST_PAIRS_OF_COUNTS:
        return (
            f"Passes through blocks are compared from {LEAST_PAIRS_OF_COUNTS} pairs on: in fewer some differ by chance"
        )
    return format_counts(count_changes(pairs))


def _resolve(block: str, pairs: Sequence[tuple[RunCosts, RunCosts]]) -> str:
    """Return the full path of a block that is given by its end."""
    common = [path for path in pairs[0][0].blocks if all(path in side.blocks for pair in pairs for side in pair)]
    found = [path for path in common if path == block or path.endswith(f"/{block}")]
    if len(found) != 1:
        there = ", ".join(found or sorted(common)[:20])
        raise SessionError(f"{len(found) or 'no'} blocks are called {block}; there are {there}")
    return found[0]
