"""What a record file shows of the timers of threads: rules ML13 and ML14 as seen from outside of the process."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading

import pytest

from sample_profiler import timers
from sample_profiler.errors import TimingError
from sample_profiler.profiling import Timing
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.profiling.recorder.choice import ENVIRONMENT_VARIABLE
from sample_profiler.profiling.recording import further_threads
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.recording.process import ProcessRecording
from sample_profiler.profiling.timers import nodes as timer_nodes
from sample_profiler.profiling.timers.documents import worker_timers
from sample_profiler.profiling.timers.stacks import TimerStack


@pytest.fixture(autouse=True)
def _fresh_timers():
    timers.reset_timers()
    yield
    timers.reset_timers()


@pytest.fixture
def process(tmp_path):
    file = RecordFile(tmp_path / "main.1.rec", process_name="main", ring_bytes=0)
    file.attach(Timing("main"), "main")
    yield ProcessRecording(file), file
    file.close()


@pytest.fixture
def process_of_twin(make_timing, monkeypatch, process):
    """A process whose timers are recorded by each of the recorders in turn."""
    recording, file = process
    file.attach(Timing(), "timers")  # lets the timers go, so that a reset begins with another recorder
    for module in (timer_nodes, further_threads):
        monkeypatch.setattr(module, "Timing", make_timing)
    timers.reset_timers()
    recording.update({})
    yield process
    file.attach(Timing(), "timers")
    monkeypatch.undo()


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def help_out():
    with timers.hierarchical_timer("fetch"), timers.hierarchical_timer("decode"):
        timers.set_gauge("queue", 3)


def read(file):
    record = read_record_file(file.path)
    (worker,) = worker_timers(record)
    return record, worker


def test_ml13_ml14_timers_and_gauges_of_threads_are_shown(process):
    recording, file = process
    with timers.hierarchical_timer("fetch"):
        pass
    for _ in range(2):
        in_thread(help_out)
        gc.collect()
    recording.update({})
    record, worker = read(file)
    assert record.components == ["main"]
    assert worker.gauges["queue"].value == 3.0
    assert worker.root.children["fetch"].count == 1, "the main thread's own"
    threads = worker.root.children["threads"]
    assert (threads.count, threads.is_parallel) == (2, True)
    assert threads.children["fetch"].count == threads.children["fetch"].children["decode"].count == 2


def test_ml14_a_thread_s_time_is_that_to_its_end(process):
    recording, file = process
    in_thread(help_out)
    recording.update({})
    totals = [read(file)[1].root.children["threads"].total for _ in range(2)]
    assert totals[0] == totals[1] > 0
    assert totals[0] == pytest.approx(timers.get_timer_tree()["children"]["threads"]["total"], abs=0.01)


def test_ml13_a_killed_process_loses_no_thread_that_began_after_the_last_update(process):
    recording, file = process
    recording.update({})
    in_thread(help_out)
    file.flush()  # what the recorder in pure Python does now and then, and the compiled one need not
    assert read(file)[1].root.children["threads"].children["fetch"].count == 1


def test_a_thread_that_goes_on_is_shown_after_a_reset_too(process):
    recording, file = process
    go_on, has_begun = threading.Event(), threading.Event()

    def work():
        help_out()
        has_begun.set()
        go_on.wait()
        help_out()
        timers.set_gauge("queue", 5)

    thread = threading.Thread(target=work)
    thread.start()
    has_begun.wait()
    timers.reset_timers()
    recording.update({})
    go_on.set()
    thread.join()
    recording.update({})
    _, worker = read(file)
    assert worker.root.children["threads"].children["fetch"].count == 1
    assert worker.gauges["queue"].value == 5.0


def test_ml14_further_threads_are_added_up_and_take_no_room_from_the_components(process_of_twin, caplog):
    recording, file = process_of_twin
    go_on, have_begun = threading.Event(), threading.Semaphore(0)

    def begin_and_go_on():
        help_out()
        have_begun.release()
        go_on.wait()
        for _ in range(2):
            help_out()

    for _ in range(40):
        in_thread(help_out)
    others = [threading.Thread(target=begin_and_go_on) for _ in range(2)]
    for thread in others:
        thread.start()
        have_begun.acquire()
    recording.update({})
    _, worker = read(file)
    threads = worker.root.children["threads"]
    assert (threads.count, threads.children["fetch"].children["decode"].count) == (42, 42)
    num_slots = len(read(file)[0].paths)
    go_on.set()
    for thread in others:
        thread.join()
    for _ in range(5):
        in_thread(help_out)
    for _ in range(2):
        recording.update({})
    threads = read(file)[1].root.children["threads"]
    assert (threads.count, threads.children["fetch"].count) == (47, 51)
    document = timers.get_timer_tree()["children"]["threads"]
    assert (document["count"], document["children"]["fetch"]["count"]) == (47, 51)
    assert threads.total == pytest.approx(document["total"], abs=0.05)
    assert len(read(file)[0].paths) == num_slots
    assert caplog.messages == []


def test_ml17_further_threads_that_are_reset_begin_anew(process_of_twin):
    recording, file = process_of_twin
    go_on, has_begun = threading.Event(), threading.Event()

    def begin_and_go_on():
        for name in ("before", "both"):
            with timers.hierarchical_timer(name):
                pass
        recording.update({})
        assert set(read(file)[1].root.children["threads"].children) == {"fetch", "before", "both"}
        timers.reset_timers()
        has_begun.set()
        go_on.wait()
        with timers.hierarchical_timer("both"):
            pass

    for _ in range(32):
        in_thread(help_out)
    thread = threading.Thread(target=begin_and_go_on)
    thread.start()
    has_begun.wait()
    go_on.set()
    thread.join()
    recording.update({})
    threads = read(file)[1].root.children["threads"]
    assert {name: child.count for name, child in threads.children.items()} == {"fetch": 32, "both": 1}


def test_of_two_record_files_one_has_a_thread_and_both_let_it_go(process, tmp_path):
    recording, file = process
    other_file = RecordFile(tmp_path / "other.1.rec", process_name="other", ring_bytes=0)
    other_file.attach(Timing("other"), "other")
    other = ProcessRecording(other_file)
    in_thread(help_out)
    for each in (other, recording, other, recording):
        each.update({})
    shown = [read(each)[1].root.children for each in (file, other_file)]
    other_file.close()
    (threads,) = [children["threads"] for children in shown if "threads" in children]
    assert threads.children["fetch"].count == 1


class _LockThatLetsAnotherThreadIn:
    """Lets `enter` run as soon as it is free for the first time."""

    def __init__(self, enter):
        self._lock, self._enter = threading.Lock(), enter

    def __enter__(self):
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()
        enter, self._enter = self._enter, lambda: None
        enter()


@pytest.mark.parametrize("num_before", [31, 32])
def test_threads_that_come_at_once_are_counted_one_by_one(process, num_before):
    recording, _ = process
    stacks = [TimerStack() for _ in range(num_before + 2)]
    for stack in stacks[:num_before]:
        recording.add_stack(stack)
    recording._lock = _LockThatLetsAnotherThreadIn(lambda: recording.add_stack(stacks[-1]))
    recording.add_stack(stacks[-2])
    assert [stack.recording.timing.is_shown for stack in stacks[:32]] == [True] * 32
    assert sum(stack in recording._further for stack in stacks) == num_before + 2 - 32


def test_a_thread_that_is_over_before_the_next_update_keeps_what_it_did_after_a_reset(process):
    recording, file = process
    go_on, has_begun = threading.Event(), threading.Event()

    def work():
        help_out()
        has_begun.set()
        go_on.wait()
        help_out()
        help_out()

    thread = threading.Thread(target=work)
    thread.start()
    has_begun.wait()
    recording.update({})
    timers.reset_timers()
    go_on.set()
    thread.join()
    recording.update({})
    threads = read(file)[1].root.children["threads"]
    assert (threads.count, threads.children["fetch"].count) == (1, 2)
    assert threads.total == read(file)[1].root.children["threads"].total, "it is over"


def test_blocks_of_threads_leave_room_for_those_of_the_components(tmp_path):
    def work():
        for number in range(20):
            with timers.hierarchical_timer(f"block {number}"):
                pass

    timing = Timing("main")
    with contextlib.closing(RecordFile(tmp_path / "main.1.rec", process_name="main", ring_bytes=0)) as file:
        file.attach(timing, "main")
        recording = ProcessRecording(file)
        for _ in range(30):
            in_thread(work)
        recording.update({})
        for number in range(200):
            with timing.add_time(f"late {number}"):
                pass
        with timers.hierarchical_timer("of the main thread"):
            pass
        recording.update({})
        record, worker = read(file)
    assert set(record.trees["main"].children) == {f"late {number}" for number in range(200)}
    assert worker.root.children["of the main thread"].count == 1
    # Half of the slots are 256: with two roots in them, that many are left for the threads' 20 blocks and root each.
    assert worker.root.children["threads"].children
    assert record.num_nodes_dropped == 30 * 21 - (256 - 2)


def play_episode():
    with timers.hierarchical_timer("episode"):
        for name in ("reset", "step", "reward", "render"):
            with timers.hierarchical_timer(name):
                pass


def test_ml17_timers_that_are_reset_again_and_again_take_no_further_room(process_of_twin):
    recording, file = process_of_twin
    num_paths = []
    for _ in range(120):
        play_episode()
        timers.reset_timers()
        recording.update({})
        num_paths.append(len(read(file)[0].paths))
    play_episode()
    recording.update({})
    late = Timing("late")
    file.attach(late, "late")
    with late.add_time("block"):
        pass
    recording.update({})
    record = read_record_file(file.path)
    assert len(set(num_paths)) == 1, num_paths
    assert record.num_nodes_dropped == 0
    assert record.trees["late"].children["block"].statistics.count == 1
    episode = record.trees["timers"].children["episode"]
    assert (episode.statistics.count, len(episode.children)) == (1, 4)


def test_ml17_a_reset_inside_an_open_block_leaves_none_open_in_the_file(process_of_twin):
    recording, file = process_of_twin
    with timers.hierarchical_timer("outer"):
        recording.update({})
        assert [block.path for block in read(file)[0].open_blocks] == [("outer",)]
        timers.reset_timers()
        with timers.hierarchical_timer("inner"):
            recording.update({})
            assert [block.path for block in read(file)[0].open_blocks] == [("inner",)]
    recording.update({})
    record, worker = read(file)
    assert record.open_blocks == []
    assert worker.root.children["inner"].count == 1
    assert list(worker.root.children) == ["inner"]


def test_ml13_timers_after_a_reset_are_in_the_file_before_the_next_update(process_of_twin):
    recording, file = process_of_twin
    play_episode()
    recording.update({})
    timers.reset_timers()
    with timers.hierarchical_timer("after"):
        pass
    file.flush()  # what the recorder in pure Python does now and then, and the compiled one need not
    assert list(read(file)[1].root.children) == ["after"]


def values(gauge):
    return gauge.value, gauge.min_value, gauge.max_value, gauge.count


def test_ml13_gauges_are_in_the_file_before_the_next_update(process):
    _, file = process
    for number, value in enumerate((5, 1, 3), 1):
        timers.set_gauge("loss", value)
        assert values(read(file)[0].gauges["loss"])[::3] == (value, number)
    in_thread(lambda: timers.set_gauge("loss", 9))
    timers.merge_gauges({"lag": timers.GaugeNode(2.0), "none": timers.GaugeNode()})
    timers.merge_gauges({"lag": timers.GaugeNode(1.0)})
    timers.set_gauge("nothing", float("nan"))
    gauges = read(file)[0].gauges
    assert values(gauges["loss"]) == (9.0, 1.0, 9.0, 4)
    assert values(gauges["lag"]) == (1.0, 1.0, 2.0, 2)
    assert not {"nothing", "none"} & set(gauges)


KILLED_PROGRAM = """
import os, signal, sys

