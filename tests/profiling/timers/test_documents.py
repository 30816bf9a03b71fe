"""Rules ML13 and ML16 as far as data goes: what workers deliver, and the document of a run. ML15: its file."""

from __future__ import annotations

import json
import os
import pickle

import pytest

from sample_profiler.profiling import Timing
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.timers.documents import (
    WorkerTimers,
    keep_latest,
    make_run_document,
    merge_workers,
    worker_timers,
    write_document,
)
from sample_profiler.timers import GaugeNode, TimerNode, TimerStack, hierarchical_timer


@pytest.fixture
def deliver(clock):
    def make(number, seconds, process=1, gauges=None):
        timing = Timing(clock_ns=clock)
        clock.spend(timing, "env_step", seconds)
        with timing.timeit("wait"):
            pass
        return WorkerTimers(
            worker=f"RolloutWorker_w{number}",
            group="RolloutWorker",
            process=process,
            root=TimerNode.from_tree(timing.snapshot()),
            gauges=gauges or {},
        )

    return make


@pytest.fixture
def root(clock):
    stack = TimerStack(clock_ns=clock)
    with hierarchical_timer("main_loop", stack):
        clock.pass_s(1)
    return stack.root.copy()


def test_ml13_a_delivery_arrives_whole_in_another_process(deliver):
    delivery = deliver(0, 3, gauges={"free_slots": GaugeNode(4)})
    arrived = pickle.loads(pickle.dumps(delivery))
    assert arrived.root.to_dict() == delivery.root.to_dict()
    assert arrived.gauges["free_slots"].to_dict() == {"value": 4.0, "min": 4.0, "max": 4.0, "count": 1}


def test_ml13_a_delivery_replaces_the_earlier_one_of_its_process(deliver, root):
    deliveries = [deliver(0, 1), deliver(1, 2), deliver(0, 5), deliver(0, 5)]
    latest = keep_latest(deliveries)
    assert [(delivery.worker, delivery.root.total) for delivery in latest] == [
        ("RolloutWorker_w0", 5.0),
        ("RolloutWorker_w1", 2.0),
    ]
    assert make_run_document(root, {}, {}, deliveries)["children"]["workers"]["total"] == 7.0


def test_ml13_a_killed_worker_and_the_one_that_replaced_it_add_up(deliver, root):
    document = make_run_document(root, {}, {}, [deliver(0, 1, process=1), deliver(0, 2, process=2)])
    worker = document["children"]["workers"]["children"]["RolloutWorker_w0"]
    assert (worker["count"], worker["total"], worker["children"]["env_step"]["count"]) == (2, 3.0, 2)


def test_ml16_the_document_has_each_worker_and_their_merge(deliver, root):
    deliveries = [deliver(number, seconds) for number, seconds in enumerate((1, 1, 9))]
    learner = Timing()
    with learner.add_time("train"):
        pass
    deliveries.append(
        WorkerTimers(worker="Learner 0", group="Learner", process=9, root=TimerNode.from_tree(learner.snapshot()))
    )
    document = make_run_document(root, {}, {"note": "x"}, deliveries)
    assert (document["name"], document["metadata"], document["count"]) == ("root", {"note": "x"}, 1)
    assert list(document["children"]) == ["main_loop", "workers", "workers_merged"]
    workers = document["children"]["workers"]
    env_step_s = {name: node["children"].get("env_step", {}).get("total") for name, node in workers["children"].items()}
    assert env_step_s == {"RolloutWorker_w0": 1.0, "RolloutWorker_w1": 1.0, "RolloutWorker_w2": 9.0, "Learner 0": None}
    assert (workers["count"], workers["is_parallel"]) == (4, True)
    assert workers["self"] == pytest.approx(0.0)
    merged = document["children"]["workers_merged"]["children"]
    assert list(merged) == ["RolloutWorker", "Learner"]
    assert (merged["RolloutWorker"]["count"], merged["RolloutWorker"]["total"]) == (3, 11.0)
    assert merged["RolloutWorker"]["children"]["env_step"] == {
        "total": 11.0,
        "count": 3,
        "is_parallel": True,
        "self": 11.0,
    }


def test_ml16_a_straggler_is_seen_in_the_gauges_too(deliver, root):
    deliveries = [deliver(number, 1, gauges={"free_slots": GaugeNode(number)}) for number in range(3)]
    gauges = make_run_document(root, {"fps": GaugeNode(100)}, {}, deliveries)["gauges"]
    assert gauges["free_slots"] == {"value": 2.0, "min": 0.0, "max": 2.0, "count": 3}
    assert [gauges[f"RolloutWorker_w{number}/free_slots"]["value"] for number in range(3)] == [0.0, 1.0, 2.0]
    assert gauges["fps"]["value"] == 100.0


def test_ml16_merging_leaves_the_parts_as_they_are(deliver, root):
    delivery = deliver(0, 2, gauges={"free_slots": GaugeNode(4)})
    before = (root.to_dict(), delivery.root.to_dict())
    gauges = {"free_slots": GaugeNode(1)}
    make_run_document(root, gauges, {}, [delivery, deliver(0, 3, process=2)])
    assert (root.to_dict(), delivery.root.to_dict()) == before
    assert (gauges["free_slots"].count, delivery.gauges["free_slots"].count) == (1, 1)


def test_gauges_with_slashes_that_are_no_component_s_are_the_process_s(tmp_path):
    file = RecordFile(tmp_path / "w.rec", process_name="RolloutWorker_w0", ring_bytes=0)
    for component in ("RolloutWorker_w0", "Learner_0"):
        file.attach(Timing(component), component)
    for number, name in enumerate(("Environment/Return", "Learner_0/policy_lag", "cpu_s")):
        file.set_gauge(name, number)
    workers = worker_timers(read_record_file(file.path))
    file.close()
    gauges = make_run_document(TimerNode(), {}, {}, workers)["gauges"]
    names = ["Environment/Return", "RolloutWorker_w0/Environment/Return", "policy_lag", "Learner_0/policy_lag", "cpu_s"]
    assert set(gauges) == {*names, "RolloutWorker_w0/cpu_s"}
    assert gauges["Environment/Return"]["value"] == 0.0


def test_ml16_without_workers_there_are_no_nodes_for_them(root):
    assert list(merge_workers(root, []).children) == ["main_loop"]


def test_ml15_a_document_that_is_no_json_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_document({"total": float("nan")}, tmp_path / "new" / "timers.json")
    assert os.listdir(tmp_path / "new") == []


def test_ml15_a_file_is_readable_by_others_and_ends_with_a_line(deliver, root, tmp_path):
    path = tmp_path / "timers.json"
    write_document(make_run_document(root, {}, {}, [deliver(0, 1)]), path)
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.read_text().endswith("}\n")
    assert list(json.loads(path.read_text())["children"]) == ["main_loop", "workers", "workers_merged"]
