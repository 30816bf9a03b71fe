"""Ranks side by side: what each Learner did, and for whom it waited."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sample_profiler.reports.sections.ranks import rank_figures, rank_rows
from tests.analysis.made_runs import load


def test_a_learner_waits_for_data_or_for_ranks_adds_up_or_trains() -> None:
    blocks = {"train": 0.5, "train/update/all_reduce": 0.2, "train/epoch_init/all_reduce": 0.05}
    waits = {"batcher": 0.1, "ranks": 0.3}
    learner = load("Learner_0", 0.6, waits, blocks, dict.fromkeys(blocks, 10))
    (figures,) = rank_figures(2, SimpleNamespace(learners=[learner]))
    assert (figures.rank, figures.learner) == (2, "Learner_0")
    shares = (figures.waits_for_data, figures.waits_for_ranks, figures.adds_up, figures.trains)
    assert shares == pytest.approx((0.1, 0.3, 0.25, 0.35))
    assert rank_rows([figures]) == [["2", "Learner_0", "10%", "30%", "25%", "35%"]]