from sample_profiler import timers
from sample_profiler.profiling.recording.process import ProcessRecording
from sample_profiler.profiling.recording.file import RecordFile

file = RecordFile(sys.argv[1], process_name="main", ring_bytes=0)
recording = ProcessRecording(file)
for value in (5, 1, 3):
    timers.set_gauge("loss", value)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("is_pure", ["0", "1"])
def test_ml13_a_killed_process_loses_no_value_of_a_gauge(is_pure, tmp_path):
    path = tmp_path / "main.1.rec"
    environment = {**os.environ, ENVIRONMENT_VARIABLE: is_pure}
    subprocess.run([sys.executable, "-c", KILLED_PROGRAM, str(path)], env=environment, timeout=60)
    assert values(read_record_file(path).gauges["loss"]) == (3.0, 1.0, 5.0, 3)


def test_a_gauge_set_in_a_signal_handler_amid_another_write_is_written_by_the_next_update(process):
    recording, file = process
    timers.set_gauge("loss", 1)
    file._memory.begin()
    timers.set_gauge("loss", 2)
    file._memory.end()
    assert values(read(file)[0].gauges["loss"]) == (1.0, 1.0, 1.0, 1)
    recording.update({})
    assert values(read(file)[0].gauges["loss"]) == (2.0, 1.0, 2.0, 2)


