"""How the costs of blocks change between the runs of pairs: how often they are entered, and how long they take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sample_profiler.analysis.comparing.comparison import PairedComparison, compare_pairs
from sample_profiler.analysis.comparing.costs import RunCosts
from sample_profiler.vocabulary import RECEIVE, REPORT_STATISTICS, SAVE_CHECKPOINT, TIMERS, WAIT, WATCH_PROCESSES

__all__ = [
    "LEAST_PAIRS_OF_COUNTS",
    "MOST_SHOWN",
    "SHORTEST_S",
    "CountChange",
    "cost_changes",
    "count_changes",
    "is_wait",
    "largest_blocks",
    "seconds_of",
]

MOST_SHOWN = 10
SHORTEST_S = 1e-12
"""Stands for blocks that took no time that the clock could tell: changes are ratios."""

LEAST_PAIRS_OF_COUNTS = 4
"""A count that varies by itself is by chance higher in all runs of one setting in 2 of 70 comparisons of four pairs, in
2 of 20 of three."""

_SAME_COUNT = 0.005
_BY_THE_CLOCK = frozenset({RECEIVE, REPORT_STATISTICS, SAVE_CHECKPOINT, TIMERS, WATCH_PROCESSES})
"""Blocks that are entered so many times a second, or as messages happen to come: per frame their counts are noise."""


@dataclass(frozen=True)
class CountChange:
    """A block that one setting goes through more often.

    Attributes:
        path: of the block.
        a: passes per 1,000 frames, median over the runs of A; 0: most of them do not have the block.
        b: the same of B.
    """

    path: str
    a: float
    b: float


def is_wait(path: str) -> bool:
    """Tell whether a block is a wait."""
    return path.rpartition("/")[2].startswith(WAIT)


def largest_blocks(pairs: Sequence[tuple[RunCosts, RunCosts]]) -> list[str]:
    """Return the blocks that take most time, waits left out, of those that all runs have."""
    first = pairs[0][0].blocks
    sides = [side for pair in pairs for side in pair]
    common = [path for path in first if not is_wait(path) and all(path in side.blocks for side in sides)]
    return sorted(common, key=lambda path: -first[path].seconds)[:MOST_SHOWN]


def seconds_of(pairs: Sequence[tuple[RunCosts, RunCosts]], path: str) -> list[tuple[float, float]]:
    """Return the seconds in a block per thousand frames, never 0, of each pair."""
    return [(max(a.blocks[path].seconds, SHORTEST_S), max(b.blocks[path].seconds, SHORTEST_S)) for a, b in pairs]


def cost_changes(pairs: Sequence[tuple[RunCosts, RunCosts]], paths: Sequence[str]) -> dict[str, PairedComparison]:
    """Compare the time in blocks per frame, block by block."""
    return {path: compare_pairs(seconds_of(pairs, path)) for path in paths}


def count_changes(pairs: Sequence[tuple[RunCosts, RunCosts]]) -> list[CountChange]:
    """Return the blocks that every run of one setting goes through more often than any run of the other one.

    Most counts carry no noise. Those that do, such as batches of whoever has asked by now, vary between runs of one
    setting, too, so they overlap. Medians that differ by at most 0.5 % are alike. The largest changes come first.
    """
    changes = []
    for path in sorted({path for pair in pairs for side in pair for path in side.blocks}):
        a, b = ([_passes(run, path) for run in runs] for runs in zip(*pairs, strict=True))
        if _BY_THE_CLOCK & set(path.split("/")) or not (min(b) > max(a) or max(b) < min(a)):
            continue
        change = CountChange(path, median(a), median(b))
        # How often there is something to wait for hangs on speed; that there never is does not.
        if _size(change) > _SAME_COUNT and not (is_wait(path) and change.a and change.b):
            changes.append(change)
    return sorted(changes, key=_size, reverse=True)


def _passes(run: RunCosts, path: str) -> float:
    return run.blocks[path].passes if path in run.blocks else 0.0


def _size(change: CountChange) -> float:
    return abs(change.b / change.a - 1) if change.a and change.b else math.inf
