"""Which part of a run its facts are about."""

from __future__ import annotations

import pytest

from sample_profiler.analysis.steady import facts_of_run
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.tree import TreeNode
from tests.analysis.made_runs import make_record

S = 1_000_000_000


def make_node(key, seconds, children=()):
    node = TreeNode(key)
    node.statistics.add([round(seconds * S)])
    node.children = {child.key: child for child in children}
    return node


def make_process(name, began_s, wall_s, process_started_s=None, **blocks_s):
    root = make_node("", wall_s, [make_node(key, seconds) for key, seconds in blocks_s.items()])
    started_s = began_s if process_started_s is None else process_started_s
    read_ns = round((began_s + wall_s) * S)
    return make_record({name: root}, name=name, process_started_ns=round(started_s * S), read_ns=read_ns)


def make_session(**run):
    records = [
        make_process("Runner", 100.0, 8.0, start_up=0.5, main_loop=7.0),
        make_process("Learner_0", 100.5, 7.0, start_up=3.0, load_checkpoint=0.5, wait_batcher=3.0),
        make_process("RolloutWorker_w0", 100.5, 7.0, start_up=1.0, make_envs=2.0, env_reset=1.5, wait_inference=2.0),
    ]
    return Session(0.0, processes=records, run=run)


def test_of_a_run_that_has_a_steady_part_that_counts():
    steady = make_session(start_s=3.0)
    del steady.processes[1]
    facts = facts_of_run(make_session(), steady)
    assert facts.is_steady
    assert facts.start_s == 3.0
    assert not facts.learners


def test_of_a_run_that_was_over_before_it_was_steady_all_counts_and_its_start_ends_with_the_last_component():
    facts = facts_of_run(make_session(), Session(0.0))
    assert not facts.is_steady
    assert [load.name for load in facts.components] == ["Runner", "Learner_0", "RolloutWorker_w0"]
    assert facts.seconds == pytest.approx(8.0)
    assert facts.start_s == pytest.approx(5.0), "0.5 s until the worker's process began, then 1.0 + 2.0 + 1.5 s"


def test_the_start_counts_from_the_beginning_of_the_run_not_of_the_process_that_it_was_asked_for_in():
    """As in a notebook, where a run is only the latest of what its process has done."""
    session = make_session()
    session.processes[0] = make_process("Runner", 10_000.0, 8.0, 5.0, start_up=0.5, main_loop=7.0)
    session.processes[1:] = [make_process("RolloutWorker_w0", 10_000.5, 7.0, start_up=1.0, make_envs=0.5)]
    assert facts_of_run(session, Session(0.0)).start_s == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("name", "block"), [("RolloutWorker_w0", "make_inference"), ("Evaluator_0", "make_env"), ("Learner_0", "start_up")]
)
def test_whatever_a_component_makes_before_it_takes_part_is_its_start(name, block):
    runner = make_process("Runner", 100.0, 8.0, start_up=0.5, main_loop=7.0)
    other = make_process(name, 100.5, 7.0, **{block: 4.0, "main_loop": 3.0})
    facts = facts_of_run(Session(0.0, processes=[runner, other]), Session(0.0))
    assert facts.start_s == pytest.approx(4.5)


def test_where_it_is_not_known_what_was_steady_all_counts():
    facts = facts_of_run(make_session(), None)
    assert facts.is_steady
    assert (facts.start_s, len(facts.components)) == (0.0, 3)


def test_without_records_there_is_nothing_to_tell():
    facts = facts_of_run(Session(0.0), Session(0.0))
    assert (facts.seconds, facts.start_s, facts.components) == (0.0, 0.0, ())


def make_stepping(name, first_s, later_s):
    record = make_process(name, 100.0, 60.0, env_reset=first_s + 1.0, env_step=later_s)
    record.trees[name].children["env_reset"].children["env_step"] = make_node("env_step", first_s)
    record.trees[name].children["env_step"].children["env_reset"] = make_node("env_reset", later_s / 3)
    return record


def test_steps_before_the_steady_part_are_those_at_random_and_those_of_its_rollouts():
    session = Session(0.0, processes=[make_stepping("RolloutWorker_w0", 4.0, 30.0), make_stepping("W1", 5.0, 20.0)])
    steady = Session(0.0, processes=[make_stepping("RolloutWorker_w0", 0.0, 24.0), make_stepping("W1", 0.0, 18.0)])
    start = facts_of_run(session, steady).start
    assert (start.first_s, start.later_s, start.num_first) == (4.0, 6.0, 1), "7 s of the other one"
    assert start.resets_s == pytest.approx(1.0 + (30.0 - 24.0) / 3)
    assert facts_of_run(session, Session(0.0)).start.seconds == 34.0, "all of a run that was never steady"
