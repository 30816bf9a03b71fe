"""Timelines read back: names, nesting, tracks, flows, and what is outside of the window."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections import Counter

import pytest

from sample_profiler.profiling import Timing
from sample_profiler.profiling.record.events import Events
from sample_profiler.profiling.record.flows import END, REQUEST, SLOT, START, STEP, flow_point
from sample_profiler.profiling.record.format import EVENT, FLOW_POINT
from sample_profiler.profiling.record.process_record import OpenBlock
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.tree.gauges import GaugeNode
from sample_profiler.reports.merged.chrome_trace import write_chrome_trace
from sample_profiler.reports.timeline.timeline import Timeline
from tests.reports.records import PATHS, US, make_record, of_phase


def timeline_events(records, **options):
    return map(json.loads, Timeline(records, **options).lines())


def assert_nesting(events):
    """Check that on every track each pass lies wholly inside another one or wholly outside of it."""
    tracks = {}
    for event in of_phase(events, "X"):
        tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for passes in tracks.values():
        open_ends = []
        for start, end in sorted(passes, key=lambda one: (one[0], -one[1])):
            while open_ends and open_ends[-1] <= start + 1e-6:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 2e-3
            open_ends.append(end)


def test_passes_have_names_paths_and_times_in_microseconds_since_the_first():
    record = make_record(events=[(5_500, 7_250, 2, 1, 0), (5_000, 9_000, 1, 1, 0)])
    events = list(timeline_events([record]))
    step, physics = of_phase(events, "X")
    assert (step["name"], step["ts"], step["dur"], step["args"]) == ("env_step", 0.0, 4.0, {"path": "env_step"})
    assert (physics["name"], physics["ts"], physics["dur"]) == ("physics", 0.5, 1.75)
    assert physics["args"] == {"path": "env_step/physics"}
    names = {event["name"]: event["args"] for event in of_phase(events, "M")}
    assert names["process_name"] == {"name": "RolloutWorker_w0"}
    assert names["thread_name"] == {"name": "MainThread"}
    assert_nesting(events)


def test_components_of_one_process_are_processes_of_the_trace():
    record = make_record(
        paths=(*PATHS, ("Learner_0",), ("Learner_0", "train")), events=[(0, 5, 1, 1, 0), (6, 9, 4, 1, 0)]
    )
    events = list(timeline_events([record]))
    step, train = of_phase(events, "X")
    assert step["pid"] != train["pid"]
    assert Counter(event["args"]["name"] for event in of_phase(events, "M") if event["name"] == "process_name") == {
        "RolloutWorker_w0": 1,
        "Learner_0": 1,
    }


def test_timers_are_tracks_of_their_own_in_the_process_of_the_first_component():
    paths = (
        *(*PATHS, ("Learner_0",), ("Learner_0", "train"), ("timers",), ("timers", "render"), ("timers.1",)),
        *(("timers.1", "fetch"), ("timers.1", "fetch", "decode")),
    )
    block = OpenBlock("timers", ("render",), 400 * US, 1)
    record = make_record(
        events=[(0, 90, 1, 1, 0), (10, 20, 6, 1, 0), (15, 25, 6, 1, 0), (10, 30, 8, 2, 0), (12, 20, 9, 2, 0)],
        paths=paths,
        open_blocks=[block],
        thread_names={1: "MainThread", 2: "loader"},
    )
    events = list(timeline_events([record]))
    assert_nesting(events)
    processes = {e["args"]["name"]: e["pid"] for e in of_phase(events, "M") if e["name"] == "process_name"}
    assert set(processes) == {"RolloutWorker_w0", "Learner_0"}
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in of_phase(events, "M") if e["name"] == "thread_name"}
    shown = sorted((tracks[e["pid"], e["tid"]], e["args"]["path"], e["cat"]) for e in of_phase(events, "X"))
    assert shown == [
        ("MainThread", "env_step", "RolloutWorker"),
        *(("MainThread: timers", "render", "timers"),) * 2,
        ("MainThread: timers (2)", "render", "timers"),
        *(("loader: timers", path, "timers") for path in ("fetch", "fetch/decode")),
    ]
    assert {e["pid"] for e in of_phase(events, "X")} == {processes["RolloutWorker_w0"]}


def test_passes_that_overlap_go_to_tracks_of_their_own():
    record = make_record(events=[(0, 10, 1, 1, 0), (5, 15, 1, 1, 0), (12, 14, 1, 1, 0), (20, 21, 1, 1, 0)])
    events = list(timeline_events([record]))
    assert [event["tid"] - of_phase(events, "X")[0]["tid"] for event in of_phase(events, "X")] == [0, 1, 0, 0]
    names = [event["args"]["name"] for event in of_phase(events, "M") if event["name"] == "thread_name"]
    assert names == ["MainThread", "MainThread (2)"]
    assert_nesting(events)


def test_what_is_outside_of_the_window_is_left_out():
    record = make_record(events=[(0, 10, 1, 1, 0), (8, 30, 1, 1, 0), (40, 50, 1, 1, 0), (60, 70, 1, 1, 0)])
    passes = of_phase(timeline_events([record], start_ns=20, end_ns=45), "X")
    assert [(event["ts"], event["dur"]) for event in passes] == [(0.0, 0.01), (0.02, 0.01)]


def test_events_of_blocks_that_nobody_knows_are_left_out():
    record = make_record(events=[(0, 10, 1, 1, 0), (11, 12, len(PATHS), 1, 0)])
    assert [event["name"] for event in of_phase(timeline_events([record]), "X")] == ["env_step"]


def test_blocks_that_are_open_last_until_the_reading():
    block = OpenBlock("RolloutWorker_w0", ("env_step",), 400 * US, 1)
    record = make_record(events=[(0, 10, 1, 1, 0)], open_blocks=[block])
    *_, shown = of_phase(timeline_events([record]), "X")
    assert (shown["ts"], shown["dur"], shown["args"]["open"]) == (400.0, 600.0, True)


def point(time_ns, node, phase, kind, payload):
    return (time_ns, FLOW_POINT, node, 1, flow_point(phase, kind, payload))


def test_flows_are_arrows_from_block_to_block_across_processes():
    worker = make_record(
        events=[(0, 10, 1, 1, 0), (100, 110, 1, 1, 0), point(5, 1, START, REQUEST, 3), point(101, 1, END, REQUEST, 3)]
    )
    paths = (("InferenceWorker_p0-w0",), ("InferenceWorker_p0-w0", "handle_policy_step"))
    inference = make_record("InferenceWorker_p0-w0", [(50, 60, 1, 1, 0), point(51, 1, STEP, REQUEST, 3)], paths)
    events = list(timeline_events([worker, inference]))
    arrows = [event for event in events if event["ph"] in "stf"]
    assert [(event["ph"], event["ts"], event["name"]) for event in arrows] == [
        ("s", 0.005, "request"),
        ("t", 0.051, "request"),
        ("f", 0.101, "request"),
    ]
    assert len({event["id"] for event in arrows}) == 1
    for arrow in arrows:
        holding = [
            event
            for event in of_phase(events, "X")
            if (event["pid"], event["tid"]) == (arrow["pid"], arrow["tid"])
            and event["ts"] <= arrow["ts"] <= event["ts"] + event["dur"]
        ]
        assert holding, arrow


def test_a_flow_s_number_may_come_again_and_a_lone_point_is_no_flow():
    marks = [
        *(point(1, 1, START, SLOT, 9), point(2, 1, END, SLOT, 9)),
        *(point(3, 1, START, SLOT, 9), point(4, 1, STEP, SLOT, 9)),
        *(point(5, 1, START, SLOT, 9), point(6, 1, STEP, REQUEST, 1)),
    ]
    record = make_record(events=[(0, 10, 1, 1, 0), *marks])
    arrows = [(event["ph"], event["id"]) for event in timeline_events([record]) if event["ph"] in "stf"]
    assert arrows == [("s", 1), ("f", 1), ("s", 2), ("f", 2)]


def test_gauges_are_counters_of_their_component():
    gauges = {
        "RolloutWorker_w0/free_slots": GaugeNode(3),
        "memory_mib": GaugeNode(40),
        "train/loss": GaugeNode(2),  # as an environment calls its own
    }
    record = make_record(events=[(0, 10, 1, 1, 0)], gauges=gauges)
    counters = of_phase(timeline_events([record]), "C")
    assert {event["name"]: event["args"] for event in counters} == {
        "free_slots": {"free_slots": 3.0},
        "memory_mib": {"memory_mib": 40.0},
        "train/loss": {"train/loss": 2.0},
    }
    assert len({event["pid"] for event in counters}) == 1


@pytest.mark.parametrize("name", ["timeline.json", "timeline.json.gz"])
def test_a_timeline_of_a_real_record_file_is_valid_json_and_nests(tmp_path, name):
    timing = Timing("Worker profile")
    file = RecordFile(tmp_path / "w.1.rec", process_name="Worker")
    file.attach(timing, "Worker")
    for number in range(500):
        with timing.add_time("outer"):
            timing.mark_flow(flow_point(START, SLOT, number))
            with timing.add_time("inner"), timing.add_time("innermost"):
                timing.mark_flow(flow_point(END, SLOT, number))
    file.close()
    path = tmp_path / name
    timeline = Timeline([read_record_file(file.path, with_events=True)])
    timeline.write(path)
    assert timeline.num_passes == 1500
    text = gzip.decompress(path.read_bytes()).decode() if name.endswith(".gz") else path.read_text()
    document = json.loads(text, parse_constant=pytest.fail)
    events = document["traceEvents"]
    assert Counter(event["name"] for event in of_phase(events, "X")) == {"outer": 500, "inner": 500, "innermost": 500}
    assert len(of_phase(events, "s")) == len(of_phase(events, "f")) == 500
    assert document["metadata"]["Worker"]["recorder"] in ("compiled", "pure Python")
    assert_nesting(events)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_events_are_taken_piece_by_piece_while_the_file_is_written(tmp_path):
    def make_lines():
        for number in range(20_000):
            taken.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
            yield json.dumps({"ph": "i", "ts": number})

    taken = []
    write_chrome_trace(tmp_path / "trace.json", make_lines(), dict)
    assert len(set(taken)) > 3, "all lines were taken before anything was written"
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) == 20_000


def test_a_hundred_thousand_events_never_become_objects_all_at_once(tmp_path):
    num_events = 100_000
    events = Events(b"".join(EVENT.pack(1000 * number, 1000 * number + 900, 1, 1, 0) for number in range(num_events)))
    record = make_record(events=())
    record.events = events
    timeline = Timeline([record])
    tracemalloc.start()
    try:
        timeline.write(tmp_path / "trace.json")
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert timeline.num_passes == num_events
    # As lines they are 100 bytes each and more, as objects 200; a window and an order over them take some 40.
    assert most_bytes < 140 * num_events
    assert (tmp_path / "trace.json").stat().st_size > 100 * num_events


def test_a_thread_of_any_number_has_a_track():
    record = make_record(
        events=[(5_000, 9_000, 1, 2**23, 0), (9_500, FLOW_POINT, 1, 2**32 - 1, flow_point(REQUEST, START, 7))],
        open_blocks=[OpenBlock("RolloutWorker_w0", ("env_step",), 9_000, 2**63)],
    )
    assert len(of_phase(list(timeline_events([record])), "X")) == 2
