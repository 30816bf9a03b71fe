"""A recording begins with nothing, whatever timers of the same process have recorded before, and they lose nothing."""

from __future__ import annotations

import contextlib
import json
import threading

import pytest

from sample_profiler import timers
from sample_profiler.errors import RecordError
from sample_profiler.profiling.record.earlier_timers import EARLIER_TIMERS, take_off
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.recording.process import ProcessRecording
from sample_profiler.profiling.session.session import profile_session, read_session
from sample_profiler.profiling.timers import nodes as timer_nodes
from sample_profiler.profiling.timers.earlier import describe_earlier_timers
from sample_profiler.profiling.tree.tree import TreeNode


@pytest.fixture(autouse=True)
def _fresh_timers(make_timing, monkeypatch):
    """Let each of the recorders in turn record the timers."""
    monkeypatch.setattr(timer_nodes, "Timing", make_timing)
    timers.reset_timers()
    yield
    monkeypatch.undo()
    timers.reset_timers()


@pytest.fixture
def record(tmp_path):
    """Record as a session does, and return what there is of the timers at the end, by tree."""

    @contextlib.contextmanager
    def run():
        file = RecordFile(tmp_path / "main.1.rec", process_name="main", metadata=describe_earlier_timers())
        recording = ProcessRecording(file)

        def read():
            recording.update({})
            return read_record_file(file.path)

        yield read
        recording.update({})
        file.close()

    return run


def counts(tree):
    return {key: child.statistics.count for key, child in tree.children.items()}


def work(name="x"):
    with timers.hierarchical_timer(name), timers.hierarchical_timer("inner"):
        timers.set_gauge("g", 1)


def test_of_two_sessions_in_turn_each_has_its_own_timers_and_gauges(tmp_path):
    for number in (1, 2):
        with profile_session(tmp_path):
            work(f"of session {number}")
            work()
        record = read_session(tmp_path).processes[0]
        assert counts(record.trees["timers"]) == {f"of session {number}": 1, "x": 1}
        assert counts(record.trees["timers"].children["x"]) == {"inner": 1}
        assert record.gauges["g"].count == 2
        assert EARLIER_TIMERS not in record.metadata
    document = timers.get_timer_tree()
    assert (document["children"]["x"]["count"], document["gauges"]["g"]["count"]) == (2, 4), "it has all of them"


def test_the_time_of_the_timers_counts_from_the_begin_of_the_recording(record):
    for _ in range(100):
        work()
    before = timers.get_timer_tree()
    with record() as read:
        work()
        tree = read().trees["timers"]
    assert tree.statistics.count == tree.children["x"].statistics.count == 1
    assert tree.statistics.total_ns < (timers.get_timer_tree()["total"] - before["total"]) * 1e9
    statistics = tree.children["x"].statistics
    assert sum(statistics.histogram.values()) == 1
    assert statistics.min_ns <= statistics.total_ns <= statistics.max_ns * 17 / 16


def test_a_timer_that_is_open_when_a_recording_begins_counts_with_its_time_since(record):
    with timers.hierarchical_timer("main"):
        work()
        with record() as read:
            work()
            tree = read().trees["timers"]
        assert counts(tree) == {"main": 1}
        assert counts(tree.children["main"]) == {"x": 1}
        assert tree.children["main"].statistics.total_ns <= tree.statistics.total_ns
    assert timers.get_timer_tree()["children"]["main"]["children"]["x"]["count"] == 2


def test_after_a_reset_nothing_is_taken_off(record):
    for _ in range(3):
        work()
    with record() as read:
        timers.reset_timers()
        work()
        assert counts(read().trees["timers"]) == {"x": 1}


def test_threads_that_go_on_count_from_there_and_those_that_are_over_not_at_all(record):
    go_on = [threading.Event() for _ in range(2)]
    done = [threading.Event() for _ in range(3)]

    def work_on():
        for step in range(3):
            work()
            done[step].set()
            if step < 2:
                go_on[step].wait()

    over = threading.Thread(target=work)
    over.start()
    over.join()
    thread = threading.Thread(target=work_on, daemon=True)
    thread.start()
    done[0].wait()
    for step in (1, 2):
        with record() as read:
            go_on[step - 1].set()
            done[step].wait()
            if step == 2:
                thread.join()
            trees = {name: counts(tree) for name, tree in read().trees.items() if tree.children}
            assert trees == {"timers.1": {"x": 1}}
    assert timers.get_timer_tree()["children"]["threads"]["children"]["x"]["count"] == 4


def test_of_more_threads_than_have_trees_of_their_own_each_counts_from_there(record):
    num_threads = 35
    barrier = threading.Barrier(num_threads + 1, timeout=20)

    def work_on():
        for _ in range(3):
            work()
            barrier.wait()
            barrier.wait()

    threads = [threading.Thread(target=work_on, daemon=True) for _ in range(num_threads)]
    for thread in threads:
        thread.start()
    barrier.wait()
    for _ in range(2):
        with record() as read:
            barrier.wait()
            barrier.wait()
            trees = read().trees
            assert sum(tree.children["x"].statistics.count for tree in trees.values() if tree.children) == num_threads
            assert trees["timers.others"].children["x"].statistics.count == num_threads - 32
    barrier.wait()
    for thread in threads:
        thread.join()


def test_what_is_left_of_extremes_is_as_near_as_the_histogram_tells():
    tree, earlier = TreeNode(), TreeNode()
    block = tree.children["block"] = TreeNode("block")
    former = earlier.children["block"] = TreeNode("block")
    former.statistics.add([1, 10**9])
    block.statistics.add([1, 10**9, 1000, 2000])
    take_off(tree, earlier)
    left = block.statistics
    assert (left.count, left.total_ns, sum(left.histogram.values())) == (2, 3000, 2)
    assert left.min_ns == pytest.approx(1000, rel=1 / 16)
    assert left.max_ns == pytest.approx(2000, rel=1 / 16)


@pytest.mark.parametrize("text", ["[]", "{", '{"5": 7}', '{"x": {}}'])
def test_earlier_timers_that_are_none_are_told_as_a_damaged_file(tmp_path, text):
    path = tmp_path / "main.1.rec"
    RecordFile(path, process_name="main", ring_bytes=0, metadata={EARLIER_TIMERS: text}).close()
    with pytest.raises(RecordError, match="is damaged"):
        read_record_file(path)


def test_a_file_of_a_process_without_earlier_timers_tells_of_none():
    assert describe_earlier_timers() == {}
    work()
    assert len(json.loads(describe_earlier_timers()[EARLIER_TIMERS])) == 1
