"""Runs whose observers take much of the Runner's time."""

from __future__ import annotations

import pytest

from tests.analysis.made_runs import inference, judge_run, learner, load, worker

SLOW = {"observers": 0.5, "observers/Slow": 0.45, "observers/Slow/on_status": 0.45, "observers/Quick": 0.01}


def judge_with(blocks, **options):
    return judge_run(worker(0), worker(1), inference(), learner(0.9), load("Runner", 0.5, blocks=blocks), **options)


def texts(verdict):
    return "\n".join([verdict.headline, *verdict.evidence, *(f"{each.change} {each.why}" for each in verdict.advice)])


def test_in_one_process_an_observer_that_has_many_turns_is_the_limit():
    verdict = judge_with(SLOW, is_serial=True)
    assert (verdict.cause, verdict.component) == ("observers", "Runner")
    assert verdict.headline.endswith("all components wait for observer Slow")
    assert verdict.evidence == ("observer Slow takes 45 % of the time",)
    assert [advice.change for advice in verdict.advice] == [
        "a process or thread of its own for what observer Slow does"
    ]
    assert judge_with({"observers": 0.1, "observers/Slow": 0.1}, is_serial=True).cause == "serial"


def test_in_processes_of_their_own_components_do_not_wait_for_it_and_the_limit_is_another():
    before, verdict = judge_with({}), judge_with(SLOW)
    assert (verdict.cause, verdict.headline) == (before.cause, before.headline)
    assert verdict.evidence == (
        *before.evidence,
        "observer Slow takes 45 % of the Runner's time; components do not wait for it",
    )
    (advice,) = verdict.advice[len(before.advice) :]
    assert advice.change == "a process or thread of its own for what observer Slow does"
    assert advice.fps is None


def test_a_message_handler_and_several_observers_are_named_by_what_they_take_together():
    blocks = {f"observers/{name}": 0.11 for name in "ABCD"} | {"message_handlers/mine.<locals>.take": 0.15}
    told = texts(judge_with(blocks))
    assert "message handler mine.<locals>.take takes 15 %" in told
    assert "observer A takes 11 %" in told


def test_observers_that_take_little_are_not_mentioned():
    assert "observer" not in texts(judge_with({"timers": 0.9, "observers": 0.2, "observers/Quick": 0.2}))


def test_what_an_observer_has_others_told_is_theirs():
    """The one that writes summaries asks all others for figures of their own."""
    path = "observers/Summaries/on_summaries/observers/Slow"
    blocks = {"observers/Summaries": 0.62, path: 0.6, f"{path}/extra_summaries": 0.6, "observers/Slow": 0.1}
    told = texts(judge_with(blocks))
    assert "observer Slow takes 70 %" in told
    assert "Summaries takes" not in told


@pytest.mark.parametrize("path", ["env_step/observers", "observers"])
def test_other_blocks_of_such_names_are_no_observers(path):
    assert judge_with({path: 0.9}).evidence == judge_with({}).evidence