def test_ml17_a_gauge_begins_anew_when_a_thread_that_has_set_it_resets_its_timers(process):
    recording, file = process

    def set_and_reset():
        timers.set_gauge("queue", 9)
        timers.reset_timers()
        timers.set_gauge("queue", 4)

    in_thread(lambda: timers.set_gauge("rows", 7))
    in_thread(set_and_reset)
    assert values(read(file)[0].gauges["queue"]) == (4.0, 4.0, 4.0, 1)
    timers.set_gauge("loss", 1)
    recording.update({"fps": 100.0})
    timers.reset_timers()
    recording.update({"fps": 200.0})
    for name in ("loss", "queue", "rows"):
        timers.set_gauge(name, 2)
    gauges = read(file)[0].gauges
    assert {name: values(gauges[name]) for name in ("loss", "queue", "rows")} == dict.fromkeys(
        ("loss", "queue", "rows"), (2.0, 2.0, 2.0, 1)
    )
    assert values(gauges["fps"]) == (200.0, 100.0, 200.0, 2), "it is none of the timers'"


def test_the_first_number_of_a_gauge_is_written_at_once_though_it_was_set_to_nan_before(process):
    _, file = process
    for value in (float("nan"), 2):
        timers.set_gauge("loss", value)
    timers.merge_gauges({"lag": timers.GaugeNode()})
    timers.merge_gauges({"lag": timers.GaugeNode(3.0)})
    gauges = read(file)[0].gauges
    assert (gauges["loss"].value, gauges["lag"].value) == (2.0, 3.0)


