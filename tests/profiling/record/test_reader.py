"""Reading record files: what is in them, alive, killed and finished ones; and all that are none."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import record_writer
from record_writer import PASS_NS, RecordWriter, S, find_dead_pid

from sample_profiler.errors import RecordError
from sample_profiler.profiling.record import format as layout
from sample_profiler.profiling.record import process_state as process_state_module
from sample_profiler.profiling.record import reader as record_reader
from sample_profiler.profiling.record import ring_reader as record_events
from sample_profiler.profiling.record.events import Event
from sample_profiler.profiling.record.header import Header, LiveCounters, OpenRecord
from sample_profiler.profiling.record.process_record import SILENT_S
from sample_profiler.profiling.record.process_state import PLACE, process_place
from sample_profiler.profiling.record.reader import EventFollower, OpenBlock, read_record_file
from sample_profiler.profiling.record.ring_reader import read_events
from sample_profiler.profiling.tree.statistics import DeviceStatistics


@pytest.fixture
def path(tmp_path):
    return tmp_path / f"Test.{os.getpid()}.rec"


def write_sample(path, *, end_ns=None, **options):
    """A component that worked 2 s and 3 s, waited 1 s, and is working since second 12; its process began at 5."""
    writer = RecordWriter(path, **options)
    writer.root("RolloutWorker_w0", "RolloutWorker_w0 profile")
    loop = writer.node(0, "main_loop", open_ns=[6 * S])
    writer.node(loop, "env_step", passes=[2 * S, 3 * S], last_end_ns=11 * S, open_ns=[12 * S])
    writer.node(loop, "wait_inference", passes=[S], last_end_ns=12 * S)
    writer.node(loop, "never_entered")
    writer.gauge("fps", 250.0)
    writer.event(6 * S, 8 * S, node=2)
    writer.event(7 * S, layout.FLOW_POINT, node=2, flow=77)
    writer.event(8 * S, 11 * S, node=2)
    writer.threads = [writer.string("MainThread")]
    writer.write_live()
    writer.close(end_ns)


def test_a_live_process_is_read_up_to_now(path):
    write_sample(path)
    record = read_record_file(path, now_ns=20 * S)
    assert (record.name, record.pid, record.host) == ("Test", os.getpid(), os.uname().nodename)
    assert (record.state, record.is_alive, record.is_closed, record.end_anchor) == ("alive", True, False, None)
    assert record.read_ns == 20 * S
    root = record.trees["RolloutWorker_w0"]
    loop = root.children["main_loop"]
    assert root.statistics.total_ns == 15 * S
    assert loop.statistics.total_ns == 14 * S
    assert list(loop.children) == ["env_step", "wait_inference"]
    step = loop.children["env_step"].statistics
    assert (step.count, step.total_ns, step.min_ns, step.max_ns, step.last_ns) == (3, 13 * S, 2 * S, 8 * S, 8 * S)
    assert sum(step.histogram.values()) == 3
    assert step.quantile_ns(1.0) == pytest.approx(8 * S, rel=0.032)
    assert record.titles == {"RolloutWorker_w0": "RolloutWorker_w0 profile"}
    assert record.gauges["fps"].to_dict() == {"value": 250.0, "min": 0.0, "max": 9.0, "count": 3}
    assert record.paths[2] == ("RolloutWorker_w0", "main_loop", "env_step")
    assert record.thread_names == {1: "MainThread"}


def test_open_blocks_are_told_outer_ones_first(path):
    write_sample(path)
    record = read_record_file(path)
    assert record.open_blocks == [
        OpenBlock("RolloutWorker_w0", ("main_loop",), 6 * S, 1),
        OpenBlock("RolloutWorker_w0", ("main_loop", "env_step"), 12 * S, 1),
    ]
    assert record.innermost_open_block("RolloutWorker_w0") == record.open_blocks[1]
    assert record.innermost_open_block("Learner") is None


def test_without_events_and_histograms_only_those_are_missing(path):
    write_sample(path)
    whole, quick = read_record_file(path, now_ns=20 * S), read_record_file(path, now_ns=20 * S, with_histograms=False)
    assert quick.events == whole.events == []
    for node, same in zip(whole.trees["RolloutWorker_w0"].walk(), quick.trees["RolloutWorker_w0"].walk(), strict=True):
        assert same.statistics.histogram == {}
        node.statistics.histogram = {}
        assert same.statistics.to_dict() == node.statistics.to_dict()


def test_slots_that_change_while_they_are_read_are_read_again(path, monkeypatch):
    write_sample(path)
    whole = read_record_file(path, with_histograms=False, now_ns=20 * S)
    read, torn = OpenRecord.read, []

    def read_amid_changes(record, size, offset):
        data = bytearray(read(record, size, offset))
        slot_size = record.header.slot_size
        if offset == record.header.slots_offset and size > slot_size and not torn:
            for begin in range(0, size, slot_size):  # the next change has begun in all of them
                torn.append(begin)
                data[begin] ^= 1
                figures = slice(begin + layout.FIGURES_OFFSET, begin + layout.FIGURES_OFFSET + 2 * layout.FIGURES.size)
                data[figures] = bytes(2 * layout.FIGURES.size)
        return bytes(data)

    monkeypatch.setattr(OpenRecord, "read", read_amid_changes)
    record = read_record_file(path, with_histograms=False, now_ns=20 * S)
    assert torn
    assert record.trees["RolloutWorker_w0"].to_dict() == whole.trees["RolloutWorker_w0"].to_dict()


def test_events_have_their_flow_points_between_them(path):
    write_sample(path)
    events = read_record_file(path, with_events=True).events
    assert events == [Event(6 * S, 8 * S, 2, 1, 0), Event(7 * S, 0, 2, 1, 77), Event(8 * S, 11 * S, 2, 1, 0)]
    assert [event.is_flow_point for event in events] == [False, True, False]


def test_a_closed_file_counts_up_to_its_end(path):
    write_sample(path, end_ns=30 * S, pid=find_dead_pid())
    record = read_record_file(path)
    assert (record.state, record.is_alive, record.is_closed) == ("ended", False, True)
    assert record.read_ns == record.end_anchor.monotonic_ns == 30 * S
    assert record.trees["RolloutWorker_w0"].statistics.total_ns == 25 * S
    assert record.wall_ns(30 * S) == 1_700_000_025 * S
    assert record.wall_ns(6 * S) == 1_700_000_001 * S
    assert len(record.anchors) == 2


def test_a_killed_process_counts_up_to_its_latest_sign_of_life(path):
    write_sample(path, pid=find_dead_pid())
    record = read_record_file(path)
    assert (record.state, record.is_alive, record.is_closed) == ("gone", False, False)
    assert record.read_ns == 12 * S
    assert record.trees["RolloutWorker_w0"].statistics.total_ns == 7 * S
    writer = RecordWriter(path, pid=find_dead_pid())
    writer.root("A")
    writer.event(13 * S, 14 * S, node=0)
    writer.close()
    assert read_record_file(path).read_ns == 14 * S


def test_a_process_that_got_the_number_of_one_that_is_gone_is_not_taken_for_it(path):
    started_long_ago = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - 3600 * S
    child = subprocess.Popen(["sleep", "60"])
    try:
        write_sample(path, pid=child.pid, boot_ns=max(1, started_long_ago))
        assert read_record_file(path).state == "gone"
        write_sample(path, pid=child.pid)
        assert read_record_file(path).state == "alive"
    finally:
        child.kill()
        child.wait()


def test_a_file_of_an_earlier_start_of_the_machine_has_no_living_writer(path):
    write_sample(path, boot_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 3600 * S)
    assert read_record_file(path).state == "gone"


def test_a_process_of_another_machine_cannot_be_seen(path):
    write_sample(path, metadata={"process_name": "Far", "host": "elsewhere"})
    record = read_record_file(path)
    assert (record.state, record.is_alive, record.read_ns) == ("unknown", None, 12 * S)


def test_a_stopped_and_a_zombie_process_are_told(path):
    child = subprocess.Popen(["sleep", "60"])
    try:
        write_sample(path, pid=child.pid)
        child.send_signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        assert (read_record_file(path).state, read_record_file(path).is_alive) == ("stopped", True)
    finally:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert read_record_file(path).state == "gone"
        child.wait()


def test_kinds_and_windows_come_back(path):
    writer = RecordWriter(path)
    writer.root("A")
    writer.node(0, "sum", passes=[1, 2], histogram=[1, 2])
    writer.node(0, "last", kind=1, passes=[5, 9])
    writer.node(0, "mean", kind=2, window=3, passes=[1, 2, 3, 4], recent=[1, 2, 3, 4])
    writer.node(0, "threads", flags=layout.FLAG_PARALLEL, open_ns=[10 * S, 12 * S])
    writer.close()
    children = read_record_file(path, now_ns=20 * S).trees["A"].children
    assert [child.kind.method for child in children.values()] == ["add_time", "timeit", "time_avg", "add_time"]
    assert children["last"].value_ns == 9
    assert children["mean"].kind.window == 3
    assert children["mean"].statistics.recent_ns == [2, 3, 4]
    threads = children["threads"]
    assert threads.is_parallel and not children["sum"].is_parallel
    assert (threads.statistics.count, threads.statistics.total_ns, threads.statistics.max_ns) == (2, 18 * S, 10 * S)


def test_device_times_come_back_where_there_are_any(path):
    writer = RecordWriter(path)
    writer.root("A")
    writer.node(0, "forward", passes=[S, S, S], device=(5 * S, 2, 1))
    writer.node(0, "host", passes=[S])
    writer.close()
    children = read_record_file(path).trees["A"].children
    assert children["forward"].device == DeviceStatistics(count=2, total_ns=5 * S, num_unresolved=1)
    assert children["host"].device is None


def test_several_components_in_one_process_each_have_a_tree(path):
    writer = RecordWriter(path)
    for component in ("Learner_0", "Batcher_0"):
        root = writer.root(component)
        writer.node(root, "work", passes=[S])
    writer.close()
    record = read_record_file(path)
    assert list(record.trees) == record.components == ["Learner_0", "Batcher_0"]
    assert record.paths == [("Learner_0",), ("Learner_0", "work"), ("Batcher_0",), ("Batcher_0", "work")]


def test_a_tree_that_was_begun_anew_replaces_the_one_before(path):
    writer = RecordWriter(path)
    for key in ("old", "new"):
        root = writer.root("timers")
        writer.node(root, key, passes=[S])
    writer.close()
    record = read_record_file(path)
    assert list(record.trees["timers"].children) == ["new"]
    assert record.components == []


def test_a_histogram_that_is_one_pass_ahead_of_a_dead_writer_is_taken_as_it_is(path):
    writer = RecordWriter(path, pid=find_dead_pid())
    writer.root("A")
    writer.node(0, "work", passes=[S], histogram=[S, 2 * S])
    writer.close()
    assert read_record_file(path).trees["A"].children["work"].statistics.count == 1


def test_the_ring_keeps_the_latest_events_in_order(path):
    writer = RecordWriter(path, num_events=8)
    writer.root("A")
    for number in range(21):
        writer.event(number, number + 1, node=0)
    record = read_record_file(path, with_events=True)
    # One may be half overwritten at any moment, so of a full ring the oldest does not count.
    assert [event.start_ns for event in record.events] == list(range(14, 21))
    assert record.num_events_lost == 14
    writer.close()


def test_a_follower_gets_every_event_once_and_counts_those_it_came_too_late_for(path):
    writer = RecordWriter(path, num_events=8)
    writer.root("A")
    for number in range(3):
        writer.event(number, number + 1, node=0)
    with EventFollower(path) as follower:
        assert [event.start_ns for event in follower.poll()] == [0, 1, 2]
        assert follower.poll() == []
        for number in range(3, 8):
            writer.event(number, number + 1, node=0)
        assert [event.start_ns for event in follower.poll()] == [3, 4, 5, 6, 7]
        assert follower.num_lost == 0
        for number in range(8, 28):
            writer.event(number, number + 1, node=0)
        path.unlink()
        assert [event.start_ns for event in follower.poll()] == list(range(21, 28))
        assert follower.num_lost == 13
    writer.close()


def test_a_file_without_a_ring_has_no_events(path):
    write_sample(path, num_events=64)
    writer = RecordWriter(path, num_events=0)
    writer.root("A")
    writer.close()
    assert read_record_file(path, with_events=True).events == []
    with EventFollower(path) as follower:
        assert follower.poll() == []


def check_reads_or_refuses(path):
    with contextlib.suppress(RecordError):
        read_record_file(path, with_events=True)
    with contextlib.suppress(RecordError):
        read_record_file(path, with_histograms=False)


def test_files_cut_off_anywhere_are_refused(path):
    write_sample(path)
    data = path.read_bytes()
    lengths = {1, 7, 8, 50, 183, 184, 500, layout.HEADER_SIZE - 1, layout.HEADER_SIZE, len(data) - 1}
    for length in sorted(lengths | set(range(0, len(data), 4999))):
        path.write_bytes(data[:length])
        with pytest.raises(RecordError, match=r"truncated|empty|no record file"):
            read_record_file(path)
        with pytest.raises(RecordError):
            EventFollower(path)


def test_a_flipped_bit_in_the_header_is_an_error_or_a_whole_reading(path):
    write_sample(path, pid=find_dead_pid())
    data = path.read_bytes()
    for bit in range(8 * 256):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        check_reads_or_refuses(path)


def test_flipped_bits_anywhere_are_an_error_or_a_whole_reading(path):
    write_sample(path, pid=find_dead_pid())
    data = path.read_bytes()
    draw = random.Random(3)
    places = [
        *range(layout.HEADER_SIZE, layout.HEADER_SIZE + 232, 3),
        *(draw.randrange(len(data)) for _ in range(300)),
    ]
    for place in places:
        flipped = bytearray(data)
        flipped[place] ^= draw.randrange(1, 256)
        path.write_bytes(flipped)
        check_reads_or_refuses(path)


def swap_words(data, begin, end):
    return b"".join(data[index : index + 4][::-1] for index in range(begin, end, 4))


def test_what_is_no_record_file_is_refused_with_the_reason(path, tmp_path):
    path.write_bytes(b"")
    with pytest.raises(RecordError, match="is empty"):
        read_record_file(path)
    path.write_bytes(bytes(5000))
    with pytest.raises(RecordError, match=r"all zeros.*in the making"):
        read_record_file(path)
    path.write_bytes(b"import antigravity\n" * 999)
    with pytest.raises(RecordError, match="is no record file"):
        read_record_file(path)
    with pytest.raises(RecordError, match="is no file"):
        read_record_file(tmp_path)
    with pytest.raises(RecordError, match="No such file"):
        read_record_file(tmp_path / "missing.rec")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RecordError, match="is no file"):
        read_record_file(tmp_path / "pipe")
    write_sample(path, changes={1: 2})
    with pytest.raises(RecordError, match=r"has version 2.*reads version 1"):
        read_record_file(path)
    write_sample(path)
    data = path.read_bytes()
    path.write_bytes(data[:8] + swap_words(data, 8, 48) + data[48:])
    with pytest.raises(RecordError, match="other byte order"):
        read_record_file(path)


def test_metadata_that_is_none_and_nodes_that_make_no_tree_are_damage(path):
    for metadata in (b"[1]", b"{", b"[" * 3000, b"\xff"):
        write_sample(path, metadata=metadata)
        with pytest.raises(RecordError, match=r"damaged.*metadata"):
            read_record_file(path)
    for parent in (0, 1, -2, 99):
        writer = RecordWriter(path)
        writer.node(parent, "A")
        writer.close()
        with pytest.raises(RecordError, match=r"damaged.*hangs under"):
            read_record_file(path)
    writer = RecordWriter(path)
    writer.root("A")
    writer.node(0, "b", kind=7, passes=[1])
    writer.close()
    with pytest.raises(RecordError, match=r"damaged.*kind 7"):
        read_record_file(path)


@pytest.mark.parametrize(
    ("offset", "room", "used", "size"),
    [
        ("strings_offset", "strings_size", "strings_used", 1),
        ("slots_offset", "num_slots", "num_nodes", layout.SLOT_SIZE),
        ("gauges_offset", "num_gauge_slots", "num_gauges", layout.GAUGE_SIZE),
        ("metadata_offset", "metadata_size", "metadata_used", 1),
    ],
)
def test_what_a_hole_has_room_for_is_not_read(path, offset, room, used, size):
    """A terabyte of nothing is a few kilobytes on a disk, and in an archive."""
    write_sample(path)
    data = path.read_bytes()
    header = Header._make(layout.HEADER_FIXED.unpack_from(data))
    number = min((1 << 40) // size, (1 << 32) - 1)
    header = header._replace(**{offset: len(data), room: number, "file_size": len(data) + number * size})
    live = list(layout.HEADER_LIVE.unpack_from(data, layout.HEADER_LIVE_OFFSET))
    live[LiveCounters._fields.index(used)] = number
    with path.open("r+b") as file:
        file.write(layout.HEADER_FIXED.pack(*header))
        file.seek(layout.HEADER_LIVE_OFFSET)
        file.write(layout.HEADER_LIVE.pack(*live))
        file.truncate(header.file_size)
    with pytest.raises(RecordError, match=f"damaged.*{used} is {number}, and there is room for"):
        read_record_file(path)


def test_of_a_ring_in_a_hole_the_latest_events_are_read(path, monkeypatch):
    write_sample(path)
    with OpenRecord(path) as record:
        end = record.read_live().events_written
        first, whole = read_events(record, 0, end)
        assert len(whole) > 2
        monkeypatch.setattr(record_events, "_MOST_EVENTS", 2)
        last, some = read_events(record, 0, end)
    assert (len(some), last) == (2, first + len(whole) - 2)
    assert list(some) == list(whole)[-2:]


def test_trees_deeper_than_whoever_walks_them_can_go_are_damage(path, monkeypatch):
    monkeypatch.setattr(record_reader, "MAX_DEPTH", 20)
    for depth in (20, 21):
        writer = RecordWriter(path, num_slots=depth)
        parent = writer.root("A")
        for _ in range(depth - 1):
            parent = writer.node(parent, "b", passes=[1])
        writer.close()
        if depth == 20:
            assert max(map(len, read_record_file(path).paths)) == 20
    with pytest.raises(RecordError, match=r"damaged.*deeper than 20"):
        read_record_file(path)


def test_reading_leaves_no_file_open(path):
    write_sample(path)
    before = len(os.listdir("/proc/self/fd"))
    read_record_file(path, with_events=True)
    with EventFollower(path) as follower:
        follower.poll()
    path.write_bytes(b"x")
    with pytest.raises(RecordError):
        read_record_file(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_without_a_name_in_it_is_called_after_itself(path):
    write_sample(path, metadata={})
    assert read_record_file(path).name == "Test"


@contextlib.contextmanager
def writer_at_full_speed(path):
    process = subprocess.Popen([sys.executable, record_writer.__file__, path])
    try:
        deadline_s = time.monotonic() + 30
        while read_count(path) < 1000:
            assert process.poll() is None and time.monotonic() < deadline_s
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.wait()


def read_count(path):
    with contextlib.suppress(RecordError, KeyError):
        return read_record_file(path).trees["A"].children["work"].statistics.count
    return 0


def test_a_reader_that_hammers_a_writer_at_full_speed_never_sees_a_torn_value(path):
    with writer_at_full_speed(path) as process:
        count = 0
        for number in range(3000):
            record = read_record_file(path, with_histograms=number % 3 == 0, now_ns=0)
            work = record.trees["A"].children["work"].statistics
            num_open = len(record.open_blocks)
            assert work.total_ns == PASS_NS * (work.count - num_open)
            assert work.count >= count
            assert number % 3 or sum(work.histogram.values()) == work.count
            count = work.count - num_open
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        stopped = [read_record_file(path, now_ns=0) for _ in range(2)]
        assert {record.state for record in stopped} == {"stopped"}
        totals = [record.trees["A"].children["work"].statistics.total_ns for record in stopped]
        assert totals[0] == totals[1] >= PASS_NS * count


FAR = {"process_name": "Far", "host": "elsewhere"}


def set_signs(path, monkeypatch, *, written_s, last_sign_s):
    """Let a file look as if its file system, and its process, had last written into it so long ago."""
    now_s = 1_700_000_000 + 7 + last_sign_s  # the last sign of the sample is 7 s after its process began
    monkeypatch.setattr(record_reader.time, "time", lambda: float(now_s))
    os.utime(path, (now_s - written_s, now_s - written_s))


@pytest.mark.parametrize(
    ("written_s", "last_sign_s", "silent_s"),
    [(3, 5000, 3), (5000, 4, 4), (200, 300, 200), (-90_000, 600, 600), (-2, 600, 2)],
)
def test_a_process_that_cannot_be_seen_seems_alive_while_something_comes_into_its_file(
    path, monkeypatch, written_s, last_sign_s, silent_s
):
    write_sample(path, metadata=FAR)
    set_signs(path, monkeypatch, written_s=written_s, last_sign_s=last_sign_s)
    record = read_record_file(path)
    assert (record.state, record.silent_s) == ("unknown", pytest.approx(silent_s))
    assert record.seems_alive == (silent_s < SILENT_S)
    assert record.read_ns == 12 * S, "its clocks are not those of this machine"


@pytest.mark.parametrize("state", ["alive", "gone", "ended"])
def test_of_processes_that_can_be_seen_their_files_need_not_tell(path, state):
    end_ns = 20 * S if state == "ended" else None
    write_sample(path, pid=find_dead_pid() if state == "gone" else None, end_ns=end_ns)
    record = read_record_file(path)
    assert (record.state, record.silent_s, record.seems_alive) == (state, None, state == "alive")


def test_the_number_of_a_process_in_another_container_is_nobody_of_here(path):
    boot_id = process_place().split()[0]
    own = {"process_name": "Test", "host": os.uname().nodename}
    write_sample(path, metadata=own | {PLACE: f"{boot_id} pid:[1]"})
    record = read_record_file(path)
    assert (record.state, record.seems_alive) == ("unknown", True)
    write_sample(path, metadata=own | {PLACE: process_place()})
    assert read_record_file(path).state == "alive"


def test_processes_from_before_this_machine_was_started_anew_are_gone(path, monkeypatch):
    namespace = process_place().split()[1]
    write_sample(path, metadata={"host": os.uname().nodename, PLACE: f"earlier {namespace}"})
    assert read_record_file(path).seems_alive, "it may be another machine of this name, for its file is being written"
    set_signs(path, monkeypatch, written_s=500, last_sign_s=500)
    record = read_record_file(path)
    assert (record.state, record.silent_s, record.seems_alive) == ("gone", None, False)


def test_where_the_system_does_not_tell_of_places_the_host_counts(path, monkeypatch):
    monkeypatch.setattr(process_state_module, "_BOOT_ID", "/nowhere")
    assert process_place() == ""
    write_sample(path, metadata={"host": os.uname().nodename, PLACE: "other pid:[1]"})
    assert read_record_file(path).state == "alive"
