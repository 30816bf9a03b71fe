"""Record files as both recorders write them: what is in them, what does not fit, and who writes to them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from sample_profiler.errors import TimingError
from sample_profiler.profiling import Timing
from sample_profiler.profiling.record import format as layout
from sample_profiler.profiling.record.flows import END, SLOT, START, STEP, flow_point
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.profiling.record.writer import RecordMemory
from sample_profiler.profiling.recorder.choice import TWIN
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.timers.nodes import Recording
from sample_profiler.profiling.timers.stacks import TimerStack


@pytest.fixture
def make_file(tmp_path):
    files = []

    def make(name="Work.rec", **options):
        files.append(RecordFile(tmp_path / name, **{"process_name": "Work", "ring_bytes": 1 << 16, **options}))
        return files[-1]

    yield make
    for file in files:
        file.close()


def read(file, **options):
    file.flush()
    return read_record_file(file.path, **{"with_events": True, **options})


def spend(timing, *keys):
    """Pass through blocks inside each other."""
    if keys:
        with timing.add_time(keys[0]):
            spend(timing, *keys[1:])


def counts(tree, path=()):
    """Return how often each block was passed, by path."""
    found = {}
    for key, child in tree.children.items():
        found |= {(*path, key): child.statistics.count, **counts(child, (*path, key))}
    return found


def events_by_path(record):
    return Counter(record.paths[event.node] for event in record.events if not event.is_flow_point)


def test_several_timings_are_trees_of_one_file(make_file, make_timing):
    file, first, second = make_file(), make_timing("First title"), make_timing("Second title")
    spend(first, "a", "b")
    file.attach(first, "First")
    file.attach(second, "Second")
    for _ in range(3):
        spend(first, "a", "b")
        spend(second, "a")
    record = read(file)
    assert record.titles == {"First": "First title", "Second": "Second title"}
    assert counts(record.trees["First"]) == {("a",): 4, ("a", "b"): 4}
    assert counts(record.trees["Second"]) == {("a",): 3}
    paths = events_by_path(record)
    assert (paths["First", "a"], paths["First", "a", "b"], paths["Second", "a"]) in ((3, 3, 3), (4, 4, 3))
    assert record.num_nodes_dropped == record.num_events_lost == 0


def test_a_link_in_the_way_is_not_followed(make_file, tmp_path):
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    for name in ("Work.rec", ".Work.rec.new"):
        (tmp_path / name).symlink_to(precious)
    file = make_file()
    assert (precious.read_text(), file.path.is_symlink()) == ("mine", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Work.rec", "precious.txt"]


def test_what_a_killed_process_has_left_is_no_hindrance(make_file, tmp_path):
    (tmp_path / ".Work.rec.new").write_text("half")
    assert read(make_file()).name == "Work"


def test_what_is_in_the_file_is_what_the_timing_says(make_file, make_timing, clock):
    file, timing = make_file(), make_timing("Test", clock_ns=clock)
    file.attach(timing, "Work")
    for method, seconds in (("add_time", 0.5), ("timeit", 0.25), ("time_avg", 2.0)):
        for factor in range(1, 15):
            clock.spend(timing, method, seconds * factor, method)
    timing.record("recorded", clock.now_ns - 7, clock.now_ns)
    found, expected = read(file, now_ns=clock.now_ns).trees["Work"], timing.snapshot()
    assert found.children.keys() == expected.children.keys()
    for key, node in expected.children.items():
        assert found.children[key].kind == node.kind
        assert found.children[key].to_dict() == node.to_dict()


@pytest.mark.parametrize("is_attached_first", [True, False])
def test_what_is_merged_is_in_the_file(make_file, make_timing, clock, is_attached_first):
    file, timing, worker = make_file(), make_timing("Test", clock_ns=clock), make_timing("Worker", clock_ns=clock)
    if is_attached_first:
        file.attach(timing, "Work")
    for seconds in range(1, 5):
        clock.spend(timing, "both", seconds)
        for method in ("add_time", "timeit"):
            clock.spend(worker, method, 2 * seconds, method)
    clock.spend(worker, "both", 0.5)
    spend(worker, "outer", "inner")
    timing.merge(worker)
    timing.merge(type(timing).from_dict(worker.to_dict()), is_parallel=False)
    if not is_attached_first:
        file.attach(timing, "Work")
    clock.spend(timing, "both", 7.0)
    clock.spend(timing, "timeit", 7.0, "timeit")
    found, expected = read(file, now_ns=clock.now_ns).trees["Work"], timing.snapshot()
    assert {key: child.to_dict() for key, child in found.children.items()} == {
        key: child.to_dict() for key, child in expected.children.items()
    }
    assert counts(found) == {("both",): 7, ("add_time",): 8, ("timeit",): 9, ("outer",): 2, ("outer", "inner"): 2}
    assert found.statistics.count == 1, "its root is the time since its start, whatever was merged"
    assert found.statistics.total_ns == clock.now_ns - timing._recorder.start_ns
    assert found.children["both"].is_parallel
    assert (found.children["both"].statistics.min_ns, found.children["both"].statistics.total_ns) == (
        5 * 10**8,
        18 * 10**9,
    )


@pytest.mark.parametrize("window", [3, 50])
def test_of_windows_that_are_merged_the_file_has_the_latest_passes(make_file, make_timing, clock, window):
    file, timing, worker = make_file(), make_timing("Test", clock_ns=clock), make_timing("Worker", clock_ns=clock)
    file.attach(timing, "Work")
    for seconds in range(1, 60):
        with worker.time_avg("average", average=window):
            clock.pass_s(seconds)
    timing.merge(worker)
    kept = min(window, layout.NUM_RECENT)
    recent_ns = [seconds * 10**9 for seconds in range(60 - kept, 60)]
    assert read(file).trees["Work"].children["average"].statistics.recent_ns == recent_ns
    with timing.time_avg("average", average=window):
        clock.pass_s(100)
    assert timing.snapshot().children["average"].statistics.count == 60
    assert len(timing.snapshot().children["average"].statistics.recent_ns) == window + 1
    recent_ns = [*recent_ns[1:], 100 * 10**9]
    assert read(file).trees["Work"].children["average"].statistics.recent_ns == recent_ns


def test_device_time_that_is_merged_is_in_the_file(make_file, make_timing):
    file, timing, worker = make_file(), make_timing(), make_timing()
    file.attach(timing, "Work")
    spend(worker, "forward")
    worker.add_device_time(("forward",), 500)
    worker.add_unresolved(("forward",), 2)
    timing.merge(worker)
    device = read(file).trees["Work"].children["forward"].device
    assert (device.count, device.total_ns, device.num_unresolved) == (1, 500, 2)


def test_what_is_merged_into_timers_is_in_the_file(make_file, make_timing, clock):
    file, stack, worker = make_file(), TimerStack(clock_ns=clock), TimerStack(clock_ns=clock)
    for each in (stack, worker):
        each.recording = Recording(clock_ns=clock, timing=make_timing("Timers", clock_ns=clock))
    file.attach(stack.recording.timing, "timers")
    spend(stack.recording.timing, "mine", "inner")
    spend(worker.recording.timing, "theirs")
    stack.root.merge(worker.root, root_name="workers")
    stack.root.children["mine"].merge(worker.root, root_name="below")
    stack.root.merge(worker.root)
    expected = {
        **{("mine",): 1, ("mine", "inner"): 1, ("mine", "below"): 1, ("mine", "below", "theirs"): 1},
        **{("workers",): 1, ("workers", "theirs"): 1, ("theirs",): 1},
    }
    tree = read(file, now_ns=clock.now_ns).trees["timers"]
    assert counts(tree) == counts(stack.root.to_tree()) == expected
    assert tree.children["workers"].is_parallel and not tree.children["mine"].is_parallel
    assert (tree.statistics.count, stack.root.count) == (1, 1)


def test_a_backdated_root_counts_from_its_new_start(make_file, make_timing, clock):
    file, timing = make_file(), make_timing("Test", clock_ns=clock)
    file.attach(timing, "Work")
    timing.backdate(clock.now_ns - 3_000_000_000)
    clock.pass_s(1.0)
    root = read(file, now_ns=clock.now_ns).trees["Work"]
    assert root.statistics.total_ns == 4_000_000_000
    assert root.children["start_up"].statistics.total_ns == 3_000_000_000


def test_gauges_are_in_the_file(make_file):
    file = make_file()
    for value in (2.0, 8.0, float("nan"), 5.0):
        file.set_gauge("fps", value)
    gauge = read(file).gauges["fps"]
    assert (gauge.value, gauge.min_value, gauge.max_value, gauge.count) == (5.0, 2.0, 8.0, 3)


def test_gauges_for_which_there_is_no_room_are_left_out_and_told_of_once(make_file, caplog):
    file = make_file()
    for number in range(200):
        file.set_gauge(f"gauge {number}", number)
        file.set_gauge(f"gauge {number}", number + 1)
    gauges = read(file).gauges
    assert len(gauges) == 128
    assert gauges["gauge 127"].value == 128
    (message,) = caplog.messages
    assert "The gauge 'gauge 128' of Work is not recorded" in message and "room for 128 gauges" in message


def test_a_ring_that_has_gone_round_holds_the_latest_passes_in_order(make_file, make_timing):
    file, timing = make_file(ring_bytes=100 * layout.EVENT.size), make_timing()
    file.attach(timing, "Work")
    for _ in range(1234):
        spend(timing, "a")
    record = read(file)
    assert record.num_events_lost + len(record.events) == 1234
    assert len(record.events) >= 99  # the oldest may be half overwritten
    ends = [event.end_ns for event in record.events]
    assert ends == sorted(ends)
    assert record.trees["Work"].children["a"].statistics.count == 1234


def test_flow_points_lie_in_the_innermost_open_block(make_file, make_timing):
    file, timing = make_file(), make_timing()
    file.attach(timing, "Work")
    numbers = [flow_point(phase, SLOT, 7) for phase in (START, STEP, END)]
    with timing.add_time("outer"):
        timing.mark_flow(numbers[0])
        with timing.timeit("inner"):
            timing.mark_flow(numbers[1])
    timing.mark_flow(numbers[2])
    record = read(file)
    points = [(record.paths[event.node], event.flow) for event in record.events if event.is_flow_point]
    paths = [("Work", "outer"), ("Work", "outer", "inner"), ("Work",)]
    assert points == list(zip(paths, numbers, strict=True))
    inner = next(event for event in record.events if record.paths[event.node][-1] == "inner" and event.end_ns)
    point = next(event for event in record.events if event.flow == numbers[1])
    assert inner.start_ns <= point.start_ns <= inner.end_ns


def test_without_a_ring_there_are_trees_and_no_events(make_file, make_timing):
    file, timing = make_file(ring_bytes=0), make_timing()
    file.attach(timing, "Work")
    for _ in range(200):
        spend(timing, "a", "b")
    timing.mark_flow(flow_point(START, SLOT, 7))
    record = read(file)
    assert (record.events, record.num_events_lost) == ([], 0)
    assert counts(record.trees["Work"]) == {("a",): 200, ("a", "b"): 200}


def test_a_timing_attached_anew_takes_the_place_of_the_one_before(make_file, make_timing):
    file, before, after = make_file(), make_timing("Before"), make_timing("After")
    file.attach(before, "Work")
    spend(before, "a")
    file.attach(after, "Work")
    spend(before, "a")
    spend(after, "b")
    record = read(file)
    assert record.titles == {"Work": "After"}
    assert counts(record.trees["Work"]) == {("b",): 1}
    assert before.snapshot().children["a"].statistics.count == 2


def test_a_timing_attached_twice_under_one_name_goes_on(make_file, make_timing):
    file, timing = make_file(), make_timing()
    for _ in range(3):
        file.attach(timing, "Work")
        spend(timing, "a")
    assert counts(read(file).trees["Work"]) == {("a",): 3}


def test_a_timing_has_one_place_and_a_refused_one_changes_nothing(make_file, make_timing):
    file, other, timing = make_file(), make_file("Other.rec"), make_timing("Test")
    file.attach(timing, "Work")
    with pytest.raises(TimingError, match="'Test' is shown as 'Work' already, and cannot be shown as 'Twice', too"):
        file.attach(timing, "Twice")
    with pytest.raises(TimingError, match=r"'Test' is shown by another record file already.*close that file first"):
        other.attach(timing, "Work")
    spend(timing, "a")
    assert counts(read(file).trees["Work"]) == {("a",): 1}
    assert read(file).trees.keys() == {"Work"}
    file.close()
    other.attach(timing, "Work")
    assert counts(read(other).trees["Work"]) == {("a",): 1}


def test_blocks_beyond_the_slots_are_counted_and_the_tree_is_whole(make_file, make_timing):
    file, timing = make_file(num_slots=6), make_timing()
    file.attach(timing, "Work")
    with timing.add_time("outer"):
        for number in range(8):
            spend(timing, f"key {number}", "inner")
    record = read(file)
    # The root, outer, and two pairs fit.
    shown = {("outer",): 1} | {
        path: 1 for number in range(2) for path in (("outer", f"key {number}"), ("outer", f"key {number}", "inner"))
    }
    assert counts(record.trees["Work"]) == shown
    assert record.num_nodes_dropped == 12
    assert counts(timing.snapshot()) == shown | {
        path: 1 for number in range(2, 8) for path in (("outer", f"key {number}"), ("outer", f"key {number}", "inner"))
    }
    assert set(events_by_path(record)) == {("Work", *path) for path in shown}


def test_a_timing_that_leaves_room_takes_the_first_half_of_the_slots_only(make_file, make_timing):
    file, modest, other = make_file(num_slots=8), make_timing(), make_timing()
    file.attach(modest, "Modest", leaves_room=True)
    file.attach(other, "Other")
    for number in range(5):
        spend(modest, f"key {number}")
    file.flush()
    for number in range(5):
        spend(other, f"key {number}")
    record = read(file)
    assert counts(record.trees["Other"]) == {(f"key {number}",): 1 for number in range(4)}
    assert len(record.trees["Modest"].children) == 2
    assert record.num_nodes_dropped == 3 + 1


def test_blocks_for_whose_names_there_is_no_room_are_counted(make_file, make_timing):
    file, timing = make_file(), make_timing()
    file.attach(timing, "Work")
    for number in range(20):
        spend(timing, f"{number:07}" + 8000 * "x")
    spend(timing, "short")
    record = read(file)
    assert len(record.trees["Work"].children) == 9  # eight of them, and the short one
    assert record.num_nodes_dropped == 12
    assert all(record.paths)
    assert len(timing.snapshot().children) == 21


def test_names_may_be_any_strings(make_file, make_timing):
    file, timing = make_file(), make_timing("Tïtle ✓")
    file.attach(timing, "Wörk")
    for key in ("", "schlüssel", "鍵", "\ud800 alone", "with/slash\n"):
        spend(timing, key)
    record = read(file)
    assert record.titles == {"Wörk": "Tïtle ✓"}
    assert set(record.trees["Wörk"].children) == {"", "schlüssel", "鍵", "? alone", "with/slash\n"}


def test_the_header_tells_of_the_process(make_file):
    file = make_file(metadata={"lang": "de", "ünicode": "✓" * 20_000}, process_started_ns=42)
    record = read(file)
    assert (record.name, record.pid, record.process_started_ns) == ("Work", os.getpid(), 42)
    assert record.metadata["lang"] == "de"
    assert len(record.metadata["ünicode"]) == 20_000
    assert not record.is_closed
    file.close()
    record = read_record_file(file.path)
    assert record.is_closed
    assert record.end_anchor.monotonic_ns <= time.perf_counter_ns()


def test_a_timing_records_on_after_its_file_is_closed(make_file, make_timing):
    file, timing = make_file(), make_timing()
    file.attach(timing, "Work")
    spend(timing, "a")
    with timing.add_time("open"):
        file.close()
        file.close()
        file.flush()
        file.set_gauge("fps", 1.0)
        file.attach(timing, "Work")
        spend(timing, "b")
    spend(timing, "a")
    assert counts(timing.snapshot()) == {("a",): 2, ("open",): 1, ("open", "b"): 1}
    record = read_record_file(file.path, with_events=True)
    assert record.is_closed
    assert counts(record.trees["Work"]) == {("a",): 1, ("open",): 1}
    assert [block.path for block in record.open_blocks] == [("open",)]


def test_a_dropped_file_leaves_its_timing_whole(tmp_path, make_timing):
    timing = make_timing()
    RecordFile(tmp_path / "Work.rec", process_name="Work").attach(timing, "Work")
    for _ in range(200):
        spend(timing, "a")
    assert counts(timing.snapshot()) == {("a",): 200}


def test_a_restarted_timing_keeps_its_slots_and_leaves_nothing_of_before_in_them(make_file, make_timing, clock):
    file, timing = make_file(), make_timing(clock_ns=clock)
    file.attach(timing, "Work")
    with timing.add_time("open"):
        for round in range(3):
            clock.pass_s(1.0)
            timing.restart()
            for _ in range(2 + round % 2):
                clock.spend(timing, "a", 1.0 + round)
            clock.spend(timing, "average", 0.5, "time_avg")
            timing.add_device_time(("a",), 7)
            record = read(file, now_ns=clock.now_ns)
            assert (record.num_nodes_dropped, record.open_blocks) == (0, [])
            tree, expected = record.trees["Work"], timing.snapshot()
            assert counts(tree) == {("a",): 2 + round % 2, ("average",): 1}
            for key, node in expected.children.items():
                assert tree.children[key].to_dict() == node.to_dict()
            assert tree.children["a"].device == expected.children["a"].device
            assert tree.statistics.total_ns == expected.statistics.total_ns
    assert sorted(record.paths) == [("Work",), ("Work", "a"), ("Work", "average"), ("Work", "open")]
    timing.restart()
    assert read(file, now_ns=clock.now_ns).trees["Work"].children == {}


def test_timers_that_were_reset_are_attached_anew(make_file):
    stack, file = TimerStack(), make_file()
    file.attach(stack.recording.timing, "timers")
    spend(stack.recording.timing, "before")
    stack.reset()
    file.attach(stack.recording.timing, "timers")
    spend(stack.recording.timing, "after")
    assert counts(read(file).trees["timers"]) == {("after",): 1}


def test_several_threads_and_timings_record_into_one_file_and_all_is_there(make_file, make_timing):
    num_threads, num_passes = 4, 300
    file = make_file(ring_bytes=1 << 20)
    timings = [make_timing(str(number)) for number in range(3)]
    for timing in timings:
        file.attach(timing, timing.name)
    interval_s = sys.getswitchinterval()
    is_over = threading.Event()

    def record(number):
        for index in range(num_passes):
            for timing in timings:
                with timing.add_time("shared"):
                    spend(timing, f"of thread {number}", f"key {index % 8}")
                timing.mark_flow(flow_point(STEP, SLOT, index))

    def flush():
        number = 0
        while not is_over.is_set():
            file.set_gauge(f"gauge {(number := number + 1) % 40}", 1.0)
            file.flush()

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=record, args=(number,)) for number in range(num_threads)]
        flusher = threading.Thread(target=flush)
        for thread in (flusher, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        is_over.set()
        flusher.join()
    finally:
        sys.setswitchinterval(interval_s)
    record = read(file)
    paths = events_by_path(record)
    for timing in timings:
        tree = record.trees[timing.name]
        expected = counts(timing.snapshot())
        assert counts(tree) == expected
        assert expected["shared",] == num_threads * num_passes
        assert len(expected) == 1 + num_threads * 9
        for path, count in expected.items():
            assert paths[(timing.name, *path)] == count
        assert tree.children["shared"].is_parallel
        assert all(sum(node.statistics.histogram.values()) == node.statistics.count for node in tree.walk())
    assert len([event for event in record.events if event.is_flow_point]) == 3 * num_threads * num_passes
    assert record.num_events_lost == record.num_nodes_dropped == 0
    assert len(set(record.paths)) == len(record.paths)
    assert set(record.gauges) <= {f"gauge {number}" for number in range(40)}


def test_another_thread_s_flush_brings_the_passes_of_a_thread_at_its_next_block(make_file, make_timing):
    """As for a script: few blocks a second, and a thread of the recording's that flushes now and then."""
    file, timing = make_file(), make_timing()
    file.attach(timing, "Work")
    with timing.add_time("outer"):
        for _ in range(3):
            spend(timing, "train", "step")
    spend(timing, "train")
    thread = threading.Thread(target=file.flush)
    thread.start()
    thread.join()
    spend(timing, "train")
    paths = events_by_path(read_record_file(file.path, with_events=True))
    assert paths["Work", "outer"] == 1
    assert paths["Work", "outer", "train"] == paths["Work", "outer", "train", "step"] == 3
    assert paths["Work", "train"] >= 1