def test_a_refused_gauge_does_not_end_the_recording_later(process):
    recording, file = process
    with pytest.raises(TimingError, match="the name of a gauge is 5"):
        timers.set_gauge(5, 1.0)
    timers.set_gauge("loss", 2.0)
    recording.update({})
    assert read(file)[0].gauges["loss"].value == 2.0


def test_gauges_may_be_set_after_the_file_is_closed_and_in_a_forked_child(process):
    _, file = process
    timers.set_gauge("loss", 1)
    pid = os.fork()
    if not pid:
        timers.set_gauge("loss", 2)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert read(file)[0].gauges["loss"].value == 1.0
    file.close()
    timers.set_gauge("loss", 3)
    assert read(file)[0].gauges["loss"].value == 1.0


def test_gauges_that_several_threads_set_end_with_the_last_value(process):
    _, file = process

    def work():
        for value in range(300):
            timers.set_gauge("loss", value)

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval_s)
    assert read(file)[0].gauges["loss"].count == 900


def test_blocks_for_which_there_is_no_room_are_told_of_once(tmp_path, caplog):
    timing = Timing("main")
    options = {"process_name": "main", "ring_bytes": 0, "num_slots": 8}
    with contextlib.closing(RecordFile(tmp_path / "main.1.rec", **options)) as file:
        file.attach(timing, "main")
        recording = ProcessRecording(file)
        for _ in range(3):
            for number in range(20):
                with timing.add_time(f"block {number}"):
                    pass
            recording.update({})
    (message,) = caplog.messages
    assert message.startswith("14 blocks are missing from the records of main, whose file is full")
    assert read_record_file(file.path).problems == [message]
