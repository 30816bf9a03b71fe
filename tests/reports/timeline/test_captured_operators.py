"""Counters over time and captured operators in a timeline: the same clock, no block twice."""

from __future__ import annotations

import json
import os

import pytest

from sample_profiler.profiling.record.process_record import Anchor
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.statistics import NS_PER_S as S
from sample_profiler.reports.merged import chrome_trace
from sample_profiler.reports.merged.chrome_trace import ChromeTrace
from sample_profiler.reports.timeline.captured_operators import find_captures
from sample_profiler.reports.timeline.counters import run_counters
from sample_profiler.reports.timeline.timeline import Timeline
from tests.reports.records import make_record, of_phase

BEGAN_S = 1_700_000_000
WALL = {"start_anchor": Anchor(100 * S, (BEGAN_S + 1) * S, 0), "process_started_ns": 99 * S, "read_ns": 200 * S}


def make_learner(events):
    return make_record("Learner_0", events, (("Learner_0",), ("Learner_0", "train")), **WALL)


def shown(records, **options):
    timeline = Timeline(records, **options)
    return [json.loads(line) for line in timeline.lines()], timeline


def test_what_a_run_noted_over_its_time_is_a_counter_on_the_clock_of_its_blocks():
    run = {"history_start_s": BEGAN_S, "history": {"fps": [[1.0, 10.0], [3.0, 30.0]], "odd": "text", "empty": []}}
    session = Session(0.0, run=run, processes=[make_learner([(101 * S, 102 * S, 1, 1, 0)])])
    events, _ = shown(session.processes, counters=run_counters(session))
    (run_pid,) = [event["pid"] for event in events if event["ph"] == "M" and event["args"].get("name") == "Run"]
    counters = [(event["pid"], event["name"], event["ts"], event["args"]) for event in of_phase(events, "C")]
    assert counters == [(run_pid, "fps", 0.0, {"fps": 10.0}), (run_pid, "fps", 2e6, {"fps": 30.0})]
    (train,) = of_phase(events, "X")
    assert train["ts"] == 1e6, "the run has been noted for a second when it begins"


def test_of_a_window_counters_begin_with_what_they_were_at_its_begin():
    run = {"history_start_s": BEGAN_S, "history": {"fps": [[1.0, 10.0], [2.0, 20.0], [4.0, 40.0], [9.0, 90.0]]}}
    session = Session(0.0, run=run, processes=[make_learner([(104 * S, 105 * S, 1, 1, 0)])])
    window = {"start_ns": 102 * S, "end_ns": 105 * S}
    events, _ = shown(session.processes, counters=run_counters(session), **window)
    assert [(e["ts"], e["args"]["fps"]) for e in of_phase(events, "C")] == [(0.0, 20.0), (1e6, 40.0)]


def test_a_history_that_does_not_say_when_it_began_is_left_out():
    session = Session(0.0, run={"history": {"fps": [[1.0, 10.0]]}}, processes=[make_learner([])])
    assert run_counters(session) == []


def operator(ts, name="aten::mm", pid=77, tid=4242, **more):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": 10.0, **more}


@pytest.fixture
def captures(tmp_path):
    """A document of two processes, and a part of a capture that was broken off."""
    folder = tmp_path / "profile" / "captures"
    (folder / "torch_2").mkdir(parents=True)
    document = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Learner_0"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 4242, "args": {"name": "thread 4242 (python)"}},
        operator(0.0, pid=1),
        {"ph": "s", "id": 3, "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 4242, "ts": 5.0},
        {"ph": "X", "cat": "sample_profiler", "name": "train", "pid": 1, "tid": 0, "ts": -1e6, "dur": 5.0, "args": {}},
        {"ph": "X", "cat": "sample_profiler", "name": "train", "pid": 1, "tid": 0, "ts": 1e6, "dur": 5.0, "args": {}},
        {"ph": "M", "name": "process_name", "pid": 2, "tid": 0, "args": {"name": "InferenceWorker_p0-w0"}},
        operator(7.0, "aten::add", pid=2),
    ]
    base = (BEGAN_S + 2) * S
    (folder / "torch_1.json").write_text(json.dumps({"traceEvents": document, "baseTimeNanoseconds": base}))
    part = {"traceEvents": [operator(1.0, "aten::sum")], "baseTimeNanoseconds": base}
    (folder / "torch_2" / "Learner_0.json").write_text(json.dumps(part))
    (folder / "torch_2" / ".Learner_0.json.5.json").write_text("being written")
    (folder / "pyinstrument_3.speedscope.json").write_text("{}")
    return find_captures(tmp_path)


