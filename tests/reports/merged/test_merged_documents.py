"""One document per tool over several processes: names, callers, frames, clocks and identities."""

from __future__ import annotations

import cProfile
import gzip
import json
import pstats
import time

import pytest

from sample_profiler.profiling import Timing
from sample_profiler.profiling.captures.tools import begin_capture
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.reports.merged.pstats import merge_pstats
from sample_profiler.reports.merged.speedscope import merge_speedscope
from sample_profiler.reports.merged.traces import merge_chrome_traces
from tests.reports.records import make_record

NAMES = ("RolloutWorker_w0", "Learner_0")


def inner():
    return sum(range(2000))


def outer(num):
    return [inner() for _ in range(num)]


def capture(tool, tmp_path, work=lambda name: outer(20)):
    parts, facts = {}, {}
    for name in NAMES:
        running = begin_capture(tool, tmp_path / f"{name}.part")
        work(name)
        facts[name] = running.end()
        parts[name] = tmp_path / f"{name}.part"
    return parts, facts


@pytest.mark.parametrize("tool", ["cprofile", "yappi"])
def test_functions_of_each_component_are_told_apart_with_their_callers(tmp_path, tool):
    if tool == "yappi":
        pytest.importorskip("yappi")
    parts, _ = capture(tool, tmp_path, lambda name: outer(20 if name == "Learner_0" else 30))
    merge_pstats(parts, tmp_path / "merged.pstats")
    statistics = pstats.Stats(str(tmp_path / "merged.pstats")).stats
    calls = {}
    for (file, _, name), (_, num_calls, _, _, callers) in statistics.items():
        if name == "inner":
            component = file.partition(":")[0]
            calls[component] = num_calls
            assert {caller[0].partition(":")[0] for caller in callers} == {component}
    assert calls == {"RolloutWorker_w0": 30, "Learner_0": 20}


def test_a_profile_without_calls_is_fine_and_something_else_is_an_error(tmp_path):
    cProfile.Profile().dump_stats(tmp_path / "empty")
    merge_pstats({"Batcher_0": tmp_path / "empty"}, tmp_path / "merged")
    (tmp_path / "text").write_text("no profile")
    with pytest.raises(ValueError, match="is no profile of functions"):
        merge_pstats({"Batcher_0": tmp_path / "text"}, tmp_path / "merged")