def test_no_string_is_lost_between_two_that_add_them_at_once(make_file, make_timing):
    """The core adds names of nodes while Python adds those of gauges."""
    file, timing = make_file(num_slots=200), make_timing()
    file.attach(timing, "Work")
    interval_s = sys.getswitchinterval()

    def set_gauges():
        for number in range(100):
            file.set_gauge(f"gauge {number}", number)

    sys.setswitchinterval(1e-6)
    try:
        thread = threading.Thread(target=set_gauges)
        thread.start()
        for number in range(150):
            spend(timing, f"key {number}")
        thread.join()
    finally:
        sys.setswitchinterval(interval_s)
    record = read(file)
    assert set(record.trees["Work"].children) == {f"key {number}" for number in range(150)}
    assert {name: gauge.value for name, gauge in record.gauges.items()} == {f"gauge {n}": n for n in range(100)}


def test_a_write_amid_another_of_the_same_thread_is_left_out(make_file, tmp_path):
    """As by a signal handler that records a new block while the file is written."""
    memory = make_file()._memory
    assert isinstance(memory, RecordMemory)
    assert memory.begin()
    assert not memory.begin()
    memory.end()
    assert memory.begin()
    memory.end()


FORKING = """
import os, sys, time
def in_child():
    # Before any hook of the package; the parent goes on meanwhile.
    time.sleep(0.002)
    for _ in range(100):
        with timing.add_time("hook"): pass
os.register_at_fork(after_in_child=in_child)
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
def child_of():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        # The parent records at full speed meanwhile.
        time.sleep(0.01)
        for _ in range(200):
            with timing.add_time("child"): pass
            timing.mark_flow(7)
        statistics = timing.snapshot().children["open"].children["a"].statistics
        file.flush(); file.set_gauge("fps", 1.0); file.attach(Timing(), "more"); file.close()
        os.write(write, f"{statistics.count} {sum(statistics.histogram.values())}".encode())
        os._exit(0)
    end_s = time.perf_counter() + 0.03
    num = 0
    while time.perf_counter() < end_s:
        with timing.add_time("later"):
            with timing.add_time("a"): pass
        with timing.add_time("a"): pass
        num += 1
    assert os.waitpid(pid, 0)[1] == 0
    told = os.read(read, 99).decode().split()
    os.close(read); os.close(write)
    return num, [int(number) for number in told]
for round in range(10):
    timing = Timing("T")
    file = RecordFile(sys.argv[1], process_name="p", ring_bytes=1 << 20)
    file.attach(timing, "C")
    with timing.add_time("open"):
        for _ in range(100):
            with timing.add_time("a"): pass
        num, told = child_of()
    file.close()
    assert told == [100, 100], told
    tree = timing.snapshot()
    assert set(tree.children) == {"open"}, set(tree.children)
    assert tree.children["open"].children["a"].statistics.count == 100 + num
print("done")
"""