def test_captured_operators_are_beside_the_blocks_of_their_component(captures):
    assert [path.name for path in captures] == ["torch_1.json", "Learner_0.json"]
    events, timeline = shown([make_learner([(101 * S, 103 * S, 1, 1, 0)])], captures=captures)
    assert timeline.problems == []
    names = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    assert set(names) == {"Learner_0", "InferenceWorker_p0-w0"}
    operators = {event["name"]: event for event in of_phase(events, "X") if event["name"].startswith("aten")}
    # The trace begins with the process, a second before the anchor, and the capture a second after it.
    assert operators["aten::mm"]["ts"] == 2e6
    assert operators["aten::add"]["ts"] == 2e6 + 7
    assert operators["aten::sum"]["ts"] == 2e6 + 1
    assert operators["aten::mm"]["pid"] == operators["aten::sum"]["pid"] == names["Learner_0"]
    assert operators["aten::add"]["pid"] == names["InferenceWorker_p0-w0"]
    block = next(event for event in of_phase(events, "X") if event["name"] == "train")
    assert len({block["tid"], *(event["tid"] for event in operators.values())}) == 4
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert tracks[operators["aten::mm"]["tid"]] == "captured: thread 4242 (python)"
    assert tracks[operators["aten::sum"]["tid"]] == "captured: 4242", "nobody has named it"
    (flow,) = of_phase(events, "s")
    assert type(flow["id"]) is int


def test_blocks_that_the_timeline_has_are_not_taken_from_captures_too(captures):
    events, _ = shown([make_learner([(101_500_000_000, 103 * S, 1, 1, 0)])], captures=captures)
    assert [event["ts"] for event in of_phase(events, "X") if event["name"] == "train"] == [2_500_000.0, 1_000_000.0]


def test_what_was_captured_outside_of_the_window_is_left_out(captures):
    record = make_learner([(104 * S, 105 * S, 1, 1, 0)])
    events, _ = shown([record], captures=captures, start_ns=103 * S)
    assert [event["name"] for event in of_phase(events, "X")] == ["train"]


@pytest.mark.parametrize("text", ["nothing", '{"traceEvents": [{"ph": "X"}, ', '{"traceEvents": [{"ph": "X"}]}'])
def test_a_capture_that_cannot_be_read_is_told_and_the_rest_is_shown(captures, text):
    captures[0].write_text(text)
    events, timeline = shown([make_learner([(101 * S, 103 * S, 1, 1, 0)])], captures=captures)
    assert "aten::sum" in {event["name"] for event in events}
    (problem,) = timeline.problems
    assert str(captures[0]) in problem


def test_an_event_without_end_is_not_read_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(chrome_trace, "_PIECE", 100)
    monkeypatch.setattr(chrome_trace, "_LONGEST_EVENT", 1000)
    path = tmp_path / "torch_x.json"
    path.write_text('{"traceEvents":[{"a":"')
    os.truncate(path, 1 << 40)
    with pytest.raises(ValueError, match="is no trace"):
        list(ChromeTrace(path).events())


@pytest.mark.parametrize("piece", [7, 64, 1 << 20])
def test_a_trace_is_read_the_same_in_pieces_of_any_size(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(chrome_trace, "_PIECE", piece)
    events = [operator(number / 8, args={"text": "[},{] \\ \u00fc", "numbers": [1, 2.5]}) for number in range(50)]
    path = tmp_path / "trace.json"
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events, "baseTimeNanoseconds": 12}
    path.write_text(json.dumps(head, indent=2))
    trace = ChromeTrace(path)
    assert list(trace.events()) == events
    assert trace.base_ns == 12