def check_speedscope(document):
    """Check what https://www.speedscope.app/file-format-schema.json asks for."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    assert all(isinstance(frame["name"], str) for frame in frames)
    for profile in document["profiles"]:
        assert profile["startValue"] <= profile["endValue"]
        stack = []
        for event in profile["events"]:
            assert 0 <= event["frame"] < len(frames)
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert stack == []


def test_stacks_of_several_processes_share_their_frames(tmp_path):
    pytest.importorskip("pyinstrument")

    def work(_):
        end_s = time.perf_counter() + 0.1
        while time.perf_counter() < end_s:
            outer(5)

    parts, _ = capture("pyinstrument", tmp_path, work)
    merge_speedscope(parts, tmp_path / "merged.json")
    document = json.loads((tmp_path / "merged.json").read_text())
    check_speedscope(document)
    assert [profile["name"] for profile in document["profiles"]] == list(NAMES)
    frames = [(frame["name"], frame.get("file"), frame.get("line")) for frame in document["shared"]["frames"]]
    assert len(frames) == len(set(frames))
    inner_frames = {index for index, frame in enumerate(frames) if frame[0] in ("outer", "inner")}
    for profile in document["profiles"]:
        assert inner_frames & {event["frame"] for event in profile["events"]}


def test_a_process_that_was_never_seen_doing_anything_is_there_all_the_same(tmp_path):
    (tmp_path / "part").write_text('{"shared": {"frames": []}, "profiles": []}')
    merge_speedscope({"Batcher_0": tmp_path / "part"}, tmp_path / "merged.json")
    document = json.loads((tmp_path / "merged.json").read_text())
    check_speedscope(document)
    assert [profile["name"] for profile in document["profiles"]] == ["Batcher_0"]
    (tmp_path / "part").write_text("{}")
    with pytest.raises(ValueError, match="is no speedscope document"):
        merge_speedscope({"Batcher_0": tmp_path / "part"}, tmp_path / "merged.json")


@pytest.mark.parametrize("name", ["merged.json", "merged.json.gz"])
def test_operators_and_blocks_are_on_one_clock_and_each_component_is_a_process(tmp_path, name):
    torch = pytest.importorskip("torch")
    timings, files = {}, {}
    for component in NAMES:
        timings[component] = Timing(component)
        files[component] = RecordFile(tmp_path / f"{component}.1.rec", process_name=component)
        files[component].attach(timings[component], component)

    def work(component):
        with timings[component].add_time("multiply"):
            torch.ones(200, 200).mm(torch.ones(200, 200))

    with timings["Learner_0"].add_time("before the window"):
        pass
    parts, facts = capture("torch", tmp_path, work)
    for file in files.values():
        file.close()
    records = [read_record_file(file.path, with_events=True) for file in files.values()]
    windows = {component: (fact["start_ns"], fact["end_ns"]) for component, fact in facts.items()}
    merge_chrome_traces(parts, tmp_path / name, records, windows)
    data = (tmp_path / name).read_bytes()
    document = json.loads(gzip.decompress(data) if name.endswith(".gz") else data, parse_constant=pytest.fail)
    events = document["traceEvents"]
    processes = {e["args"]["name"]: e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    assert set(processes) == set(NAMES) and len(set(processes.values())) == 2
    assert document["metadata"]["empty"] == []
    assert "before the window" not in {event["name"] for event in events}
    for pid in processes.values():
        own = [event for event in events if event["pid"] == pid and event["ph"] == "X"]
        (block,) = [event for event in own if event["name"] == "multiply"]
        operators = [event for event in own if event["name"] == "aten::mm"]
        assert len(operators) == 1
        # Two clocks of the system, tied to each other once: a little apart at most.
        assert block["ts"] - 2000 <= operators[0]["ts"]
        assert operators[0]["ts"] + operators[0]["dur"] <= block["ts"] + block["dur"] + 2000
    first, second = (
        [e["ts"] for e in events if e["pid"] == pid and e["name"] == "aten::mm"] for pid in processes.values()
    )
    assert first != second


def test_a_trace_without_operators_says_so_and_flows_keep_to_their_process(tmp_path):
    flow = {"ph": "s", "id": 5, "pid": 1, "tid": 1, "ts": 1.0, "name": "fwdbwd", "cat": "fwdbwd"}
    pass_ = {"ph": "X", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0, "name": "aten::mm", "cat": "cpu_op"}
    (tmp_path / "a").write_text(json.dumps({"traceEvents": [flow, pass_], "baseTimeNanoseconds": 10**18}))
    (tmp_path / "b").write_text(json.dumps({"traceEvents": [flow], "baseTimeNanoseconds": 10**18 + 3000}))
    merge_chrome_traces({"Learner_0": tmp_path / "a", "Batcher_0": tmp_path / "b"}, tmp_path / "merged.json")
    document = json.loads((tmp_path / "merged.json").read_text())
    assert document["metadata"]["empty"] == ["Batcher_0"]
    assert "Batcher_0" in document["metadata"]["note"]
    flows = [event for event in document["traceEvents"] if event["ph"] == "s"]
    assert len({event["id"] for event in flows}) == 2
    assert all(type(event["id"]) is int and 0 <= event["id"] < 2**53 for event in flows), "Perfetto drops others"
    assert [event["ts"] for event in flows] == [0.0, 3.0]
    (tmp_path / "a").write_text("[]")
    with pytest.raises(ValueError, match="is no trace"):
        merge_chrome_traces({"Learner_0": tmp_path / "a"}, tmp_path / "merged.json")


@pytest.mark.parametrize("part", ["Learner_0", "Batcher_0", "serial"])
def test_timers_of_a_process_are_tracks_beside_the_blocks_of_its_first_component(tmp_path, part):
    paths = [("Learner_0",), ("Learner_0", "train"), ("Batcher_0",), ("timers.1",), ("timers.1", "fetch")]
    paths += [("timers",), ("timers", "sort")]
    record = make_record("serial", [(1, 2, 1, 1, 0), (1, 2, 4, 2, 0), (1, 2, 6, 1, 0)], paths)
    for tree, key in (("timers", "sort"), ("timers.1", "fetch")):
        record.trees[tree].children[key] = TreeNode(key)
    (tmp_path / "a").write_text(json.dumps({"traceEvents": [], "baseTimeNanoseconds": 1}))
    merge_chrome_traces({part: tmp_path / "a"}, tmp_path / "merged.json", [record])
    events = json.loads((tmp_path / "merged.json").read_text())["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    shown = {(tracks[event["tid"]], event["name"]) for event in events if event["ph"] == "X"}
    timers = {("timers", "sort"), ("timers.1", "fetch")}
    assert (
        shown
        == {
            "Learner_0": {("blocks", "train"), *timers},
            "Batcher_0": set(),
            "serial": {("blocks of Learner_0", "train"), *timers},
        }[part]
    )


@pytest.mark.parametrize(
    ("num_lost", "start_s", "is_told"),
    [(5, 1, True), (5, 3, False), (0, 1, False)],
    ids=["in the window", "before the window", "none"],
)
def test_blocks_of_the_window_that_were_overwritten_are_told(tmp_path, num_lost, start_s, is_told):
    events = [(2 * NS_PER_S, 3 * NS_PER_S, 1, 1, 0), (3 * NS_PER_S, 4 * NS_PER_S, 1, 1, 0)]
    record = make_record(events=events, num_events_lost=num_lost, read_ns=5 * NS_PER_S)
    operator = {"ph": "X", "pid": 1, "tid": 1, "ts": 1e6, "dur": 2.0, "name": "aten::mm", "cat": "cpu_op"}
    (tmp_path / "a").write_text(json.dumps({"traceEvents": [operator]}))
    windows = {"RolloutWorker_w0": (start_s * NS_PER_S, 5 * NS_PER_S)}
    lines = merge_chrome_traces({"RolloutWorker_w0": tmp_path / "a"}, tmp_path / "merged.json", [record], windows)
    note = json.loads((tmp_path / "merged.json").read_text())["metadata"]["note"]
    if is_told:
        assert note.startswith("RolloutWorker_w0: blocks that ended before second 2.0 were overwritten")
    assert lines == ([note] if is_told else [])
    assert is_told == bool(note)
