"""The compiled recorder by itself: its layout, its memory, and misuse."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import struct
import sys
import threading
import tracemalloc
import weakref

import pytest

from sample_profiler.errors import TimingError
from sample_profiler.profiling import TWIN, Timing
from sample_profiler.profiling.record import format as layout
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.tree.kinds import ADD_TIME

if TWIN != "compiled":
    pytest.skip("the compiled recorder is not here", allow_module_level=True)

from sample_profiler.profiling.recorder import _core
from sample_profiler.profiling.recorder.compiled import CompiledRecorder

HUGE = 1 << 80


def test_the_structs_in_c_are_the_layout_in_python():
    assert _core.RECORD_VERSION == layout.VERSION
    assert {
        "header": layout.HEADER_FIXED.size + layout.HEADER_LIVE.size,
        "header_live": layout.HEADER_LIVE_OFFSET,
        "slot": layout.SLOT_SIZE,
        "slot_started_ns": struct.calcsize("=Qi3IQ2I"),
        "slot_figures": layout.FIGURES_OFFSET,
        "figures": layout.FIGURES.size,
        "slot_recent": layout.RECENT_OFFSET,
        "slot_histogram": layout.HISTOGRAM_OFFSET,
        "histogram": layout.HISTOGRAM.size,
        "event": layout.EVENT.size,
        "num_recent": layout.NUM_RECENT,
        "num_buckets": layout.NUM_BUCKETS,
        "num_thread_names": layout.NUM_THREAD_NAMES,
    } == _core.SIZES
    assert _core.SIZES["header"] <= layout.HEADER_SIZE


# ---- Memory ----


def use(timing, num_passes):
    """Do everything a recorder is for, again and again, on the same nodes."""
    for number in range(num_passes):
        with timing.add_time("a"), timing.timeit("b"), timing.time_avg("c", average=5):
            timing.mark_flow(number)
            timing.record("d", 1, 2)
        with contextlib.suppress(ValueError), timing.add_time("a"):
            raise ValueError
        timing.add_time("never entered")
        timing.add_time("e", device=True)
        with pytest.raises(TimingError):
            timing.timeit("a").__enter__()
        with pytest.raises(TypeError):
            timing.add_time("a", other=1)


@pytest.mark.parametrize("with_file", [False, True])
def test_thousands_of_blocks_leak_nothing(tmp_path, with_file):
    timing = Timing()
    file = RecordFile(tmp_path / "Work.rec", process_name="Work", ring_bytes=1 << 12)
    if with_file:
        file.attach(timing, "Work")
    key = "key of its own " + str(with_file)
    use(timing, 200)
    with timing.add_time(key):
        pass
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0], sys.getrefcount(timing._recorder), sys.getrefcount(key)
        kinds = sys.getrefcount(ADD_TIME)
        for _ in range(3000):
            with timing.add_time(key):
                pass
        use(timing, 300)
        gc.collect()
        after = tracemalloc.get_traced_memory()[0], sys.getrefcount(timing._recorder), sys.getrefcount(key)
        assert after[1:] == before[1:]
        assert abs(sys.getrefcount(ADD_TIME) - kinds) < 20
        assert after[0] - before[0] < 20_000
    finally:
        tracemalloc.stop()
        file.close()


def test_reading_leaks_nothing():
    timing = Timing()
    use(timing, 20)
    timing.snapshot()
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(300):
            str(timing)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()


def test_merging_leaks_nothing():
    timing, other = Timing(), Timing()
    with other.add_time("a"), other.timeit("b"):
        other.record("c", 1, HUGE >> 20)
    tracemalloc.start()
    try:
        timing.merge(other)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(300):
            timing.merge(other)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()


def test_recorders_and_files_leak_nothing(tmp_path):
    def make(number):
        timing = Timing(str(number))
        file = RecordFile(tmp_path / "Work.rec", process_name="Work", ring_bytes=1 << 12, num_slots=8)
        file.attach(timing, "Work")
        with timing.add_time("a"):
            file.close()
        assert timing["a"] >= 0

    make(0)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(100):
            make(number)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 50_000
    finally:
        tracemalloc.stop()


def test_a_recorder_that_nobody_holds_is_gone_with_all_its_cycles():
    class Clock:
        def __call__(self):
            return 5

    clock = Clock()
    clock.timing = Timing(clock_ns=clock)
    with clock.timing.add_time("a"):
        pass
    recorder = weakref.ref(clock.timing._recorder)
    del clock
    gc.collect()
    assert recorder() is None


def test_blocks_of_threads_and_tasks_are_gone_with_them():
    timing = Timing()

    async def task():
        with timing.add_time("task"):
            await asyncio.sleep(0)

    async def main():
        await asyncio.gather(*(task() for _ in range(50)))

    def thread():
        block = timing.add_time("left open")
        block.__enter__()
        with timing.add_time("thread"):
            asyncio.run(main())

    for _ in range(3):
        one = threading.Thread(target=thread)
        one.start()
        one.join()
    gc.collect()
    recorder = timing._recorder
    # The Timing, its two methods among them, this name, and the argument: no block.
    assert sys.getrefcount(recorder) <= 6
    del one


# ---- Misuse ----


@pytest.fixture
def recorder():
    return Timing()._recorder


BAD = (None, "a", 1.5, -1, HUGE, -HUGE, [], object(), b"x")

METHODS = [
    *("add_device", "add_node", "attach", "describe_node", "find_child", "make_block", "mark_flow", "read_nodes"),
    *("record", "start_at", "add_time", "timeit", "clock_ns", "detach", "started_ns"),
]


@pytest.mark.parametrize("method", METHODS)
def test_misused_methods_raise_and_never_crash(recorder, method, tmp_path):
    file = RecordFile(tmp_path / "Work.rec", process_name="Work", ring_bytes=1 << 12)
    recorder.attach(file._map, "Work", "Work")
    function = getattr(recorder, method)
    try:
        for num in range(7):
            for value in BAD:
                with contextlib.suppress(TypeError, ValueError, OverflowError, IndexError, TimingError, BufferError):
                    function(*[value] * num)
            with pytest.raises(TypeError):
                function(*[None] * num, no_such_name=1)
    finally:
        recorder.detach()
        file.close()
    assert recorder.read().statistics.count == 1


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("add_device", (99, 1, 1, 0), IndexError),
        ("add_node", (0, "a", ADD_TIME), TypeError),
        ("add_node", (99, "a", ADD_TIME, 0, 0), IndexError),
        ("add_node", (0, 5, ADD_TIME, 0, 0), TypeError),
        ("attach", (b"read only", "a", "b"), BufferError),
        ("attach", (bytearray(10), "a", "b"), ValueError),
        ("attach", (bytearray(1 << 16), "a", "b"), ValueError),
        ("attach", (None, "a", "b"), TypeError),
        ("describe_node", (HUGE,), IndexError),
        ("describe_node", ("a",), (IndexError, TypeError)),
        ("describe_node", (-1,), IndexError),
        ("find_child", (99, "a"), IndexError),
        ("make_block", ("a",), TypeError),
        ("mark_flow", (), TypeError),
        ("read_nodes", (HUGE,), OverflowError),
        ("record", ("a", 1), TypeError),
        ("record", ("a", "b", 2), TimingError),
        ("record", ("a", HUGE, HUGE), TimingError),
        ("record", (5, 1, 2), TimingError),
        ("start_at", (HUGE,), OverflowError),
        ("add_time", (), TypeError),
        ("add_time", ("a", "b"), TypeError),
    ],
)
def test_misuse_is_told(recorder, method, arguments, error):
    with pytest.raises(error):
        getattr(recorder, method)(*arguments)


@pytest.mark.parametrize("flow", [-1, HUGE, "a", None, 1.5])
def test_a_flow_that_is_no_number_of_64_bits_is_refused(recorder, tmp_path, flow):
    file = RecordFile(tmp_path / "Work.rec", process_name="Work", ring_bytes=1 << 12)
    recorder.attach(file._map, "Work", "Work")
    with pytest.raises((TypeError, OverflowError)):
        recorder.mark_flow(flow)
    recorder.detach()
    file.close()


@pytest.mark.parametrize("key", [None, 5, ["unhashable"], b"bytes", ("a",)])
def test_a_key_that_is_no_string_is_refused_when_the_block_is_entered(recorder, key):
    block = recorder.add_time(key)
    with pytest.raises(TimingError, match="str"):
        block.__enter__()
    assert _core.get_open_blocks() == []


def test_a_key_whose_comparison_fails_is_refused(recorder):
    class Key(str):
        def __hash__(self):
            raise LookupError("no hash")

    for number in range(10):
        with recorder.add_time(f"key {number}"):
            pass
    with pytest.raises(LookupError, match="no hash"):
        recorder.add_time(Key("key")).__enter__()
    with pytest.raises(LookupError, match="no hash"):
        recorder.record(Key("key"), 1, 2)
    assert _core.get_open_blocks() == []


def test_blocks_and_threads_are_made_by_recorders_alone():
    for make in (_core.Block, lambda: object.__new__(_core.Block), lambda: _core.Recorder()):
        with pytest.raises(TypeError):
            make()


def test_a_bare_recorder_of_the_core_raises_where_it_lacks_its_other_half():
    with pytest.raises(AttributeError, match="make_node"), _core.Recorder(None).add_time("a"):
        pass
    assert _core.get_open_blocks() == []


def test_a_half_that_returns_nonsense_raises():
    class Other(_core.Recorder):
        answer: object = None

        def make_node(self, parent, key, kind):
            return self.answer

    for answer in (None, "a", -1, 99, HUGE):
        Other.answer = answer
        with pytest.raises((TypeError, SystemError, OverflowError)):
            Other(None).add_time("a").__enter__()


@pytest.mark.parametrize("time", [None, "a", HUGE, 1.5])
def test_a_clock_that_is_none_raises(time):
    recorder = CompiledRecorder(lambda: time, is_running=False)
    with pytest.raises((TypeError, OverflowError)):
        recorder.add_time("a").__enter__()
    assert _core.get_open_blocks() == []


def test_a_clock_that_uses_the_very_block_it_is_asked_for_does_no_harm():
    state = {"block": None, "is_busy": False}

    def clock():
        if state["block"] is not None and not state["is_busy"]:
            state["is_busy"] = True
            with contextlib.suppress(TimingError), state["block"]:
                pass
            state["is_busy"] = False
        return 5

    recorder = CompiledRecorder(clock)
    state["block"] = recorder.add_time("a")
    with pytest.raises(TimingError, match="entered twice"):
        state["block"].__enter__()
    state["block"].__exit__(None, None, None)
    state["block"] = None
    assert recorder.read().children["a"].statistics.count == 1
    assert _core.get_open_blocks() == []


def test_leaving_a_block_that_was_not_entered_or_twice_does_nothing(recorder):
    block = recorder.add_time("a")
    block.__exit__()
    with block:
        pass
    block.__exit__(None, None, None, "more")
    assert recorder.read().children["a"].statistics.count == 1
    assert block.path() == ("a",)
    assert recorder.add_time("b").path() == ()


@pytest.mark.parametrize("offset", ["slots", "strings", "ring"])
def test_a_file_whose_parts_lie_outside_of_it_is_refused(recorder, tmp_path, offset):
    with RecordFile(tmp_path / "Work.rec", process_name="Work", num_slots=8, ring_bytes=1 << 12)._map as mapping:
        data = bytearray(mapping[:])
        fixed = list(layout.HEADER_FIXED.unpack_from(data))
        index = {"slots": 11, "strings": 13, "ring": 17}[offset]
        for place in (len(data) - 8, len(data) + 8, (1 << 64) - 8, 1025, 8):
            fixed[index] = place
            layout.HEADER_FIXED.pack_into(data, 0, *fixed)
            with pytest.raises(ValueError, match="no record file"):
                recorder.attach(data, "a", "b")
            with pytest.raises(ValueError, match="no record file"):
                _core.add_string(data, "a")
    with pytest.raises(TypeError):
        _core.add_string(bytearray(10))
    with pytest.raises(TypeError):
        _core.add_string(None, "a")


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2, 3)])
def test_functions_of_the_module_check_their_arguments(arguments):
    with pytest.raises(TypeError):
        _core.set_up(*arguments)
    with pytest.raises(TypeError):
        _core.get_open_blocks(1)
    with pytest.raises(TypeError):
        _core.set_enabled()
