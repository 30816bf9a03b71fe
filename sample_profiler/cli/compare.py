"""Owns `sample-profiler compare`: is this setting faster than that one, or is it noise?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from sample_profiler.analysis.comparison import compare_pairs, holm
from sample_profiler.analysis.cost_changes import (
    LEAST_PAIRS_OF_COUNTS,
    cost_changes,
    count_changes,
    largest_blocks,
    seconds_of,
)
from sample_profiler.analysis.costs import RunCosts
from sample_profiler.cli.common.arguments import Commands, add_allow_different_machines, as_count, as_names, as_share
from sample_profiler.cli.compared_runs import ComparedRuns, CompareRequest
from sample_profiler.errors import SessionError, UsageError
from sample_profiler.files import written_whole
from sample_profiler.profiling.tree.render import printable, printable_text
from sample_profiler.reports.comparison import describe_throughput, format_block_changes, format_counts

__all__ = ["add_parser", "compare", "run"]

_MOST_TESTED = 5

_EXAMPLES = """\
example:
  sample-profiler compare --runs 8 --a "" --b "--precision=bf16" --blocks backward,env_step -- \\
      python -m sf_examples.vizdoom.train_vizdoom --env=doom_benchmark --train_for_seconds=60

Of each run its steady part counts, without start and end. Nothing else should run on the machine meanwhile.
"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "compare",
        help="run two settings in turn, and say whether one is faster",
        description="Run two settings in turn, in fresh processes, and say whether one is faster or it is noise.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prepare=_join_flags,
    )
    parser.add_argument("--runs", type=as_count, default=8, metavar="N", help="runs of each setting; default: 8")
    parser.add_argument("--a", default="", metavar="FLAGS", help="flags of A, in quotes")
    parser.add_argument("--b", default="", metavar="FLAGS", help="flags of B, in quotes")
    parser.add_argument(
        "--blocks",
        type=as_names,
        default=[],
        metavar="NAME,NAME",
        help="at most five blocks to test, too: env_step,backward",
    )
    parser.add_argument(
        "--margin", type=_as_percent, default=0.02, metavar="PERCENT", help="what does not matter; default: 2%%"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("comparison"),
        metavar="DIR",
        help="for the runs; complete ones in it are kept; default: comparison",
    )
    add_allow_different_machines(parser)
    parser.add_argument("training", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the training command")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    command = arguments.training[1:] if arguments.training[:1] == ["--"] else arguments.training
    compare(
        CompareRequest(
            command=command,
            flags=(arguments.a, arguments.b),
            num_pairs=arguments.runs,
            blocks=arguments.blocks,
            margin=arguments.margin,
            output=arguments.output,
            allow_different_machines=arguments.allow_different_machines,
        )
    )
    return 0


def _join_flags(words: Sequence[str]) -> list[str]:
    """Write `--a VALUE` as `--a=VALUE`: argparse takes a value that begins with dashes for a flag."""
    end = words.index("--") if "--" in words else len(words)
    joined: list[str] = []
    for word in words[:end]:
        if joined and joined[-1] in ("--a", "--b"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return [*joined, *words[end:]]


def _as_percent(text: str) -> float:
    """Return a percentage above 0 and below 100 as a share."""
    return as_share(text, lambda percent: 0 < percent < 100)


def compare(request: CompareRequest) -> None:
    """Run both settings in turn, in fresh processes, and print what can be said.

    Raises:
        SessionError: a run failed, or there is nothing to compare.
        UsageError: the request makes no sense, or a file cannot be written.
        KeyboardInterrupt: Ctrl+C; it says where the runs are that are complete.
    """
    pairs: list[tuple[RunCosts, RunCosts]] = []
    tested: list[str] = []
    try:
        _check(request)
        runs = ComparedRuns(request)
        for number in range(request.num_pairs):
            # A B, then B A: what drifts in the course of the comparison favours neither.
            order = (0, 1) if number % 2 == 0 else (1, 0)
            costs = {which: runs.make(which, number) for which in order}
            pairs.append((costs[0], costs[1]))
            print(f"pair {number + 1}: A {costs[0].fps:,.0f}, B {costs[1].fps:,.0f} frames/s", flush=True)
            # A block that is not there shall not be told after hours.
            tested = list(dict.fromkeys(_resolve(block, pairs) for block in request.blocks))
        conclusion = _conclude(request, pairs, tested)
    except OSError as error:
        raise UsageError(str(error)) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(printable(f"The runs that are complete are kept in {request.output}")) from None
    print(f"\n{printable_text(conclusion)}")


def _check(request: CompareRequest) -> None:
    """See whether a request makes sense before anything runs.

    Raises:
        UsageError: it does not.
    """
    if len(request.blocks) > _MOST_TESTED:
        raise UsageError(f"at most {_MOST_TESTED} blocks can be tested at once")
    if not request.command:
        raise UsageError("give the training command after --")


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