@pytest.fixture(params=["compiled", "pure Python"])
def environment(request):
    environment = {**os.environ, "SAMPLE_PROFILER_PURE_PYTHON": "1" if request.param == "pure Python" else ""}
    code = "from sample_profiler.profiling.recorder.choice import TWIN; print(TWIN)"
    if run([sys.executable, "-c", code], environment).strip() != request.param:
        pytest.skip(f"the {request.param} recorder is not here")
    return environment


def run(command, environment):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_forked_child_has_what_was_recorded_before_and_never_writes_to_its_parents_file(environment, tmp_path):
    """Nor sees what the parent records later; also where hooks of others record before any of Python's own."""
    path = tmp_path / "Work.rec"
    assert run([sys.executable, "-c", FORKING, str(path)], environment) == "done\n"
    record = read_record_file(path, with_events=True)
    assert record.is_closed
    assert record.trees.keys() == {"C"}
    assert not record.gauges
    assert {path[-1] for path in record.paths} == {"C", "open", "a", "later"}
    assert not any(event.is_flow_point for event in record.events)


FORKING_AMONG_THREADS = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")  # that a fork among threads is dangerous is the point
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
timing = Timing("T")
file = RecordFile(sys.argv[1], process_name="p", ring_bytes=1 << 20)
file.attach(timing, "C")
is_over = threading.Event()
def record(number):
    while not is_over.is_set():
        with timing.add_time(f"thread {number}"):
            with timing.add_time("inner"): pass
        file.flush()
