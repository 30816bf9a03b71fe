"""Choosing components by the names that people use."""

from __future__ import annotations

import pytest

from sample_profiler.errors import CaptureError
from sample_profiler.run.commands.selection import KINDS, choose_components, name_some

RUN = [
    *("Runner", "Learner_0", "Learner_1", "Batcher_0", "InferenceWorker_p0-w0", "InferenceWorker_p1-w0"),
    *("RolloutWorker_w0", "RolloutWorker_w1", "RolloutWorker_w10"),
]


@pytest.mark.parametrize(
    ("names", "text"),
    [("a", "a"), ("abcde", "a, b, c, d, e"), ("abcdef", "a, b, c, d and 2 others"), ("", "")],
)
def test_of_many_names_a_few_are_told(names, text):
    assert name_some(names) == text


def test_without_a_wish_all_are_chosen_also_those_of_no_kind():
    assert choose_components([*RUN, "main"]) == [*RUN, "main"]


@pytest.mark.parametrize(
    ("wanted", "workers", "chosen"),
    [
        (["Mine"], None, ["Mine"]),
        (["Mine", "learner"], None, ["Learner_0", "Learner_1", "Mine"]),
        (["learner_rate", "Batcher_0"], None, ["Batcher_0", "learner_rate"]),
        (["Mine", "rollout"], [1], ["RolloutWorker_w1", "Mine"]),
        (["RolloutWorker_w1", "RolloutWorker_w10"], [1], ["RolloutWorker_w1"]),
    ],
)
def test_components_are_also_chosen_by_name_among_them_those_of_the_user(wanted, workers, chosen):
    assert choose_components([*RUN, "Mine", "Mine_2", "learner_rate"], wanted, workers) == chosen


@pytest.mark.parametrize(
    ("kinds", "chosen"),
    [
        (["rollout"], ["RolloutWorker_w0", "RolloutWorker_w1", "RolloutWorker_w10"]),
        (["learner", "runner"], ["Runner", "Learner_0", "Learner_1"]),
        (["batcher"], ["Batcher_0"]),
        (["inference"], ["InferenceWorker_p0-w0", "InferenceWorker_p1-w0"]),
        (list(KINDS), RUN),
    ],
)
def test_kinds_choose_all_of_their_components(kinds, chosen):
    assert choose_components(RUN, kinds) == chosen


def test_workers_narrow_the_rollout_workers_alone():
    assert choose_components(RUN, ["rollout", "batcher"], [1]) == ["Batcher_0", "RolloutWorker_w1"]
    assert choose_components(RUN, None, [0, 10]) == [*RUN[:6], "RolloutWorker_w0", "RolloutWorker_w10"]


@pytest.mark.parametrize(
    ("names", "kinds", "workers", "message"),
    [
        (
            RUN,
            ["rolout"],
            None,
            "allowed are rollout, inference, learner, batcher, evaluator, runner and names of components; the run has",
        ),
        ([], ["Mine"], None, "evaluator, runner and names of components$"),
        (RUN, None, [2, 0], "there is no rollout worker 2; allowed are 0, 1, 10"),
        (["main"], None, [0], "there is no rollout worker 0; the run has none"),
        (RUN, ["learner"], [0], "workers are chosen but components without rollout: add rollout"),
        (["main"], ["learner"], None, "none of these components is there; the run has main"),
        ([], None, None, "none of these components is there; the run has none at all"),
    ],
)
def test_what_cannot_be_chosen_is_told_with_what_can(names, kinds, workers, message):
    with pytest.raises(CaptureError, match=message):
        choose_components(names, kinds, workers)
