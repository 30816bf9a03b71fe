"""Owns `sample-profiler compare`: is this setting faster than that one, or is it noise?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sample_profiler.analysis.comparing.comparison import compare_pairs, holm
from sample_profiler.analysis.comparing.cost_changes import (
    LEAST_PAIRS_OF_COUNTS,
    cost_changes,
    count_changes,
    largest_blocks,
    seconds_of,
)
from sample_profiler.analysis.comparing.costs import RunCosts, run_costs
from sample_profiler.cli.common.arguments import Commands, add_allow_different_machines, as_count, as_names, as_share
from sample_profiler.cli.common.problems import files_told_of
from sample_profiler.cli.common.progress import progress_shown
from sample_profiler.cli.comparing.runs import ComparedRun, ComparedRuns, CompareRequest
from sample_profiler.cli.comparing.times import ComparedTimes
from sample_profiler.config import parse_conditions
from sample_profiler.errors import SessionError, UsageError
from sample_profiler.files import try_to_write, written_whole
from sample_profiler.profiling.tree.render import printable, printable_text
from sample_profiler.reports.comparison import describe_throughput, format_block_changes, format_counts

__all__ = ["add_parser", "compare", "run"]

_BETWEEN = "\n\n"
_MOST_TESTED = 5

_EXAMPLES = """\
example:
  sample-profiler compare --runs 8 --a "" --b "--precision=bf16" --blocks backward,env_step -- \\
      python -m sf_examples.vizdoom.train_vizdoom --env=doom_benchmark --train_for_seconds=60

  sample-profiler compare --runs 8 --metric time_to=475 --a "" --b "--num_epochs=8" -- \\
      python -m sf_examples.gym.train_gym --env=CartPole-v1 --train_for_seconds=60

Of each run its steady part counts, without start and end; with time_to, seconds since the start of its process, and one
that never gets there counts as one that would have taken longer than it did. Give the command no --seed then. Nothing
else should run on the machine meanwhile.
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
        "--metric",
        type=_as_goal,
        default="throughput",
        metavar="NAME",
        help="throughput, the default, or time_to=CONDITION: seconds until a run is so good, as with --stop_at; 475 "
        "stands for reward>=475",
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
            goal=arguments.metric,
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


def _as_goal(text: str) -> str:
    """Return the condition of time_to=CONDITION; nothing for throughput."""
    name, _, condition = text.partition("=")
    if text == "throughput":
        return ""
    try:
        if name != "time_to":
            raise ValueError("is none")
        (goal,) = parse_conditions(condition)
    except ValueError as error:  # also if there are none, or several
        reason = f": the condition {error}" if str(error).startswith("has") else ""
        cure = "give throughput, or time_to=CONDITION with one condition, such as time_to=475 or 'time_to=len>=300'"
        raise argparse.ArgumentTypeError(f"{text!r}{reason}: {cure}") from None
    return str(goal)


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
    _check(request)
    runs = ComparedRuns(request)
    metric = ComparedTimes(request) if request.goal else _ComparedThroughput(request)
    output = request.output / "comparison.json"
    try:
        with files_told_of():
            try_to_write(output)
        with progress_shown("", 2 * request.num_pairs) as course:
            for number in range(request.num_pairs):
                # A B, then B A: what drifts in the course of the comparison favours neither.
                made: dict[int, ComparedRun] = {}
                for which in (0, 1) if number % 2 == 0 else (1, 0):
                    course.reach(2 * number + len(made), f"pair {number + 1} of {request.num_pairs}: {'AB'[which]}")
                    with files_told_of():
                        made[which] = runs.make(which, number)
                print(f"pair {number + 1}: {metric.add(made[0], made[1])}", flush=True)
        document, conclusion = metric.conclude()
        about = {"command": list(request.command), "flags": list(request.flags)}
        with files_told_of(), written_whole(output) as partial:
            partial.write_text(json.dumps(about | document, indent=1) + "\n")
    except KeyboardInterrupt:
        raise KeyboardInterrupt(printable(f"The runs that are complete are kept in {request.output}")) from None
    settings = f"A: {request.flags[0] or 'the command as it is'}\nB: {request.flags[1] or 'the command as it is'}"
    print(f"\n{printable_text(f'{settings}{_BETWEEN}{conclusion}')}")


def _check(request: CompareRequest) -> None:
    """See whether a request makes sense before anything runs.

    Raises:
        UsageError: it does not.
    """
    if len(request.blocks) > _MOST_TESTED:
        raise UsageError(f"at most {_MOST_TESTED} blocks can be tested at once")
    if not request.command:
        raise UsageError("give the training command after --")
    if request.blocks and request.goal:
        raise UsageError("blocks are compared with throughput: leave out --blocks or --metric")


class _ComparedThroughput:
    """Compares the steady parts of runs: frames per second, and what these cost.

    Args:
        request: what is compared.
    """

    def __init__(self, request: CompareRequest) -> None:
        self._request = request
        self._pairs: list[tuple[RunCosts, RunCosts]] = []
        self._tested: list[str] = []

    def add(self, a: ComparedRun, b: ComparedRun) -> str:
        """Take a pair of runs in, and return its figures in words.

        Raises:
            SessionError: there is nothing to compare, or a block that is to be tested is not there.
        """
        pair = _costs_of(a), _costs_of(b)
        self._pairs.append(pair)
        # A block that is not there shall not be told after hours.
        self._tested = list(dict.fromkeys(_resolve(block, self._pairs) for block in self._request.blocks))
        return f"A {pair[0].fps:,.0f}, B {pair[1].fps:,.0f} frames/s"

    def conclude(self) -> tuple[dict[str, Any], str]:
        """Return what is to be said of all pairs, as plain data and as a text."""
        pairs, tested, margin = self._pairs, self._tested, self._request.margin
        figures = [[(a.fps, b.fps) for a, b in pairs], *(seconds_of(pairs, path) for path in tested)]
        corrected = holm([compare_pairs(figure).p_value for figure in figures])
        throughput, *of_blocks = (
            compare_pairs(figure, margin, p_value, len(figures))
            for figure, p_value in zip(figures, corrected, strict=True)
        )
        changes = dict(zip(tested, of_blocks, strict=True))
        changes |= cost_changes(pairs, [path for path in largest_blocks(pairs) if path not in changes])
        document = {
            "fps": figures[0],
            "throughput": asdict(throughput),
            "blocks": {path: asdict(comparison) for path, comparison in changes.items()},
            "tested": tested,
        }
        blocks = format_block_changes(changes, tested)
        return document, _BETWEEN.join([_describe_counts(pairs), describe_throughput(throughput, margin), blocks])


def _costs_of(run: ComparedRun) -> RunCosts:
    if (costs := run_costs(run.steady)) is None:
        raise SessionError(f"the run in {run.folder} was over before it was steady: let it train for longer")
    return costs


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
