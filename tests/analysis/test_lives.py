"""The life of trajectories, from the points that components mark."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sample_profiler.analysis.lives import STAGES, find_lives, slowest, stage_times
from sample_profiler.component_id import name_in_rank
from sample_profiler.profiling.record.events import Event
from sample_profiler.profiling.record.flows import END, REQUEST, SLOT, START, STEP, WEIGHTS, flow_point, weights_payload
from sample_profiler.profiling.record.format import FLOW_POINT
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.reports.timeline.timeline import Timeline
from tests.analysis.made_runs import make_record

MS = 1_000_000


def point(at_ms, phase, kind, payload):
    return Event(at_ms * MS, FLOW_POINT, 0, 1, flow_point(phase, kind, payload))


def process(name, *events, paths=()):
    return replace(make_record({name: TreeNode()}, name=name), events=list(events), paths=[(name, "block"), *paths])


def make_session(*, with_batch=True):
    """A worker with two groups in turn, rollouts of two steps: slot 7 is of group 1, whose first step is at 10 ms."""
    steps = [(10, 1), (11, 2), (20, 1), (21, 2)]
    worker = [point(at_ms, phase, REQUEST, group) for at_ms, group in steps for phase in (END, START)]
    worker.insert(6, point(20, START, SLOT, 7))
    batcher = [point(25, STEP, SLOT, 7)] if with_batch else []
    learner = [
        point(15, START, WEIGHTS, weights_payload(0, 3)),
        point(29, START, WEIGHTS, weights_payload(1, 3)),
        point(40, END, SLOT, 7),
        Event(20 * MS, 30 * MS, 1, 1, 0),
        Event(42 * MS, 60 * MS, 1, 1, 0),
        point(61, START, WEIGHTS, weights_payload(0, 4)),
    ]
    return Session(
        0.0,
        config={"rollout": 2},
        processes=[
            process("Learner_0", *learner, paths=[("Learner_0", "main_loop", "train")]),
            process("Batcher_0", *batcher),
            process("RolloutWorker_w0", *worker),
        ],
    )


def test_a_life_goes_from_the_first_step_of_its_group_to_the_end_of_the_training_on_it():
    (life,) = find_lives(make_session())
    assert (life.slot, life.worker, life.num_published) == (7, "RolloutWorker_w0", 1)
    assert [ns // MS for ns in life.moments_ns] == [10, 20, 25, 40, 42, 60]
    assert life.stages_s == pytest.approx((0.010, 0.005, 0.015, 0.002, 0.018))
    assert (life.total_s, life.longest_stage) == (pytest.approx(0.05), "trained on")
    times = stage_times([life])
    assert [each.stage for each in times] == [*STAGES, "all of it"]
    assert times[-1].p50_s == times[-1].max_s == pytest.approx(0.05)


def test_a_life_of_which_a_part_is_missing_is_left_out():
    assert find_lives(make_session(with_batch=False)) == []
    session = make_session()
    session.config["rollout"] = 3  # its first step was before the events
    assert find_lives(session) == []
    assert stage_times([]) == []


def of_rank(record):
    name = name_in_rank(record.name, 1)
    paths = [(name, *path[1:]) for path in record.paths]
    return replace(record, name=name, trees={name: TreeNode()}, paths=paths, rank=1)


def test_ranks_have_slots_of_their_own():
    session = make_session()
    session.processes += map(of_rank, make_session().processes)
    lives = find_lives(session)
    assert [(life.slot, life.worker) for life in lives] == [(7, "RolloutWorker_w0"), (7, "rank 1 RolloutWorker_w0")]
    assert lives[0].moments_ns == lives[1].moments_ns


def test_a_timeline_has_the_slowest_ones_on_tracks_of_their_own_with_their_stages():
    session = make_session()
    timeline = Timeline(session.processes, lives=slowest(find_lives(session)))
    events = [json.loads(line) for line in timeline.lines()]
    begun = {event["name"]: event["ts"] for event in events if event["ph"] == "b"}
    ended = {event["name"]: event["ts"] for event in events if event["ph"] == "e"}
    assert list(begun) == ["slot 7 of RolloutWorker_w0", *STAGES]
    assert ended["slot 7 of RolloutWorker_w0"] - begun["slot 7 of RolloutWorker_w0"] == 50_000
    assert begun["trained on"] == ended["prepared"]
