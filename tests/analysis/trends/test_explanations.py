"""Who is named where the throughput changes, of figures before and after."""

from __future__ import annotations

from sample_profiler.analysis.trends.explanations import explain
from sample_profiler.analysis.trends.figures import PartFigures


def part(fps, *, others=0.0, busy=2.0, cpu=0.5, waiting=0.5, learner=1.0, passes=1.0, computing=None):
    """A Learner that works for so much of the time, all of it in one block."""
    return PartFigures(
        fps, others, busy, cpu, waiting, 0.0,
        {"Learner_0": learner}, {"Learner_0": {"train": learner, "": 0.0}}, {"Learner_0": {"train": passes}},
        {} if computing is None else {"Learner_0": computing},
    )  # fmt: skip


def test_a_run_that_gets_less_of_the_processors_is_displaced_although_others_had_them_all_before():
    before, after = part(4700, others=1.5, cpu=0.5, waiting=2.0), part(2300, others=1.7, cpu=0.25, waiting=2.5)
    assert explain(before, after, 2).cause == "another program"
    assert explain(after, before, 2).headline == "other programs on this machine leave the processors"


def test_a_run_that_has_more_to_do_for_a_frame_is_not():
    before, after = part(4700, others=1.5, cpu=0.5, waiting=2.0), part(1200, others=1.6, cpu=0.4, waiting=2.5)
    found = explain(before, after, 2)
    assert (found.cause, found.components, found.block) == ("learner", ("Learner_0",), "train")


def test_where_processors_are_left_nobody_takes_them_from_anybody():
    assert explain(part(4700, busy=0.5), part(2300, others=0.5, busy=1.0), 2).cause == "learner"


def test_a_change_that_nobody_explains_is_unknown():
    idle = {"learner": 0.1, "busy": 0.5}
    assert explain(part(4700, **idle), part(2300, cpu=0.25, waiting=0.25, learner=0.05, busy=0.5), 2).cause == "unknown"


def test_a_part_in_which_nothing_was_trained_on_explains_nothing():
    stalled, usual = (part(fps) for fps in (0.0, 1000.0))
    for before, after in ((usual, stalled), (stalled, usual)):
        assert explain(before, after, num_cores=2).cause


def test_what_a_component_computes_is_told_from_what_it_sleeps():
    idle = {"busy": 0.5}
    found = explain(part(2000, computing=0.9, **idle), part(1000, computing=0.45, **idle), 2)
    assert found.cause == "learner"
    assert "its process computes 0.45 instead of 0.45 ms for that; the rest it sleeps" in found.evidence[1]
    assert not any("computes" in each for each in explain(part(2000, **idle), part(1000, **idle), 2).evidence)