threads = [threading.Thread(target=record, args=(number,), daemon=True) for number in range(3)]
for thread in threads: thread.start()
sys.setswitchinterval(1e-5)
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        for _ in range(100):
            with timing.add_time("child"): pass
        file.flush()
        tree = timing.snapshot()
        whole = all(sum(node.statistics.histogram.values()) == node.statistics.count
                    for node in tree.walk() if node is not tree)
        os._exit(not (whole and tree.children["child"].statistics.count == 100))
    assert os.waitpid(pid, 0)[1] == 0
is_over.set()
for thread in threads: thread.join()
file.close()
print("done")
"""


def test_a_process_may_fork_while_its_threads_record(environment, tmp_path):
    path = tmp_path / "Work.rec"
    assert run([sys.executable, "-c", FORKING_AMONG_THREADS, str(path)], environment) == "done\n"
    record = read_record_file(path)
    assert set(record.trees["C"].children) == {f"thread {number}" for number in range(3)}


NAMES = """
import sys, threading
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
timing = Timing("T")
file = RecordFile(sys.argv[1], process_name="p")
file.attach(timing, "C")
def record():
    with timing.add_time("a"): pass
record()
for number in range(100):
    thread = threading.Thread(target=record, name=f"thread {number}")
    thread.start()
    thread.join()
