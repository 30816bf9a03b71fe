"""Following record files: only the window, also of processes that begin later, also when the ring wraps around."""

from __future__ import annotations

import json
import threading
import time

import pytest

from sample_profiler.errors import SessionError
from sample_profiler.profiling import Timing
from sample_profiler.profiling.record.header import OpenRecord
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.reports.timeline import follow
from sample_profiler.reports.timeline.follow import TimelineRecorder, capture_timeline
from sample_profiler.run_folder import RunFolder


@pytest.fixture
def make_file(tmp_path):
    folder = tmp_path / "profile" / "live"
    folder.mkdir(parents=True)
    files = []

    def make(name, **sizes):
        timing = Timing(f"{name} profile")
        file = RecordFile(folder / f"{name}.1.rec", process_name=name, **sizes)
        file.attach(timing, name)
        files.append(file)
        return timing, file

    yield make
    for file in files:
        file.close()


def spend(timing, file, key, num=1):
    for _ in range(num):
        with timing.add_time(key):
            pass
    file.flush()


def names_of(path):
    events = json.loads(path.read_text())["traceEvents"]
    return [event["name"] for event in events if event["ph"] == "X"]


def test_only_what_happens_in_the_window_is_taken_also_of_processes_that_begin_in_it(tmp_path, make_file):
    first = make_file("Learner_0")
    spend(*first, "before")
    recorder = TimelineRecorder(tmp_path)
    spend(*first, "train", 3)
    spend(*make_file("RolloutWorker_w0"), "env_step", 2)
    recorder.poll()
    spend(*first, "train", 3)
    capture = recorder.finish(tmp_path / "out" / "timeline.json")
    spend(*first, "after")
    assert sorted(names_of(tmp_path / "out" / "timeline.json")) == ["env_step"] * 2 + ["train"] * 6
    assert (capture.num_passes, capture.num_lost) == (8, {})
    assert capture.components == ["Learner_0", "RolloutWorker_w0"]


def test_chosen_components_alone_are_shown(tmp_path, make_file):
    files = {name: make_file(name) for name in ("Learner_0", "Batcher_0")}
    recorder = TimelineRecorder(tmp_path, ["Batcher_0"])
    for one in files.values():
        spend(*one, "work")
    assert recorder.finish(tmp_path / "timeline.json").components == ["Batcher_0"]
    assert names_of(tmp_path / "timeline.json") == ["work"]


def test_gauges_of_components_that_are_not_shown_are_nobody_else_s(tmp_path, make_file):
    timing, file = make_file("Batcher_0")
    file.attach(Timing("Learner profile"), "Learner_0")
    recorder = TimelineRecorder(tmp_path, ["Batcher_0"])
    for gauge in ("Batcher_0/queue", "Learner_0/lag", "train/loss"):
        file.set_gauge(gauge, 1.0)
    spend(timing, file, "work")
    recorder.finish(tmp_path / "timeline.json")
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert sorted(event["name"] for event in events if event["ph"] == "C") == ["queue", "train/loss"]


def test_timers_are_shown_with_their_process(tmp_path, make_file):
    files = {name: make_file(name) for name in ("Learner_0", "Batcher_0")}
    timers = {name: Timing("Timers") for name in files}
    for name, (_, file) in files.items():
        file.attach(timers[name], "timers")
    recorders = {"all.json": TimelineRecorder(tmp_path), "one.json": TimelineRecorder(tmp_path, ["Batcher_0"])}
    for name, (_, file) in files.items():
        spend(timers[name], file, f"of {name}")
    captures = {name: recorder.finish(tmp_path / name) for name, recorder in recorders.items()}
    assert sorted(names_of(tmp_path / "all.json")) == ["of Batcher_0", "of Learner_0"]
    assert names_of(tmp_path / "one.json") == ["of Batcher_0"]
    assert (captures["one.json"].components, captures["one.json"].num_passes) == (["Batcher_0"], 1)


def test_what_was_overwritten_unread_is_counted(tmp_path, make_file):
    timing, file = make_file("Learner_0", ring_bytes=32 * 64)
    recorder = TimelineRecorder(tmp_path)
    spend(timing, file, "work", 200)
    capture = recorder.finish(tmp_path / "timeline.json")
    assert capture.num_passes + capture.num_lost["Learner_0"] == 200
    assert 0 < capture.num_passes <= 64


