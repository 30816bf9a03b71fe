"""How the costs of blocks change between the runs of pairs."""

from __future__ import annotations

from collections.abc import Sequence

from sample_profiler.analysis.comparison import PairedComparison, compare_pairs
from sample_profiler.analysis.costs import RunCosts

__all__ = ["MOST_SHOWN", "SHORTEST_S", "cost_changes", "is_wait", "largest_blocks", "seconds_of"]

MOST_SHOWN = 10
SHORTEST_S = 1e-12
"""Stands for blocks that took no time that the clock could tell: changes are ratios."""


def is_wait(path: str) -> bool:
    """Tell whether a block is a wait."""
    return path.rpartition("/")[2].startswith("wait_")


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