file.close()
"""


def test_the_first_threads_are_named_and_the_passes_of_all_are_there(environment, tmp_path):
    path = tmp_path / "Work.rec"
    run([sys.executable, "-c", NAMES, str(path)], environment)
    record = read_record_file(path, with_events=True)
    assert record.thread_names == {1: "MainThread"} | {number + 2: f"thread {number}" for number in range(63)}
    assert sorted(event.thread for event in record.events) == list(range(1, 102))


FULL_DISK = """
import resource, signal, sys
from sample_profiler.profiling.recording.file import RecordFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
try:
    RecordFile(sys.argv[1], process_name="p")
except OSError as error:
    print(type(error).__name__)
RecordFile(sys.argv[1] + ".small", process_name="p", ring_bytes=0, num_slots=8).close()
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="this system limits no files")
def test_a_full_disk_is_an_error_when_the_file_is_made_and_leaves_nothing(environment, tmp_path):
    path = tmp_path / "Work.rec"
    assert run([sys.executable, "-c", FULL_DISK, str(path)], environment) == "OSError\n"
    assert [each.name for each in tmp_path.iterdir()] == ["Work.rec.small"]


def test_a_file_takes_its_whole_size_at_once(make_file):
    file = make_file(ring_bytes=1 << 20)
    status = file.path.stat()
    assert status.st_blocks * 512 >= status.st_size > 1 << 20