def test_what_has_no_name_is_among_the_captures_and_small_if_it_would_be_large(tmp_path, make_file, monkeypatch):
    first = make_file("Learner_0")
    for most, ending in ((3, ".json"), (2, ".pftrace")):
        monkeypatch.setattr(follow, "_MOST_AS_JSON", most)
        recorder = TimelineRecorder(tmp_path)
        spend(*first, "work", 3)
        path = recorder.finish().path
        assert path.parent == RunFolder(tmp_path).captures and path.suffix == ending
        assert path.read_bytes()[:1] == (b"{" if ending == ".json" else b"\n")


def test_a_capture_ends_early_when_it_is_told_to(tmp_path, make_file):
    timing, file = make_file("Learner_0")
    is_over = threading.Event()
    told = []

    def on_progress(seconds):
        told.append(seconds)
        spend(timing, file, "work")
        is_over.set()

    written = []
    tell = {"on_progress": on_progress, "on_writing": lambda: written.append(len(told))}
    capture = capture_timeline(tmp_path, 1000, tmp_path / "t.json", is_over=is_over.is_set, **tell)
    assert capture.num_passes == len(told) == 1
    assert written == [1]


def test_names_are_there_although_the_file_is_gone(tmp_path, make_file):
    timing, file = make_file("Learner_0")
    recorder = TimelineRecorder(tmp_path)
    spend(timing, file, "train", 2)
    file.path.unlink()
    recorder.poll()
    spend(timing, file, "save")
    assert recorder.finish(tmp_path / "t.json").num_passes == 3
    assert names_of(tmp_path / "t.json") == ["train", "train", "save"]


def test_a_capture_ends_with_the_run(tmp_path, make_file):
    timing, file = make_file("Learner_0")
    told = []

    def on_progress(seconds):
        assert not told, "the run is over"
        told.append(seconds)
        spend(timing, file, "work")
        file.close()

    assert capture_timeline(tmp_path, 1000, tmp_path / "t.json", on_progress=on_progress).num_passes == 1


def test_processes_without_rings_have_no_timeline(tmp_path, make_file):
    make_file("Learner_0", ring_bytes=0)
    with pytest.raises(SessionError, match="flight_recorder_mb=0"):
        capture_timeline(tmp_path, 1, tmp_path / "t.json")


def test_there_has_to_be_something_to_follow(tmp_path):
    with pytest.raises(SessionError, match="no record files"):
        capture_timeline(tmp_path, 1, tmp_path / "t.json")
    assert time.perf_counter_ns()


def test_what_is_overwritten_before_the_window_is_no_loss(tmp_path, make_file, monkeypatch):
    timing, file = make_file("Learner_0", ring_bytes=32 * 64)
    spend(timing, file, "before", 100)  # the ring is full

    def read_slowly(self, *arguments, read=OpenRecord.read):
        spend(timing, file, "train", 2)  # overwrites the oldest events of the ring while they are read
        return read(self, *arguments)

    monkeypatch.setattr(OpenRecord, "read", read_slowly)
    recorder = TimelineRecorder(tmp_path)
    monkeypatch.undo()
    capture = recorder.finish(tmp_path / "timeline.json")
    assert capture.num_lost == {}
    assert set(names_of(tmp_path / "timeline.json")) == {"train"}
    assert json.loads((tmp_path / "timeline.json").read_text())["metadata"]["Learner_0"]["events_lost"] == 0


def test_losses_of_a_process_that_begins_in_the_window_count_from_its_first_event(tmp_path, make_file):
    recorder = TimelineRecorder(tmp_path)
    spend(*make_file("Learner_0", ring_bytes=32 * 64), "work", 200)
    capture = recorder.finish(tmp_path / "timeline.json")
    assert capture.num_passes + capture.num_lost["Learner_0"] == 200


def test_losses_of_processes_that_are_not_shown_are_not_told(tmp_path, make_file):
    files = {name: make_file(name, ring_bytes=32 * 64) for name in ("Learner_0", "Batcher_0")}
    recorder = TimelineRecorder(tmp_path, ["Batcher_0"])
    for one in files.values():
        spend(*one, "work", 200)
    assert list(recorder.finish(tmp_path / "timeline.json").num_lost) == ["Batcher_0"]
