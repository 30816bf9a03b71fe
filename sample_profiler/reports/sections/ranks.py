"""Owns the table of ranks that train together: who waits for whom, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sample_profiler.analysis.facts import RunFacts
from sample_profiler.analysis.rules.ranks import all_reduce_share
from sample_profiler.reports.sections.tables import format_percent
from sample_profiler.vocabulary import FOR_BATCHER, FOR_RANKS

__all__ = ["RANK_TITLES", "RankFigures", "rank_figures", "rank_rows"]

RANK_TITLES = ("rank", "Learner", "waits for its data", "waits for other ranks", "adds up", "trains")
"""Of the columns of `rank_rows`; all but the first two are numbers."""


@dataclass(frozen=True)
class RankFigures:
    """What the Learner of a policy did at one rank.

    Attributes:
        rank: which.
        learner: its name.
        waits_for_data: share of the wall in which it had no dataset.
        waits_for_ranks: share in which it had one, and another rank had none.
        adds_up: share in which it added up over the ranks, or waited until others had something to add.
        trains: share of all other work.
    """

    rank: int
    learner: str
    waits_for_data: float
    waits_for_ranks: float
    adds_up: float
    trains: float


def rank_figures(rank: int, facts: RunFacts) -> list[RankFigures]:
    """Return the figures of all Learners of a rank."""
    figures = []
    for load in facts.learners:
        adds_up, _ = all_reduce_share(load)
        for_data, for_ranks = (load.waits.get(whom, 0.0) for whom in (FOR_BATCHER, FOR_RANKS))
        figures.append(RankFigures(rank, load.name, for_data, for_ranks, adds_up, max(0.0, load.busy - adds_up)))
    return figures


def rank_rows(ranks: Sequence[RankFigures]) -> list[list[str]]:
    """Return a row for each."""
    return [
        [
            str(each.rank),
            each.learner,
            *map(format_percent, (each.waits_for_data, each.waits_for_ranks, each.adds_up, each.trains)),
        ]
        for each in ranks
    ]