def test_a_file_that_cannot_be_described_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        RecordFile(tmp_path / "Work.rec", process_name="Work", metadata={"set": {1}})  # type: ignore[dict-item]
    assert not list(tmp_path.iterdir())


KILLED = """
import os, sys
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
timing = Timing("T")
file = RecordFile(sys.argv[1], process_name="p", ring_bytes=1 << 16)
file.attach(timing, "C")
is_flushing = sys.argv[2] == "flushing"
number = 0
while True:
    for _ in range(200):
        with timing.add_time("a"):
            with timing.timeit("b"): pass
        timing.mark_flow(5)
    number += 200
    if is_flushing: file.flush()
    os.pwrite(1, f"{number:12}".encode(), 0)
"""


def test_what_was_reported_closed_before_a_kill_is_in_the_file(environment, tmp_path):
    """At moments spread at random, amid whatever: the compiled recorder without a flush, the other since one."""
    way = "flushing" if environment["SAMPLE_PROFILER_PURE_PYTHON"] else "as is"
    path, output = tmp_path / "Work.rec", tmp_path / "output"
    for delay_ms in (1, 3, 7, 12, 18, 29):
        with output.open("wb") as file:
            process = subprocess.Popen([sys.executable, "-c", KILLED, path, way], env=environment, stdout=file)
        deadline_s = time.monotonic() + 30
        while not output.stat().st_size:
            assert process.poll() is None and time.monotonic() < deadline_s
            time.sleep(0.001)
        time.sleep(delay_ms / 1000)
        process.kill()
        process.wait()
        told = int(output.read_text())
        record = read_record_file(path, with_events=True, with_histograms=True, now_ns=0)
        outer = record.trees["C"].children["a"]
        for node in (outer, outer.children["b"]):
            assert node.statistics.count >= told
            # The figures are whole; the histogram, of which there is one copy, may have what was being added.
            num_ahead = sum(node.statistics.histogram.values()) - node.statistics.count
            assert 0 <= num_ahead <= (200 if way == "flushing" else 1)
        assert len(record.events) >= min(3 * told, (1 << 16) // layout.EVENT.size - 1)
        assert all(event.start_ns <= event.end_ns for event in record.events if not event.is_flow_point)
        path.unlink()


def faults_of_events(file):
    """Return how many pages had to be fetched while 18,000 events went into a file, 140 pages of 4 KiB."""
    timing = Timing("Work")
    file.attach(timing, "Work")
    spend(timing, "work")
    num_faults = 0
    for _ in range(3):  # in between the process says what is to come
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        for _ in range(6_000):
            with timing.add_time("work"):
                pass
        num_faults += resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
        file.flush()
    return num_faults


@pytest.mark.skipif(sys.platform != "linux", reason="pages are prepared on Linux alone")
@pytest.mark.skipif(TWIN != "compiled", reason="the recorder in pure Python has pages of its own to fetch")
def test_pages_of_the_ring_are_at_hand_before_events_go_to_them(make_file, monkeypatch):
    with monkeypatch.context() as unprepared:
        unprepared.setattr(RecordMemory, "prepare_ring", lambda _: None)
        num_unprepared = faults_of_events(make_file("Unprepared.rec", ring_bytes=1 << 20))
    if num_unprepared < 100:
        pytest.skip("this file system fetches many pages at once")
    num_prepared = []
    for number in range(3):  # the kernel fetches pages anew when it has saved them: not each time
        file = make_file(f"Prepared {number}.rec", ring_bytes=1 << 20)
        if file._memory._populate_write is None:
            pytest.skip("this kernel prepares no pages")
        num_prepared.append(faults_of_events(file))
    assert min(num_prepared) < num_unprepared / 2, (num_prepared, num_unprepared)


def test_a_kernel_that_prepares_no_pages_is_none_the_worse(make_file, monkeypatch):
    monkeypatch.setattr("sample_profiler.profiling.record.writer._POPULATE_WRITE", 12_345)
    file, timing = make_file(), Timing("Work")
    file.attach(timing, "Work")
    spend(timing, "work")
    assert events_by_path(read(file)) == {("Work", "work"): 1}
