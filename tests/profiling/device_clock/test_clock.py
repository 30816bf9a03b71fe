"""Device times on a device whose time passes on request; real ones are in test_cuda.py."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections import Counter, defaultdict

import pytest

from sample_profiler.errors import TimingError
from sample_profiler.profiling import Timing, set_recording_enabled
from sample_profiler.profiling.device_clock import clock as device_clock
from sample_profiler.profiling.device_clock.clock import NoDevice, device_clock_for, make_device_block, set_device_clock
from sample_profiler.profiling.device_clock.fake import FakeDevice

MS = 1_000_000


class Notes:
    """Stands in for a Timing: takes blocks' device times and keeps each by itself."""

    def __init__(self, name="Notes"):
        self.name = name
        self.times_ns = defaultdict(list)
        self.unresolved = Counter()
        self.local = threading.local()

    def add_device_time(self, path, duration_ns):
        self.times_ns[path].append(duration_ns)

    def add_unresolved(self, path, number):
        self.unresolved[path] += number

    def block(self, key):
        return make_device_block(self, NotedBlock(self, key))


class NotedBlock:
    def __init__(self, notes, key):
        self.notes = notes
        self.key = key

    def __enter__(self):
        stack = self.notes.local.__dict__.setdefault("stack", [])
        self.keys = (*stack[-1:], self.key) if not stack else (*stack[-1].keys, self.key)
        stack.append(self)

    def __exit__(self, *_):
        self.notes.local.stack.remove(self)

    def path(self):
        return self.keys


@pytest.fixture
def notes():
    return Notes()


def test_device_time_is_that_of_the_work_not_of_the_host(device, notes):
    with notes.block("forward"):
        device.launch(7 * MS)
        device.advance(1 * MS)  # all that the host spends here
    device.advance(6 * MS)
    device_clock.poll()
    assert notes.times_ns == {("forward",): [7 * MS]}


def test_nothing_waits_and_nothing_counts_before_the_device_is_done(device, notes):
    with notes.block("forward"):
        device.launch(7 * MS)
    device_clock.poll()
    assert not notes.times_ns
    device.advance(7 * MS - 1)
    device_clock.poll()
    assert not notes.times_ns
    device.advance(1)
    device_clock.poll()
    assert notes.times_ns == {("forward",): [7 * MS]}
    assert device.num_synchronizations == 0
    assert not notes.unresolved


def test_work_given_before_the_block_is_not_the_blocks(device, notes):
    device.launch(100 * MS)
    with notes.block("forward"):
        device.launch(7 * MS)
    device.advance(107 * MS)
    device_clock.poll()
    assert notes.times_ns == {("forward",): [7 * MS]}


def test_a_block_that_launches_nothing_took_the_device_no_time(device, notes):
    with notes.block("empty"):
        pass
    device_clock.poll()
    assert notes.times_ns == {("empty",): [0]}


def test_a_gap_in_which_the_device_idles_inside_the_block_counts(device, notes):
    with notes.block("forward"):
        device.launch(1 * MS)
        device.advance(5 * MS)
        device.launch(1 * MS)
    device.advance(1 * MS)
    device_clock.poll()
    assert notes.times_ns == {("forward",): [6 * MS]}


def test_blocks_inside_blocks_have_their_own_times(device, notes):
    with notes.block("train"):
        for _ in range(2):
            with notes.block("forward"):
                device.launch(2 * MS)
            with notes.block("update"):
                device.launch(3 * MS)
    device.advance(10 * MS)
    device_clock.poll()
    assert notes.times_ns == {
        ("train",): [10 * MS],
        ("train", "forward"): [2 * MS] * 2,
        ("train", "update"): [3 * MS] * 2,
    }


def test_an_exception_is_passed_on_and_the_pass_counts(device, notes):
    with pytest.raises(KeyError, match="lost"), notes.block("outer"), notes.block("inner"):
        device.launch(2 * MS)
        raise KeyError("lost")
    device.advance(2 * MS)
    device_clock.poll()
    assert notes.times_ns == {("outer",): [2 * MS], ("outer", "inner"): [2 * MS]}


def test_blocks_left_out_of_order_keep_their_times(device, notes):
    first, second = notes.block("first"), notes.block("second")
    first.__enter__()
    device.launch(1 * MS)
    second.__enter__()
    device.launch(2 * MS)
    first.__exit__(None, None, None)
    device.launch(4 * MS)
    second.__exit__(None, None, None)
    device.advance(7 * MS)
    device_clock.poll()
    assert notes.times_ns == {("first",): [3 * MS], ("first", "second"): [6 * MS]}


def test_streams_do_not_hold_each_other_up(device, notes):
    with notes.block("slow"):
        device.launch(100 * MS)
    device.stream = 1
    with notes.block("quick"):
        device.launch(1 * MS)
    device.advance(1 * MS)
    device_clock.poll()
    assert notes.times_ns == {("quick",): [1 * MS]}
    device.advance(99 * MS)
    device_clock.poll()
    assert notes.times_ns == {("quick",): [1 * MS], ("slow",): [100 * MS]}


def test_a_block_that_ends_on_another_stream_waits_for_both(device, notes):
    device.launch(50 * MS)
    with notes.block("moves"):
        device.stream = 1
        device.launch(1 * MS)
    device.advance(1 * MS)
    device_clock.poll()
    assert not notes.times_ns
    device.advance(49 * MS)
    device_clock.poll()
    assert notes.times_ns == {("moves",): [0]}, "it began, on the device, after it had ended"


def test_polling_a_busy_device_asks_once_for_each_stream(device, notes):
    for _ in range(100):
        with notes.block("forward"):
            device.launch(1 * MS)
    asked = device.num_queries
    device_clock.poll()
    assert device.num_queries == asked + 1


def test_events_are_used_again(device, notes):
    for _ in range(1000):
        with notes.block("outer"), notes.block("inner"):
            device.launch(1 * MS)
        device.advance(1 * MS)
        device_clock.poll()
    assert device.num_events == 4
    assert sum(map(len, notes.times_ns.values())) == 2000


def test_a_device_that_never_gets_there_costs_a_bounded_number_of_events_and_no_waiting(notes):
    device = FakeDevice()
    device.is_stuck = True
    set_device_clock(device, max_events=10)
    for _ in range(100):
        with notes.block("forward"):
            device.launch(1 * MS)
    assert device.num_events == 10
    assert notes.unresolved == {("forward",): 95}
    set_device_clock(NoDevice())  # settles
    assert notes.unresolved == {("forward",): 100}
    assert not notes.times_ns
    assert device.num_synchronizations == 0


def test_a_pool_of_an_odd_number_leaves_a_begun_pass_unresolved_and_its_event_free(notes):
    device = FakeDevice()
    set_device_clock(device, max_events=3)
    with notes.block("a"), notes.block("b"), notes.block("c"):
        device.launch(1 * MS)
    device.advance(1 * MS)
    device_clock.poll()
    assert notes.unresolved == {("a", "b", "c"): 1, ("a",): 1}, "b ended with the event that c gave back"
    with notes.block("a"):
        device.launch(1 * MS)
    device.advance(1 * MS)
    set_device_clock(NoDevice())
    assert notes.times_ns == {("a", "b"): [1 * MS], ("a",): [1 * MS]}


def test_a_used_up_pool_looks_whether_the_device_has_got_on(notes):
    """A long training step: the loop does not turn in between."""
    device = FakeDevice()
    set_device_clock(device, max_events=4)
    for _ in range(100):
        with notes.block("forward"):
            device.launch(1 * MS)
        device.advance(1 * MS)
    set_device_clock(NoDevice())
    assert notes.times_ns == {("forward",): [1 * MS] * 100}
    assert not notes.unresolved


def test_settling_one_timing_leaves_the_others_alone(device, notes):
    other = Notes()
    for one in (notes, other, notes):
        with one.block("forward"):
            device.launch(1 * MS)
    device_clock.settle(notes)
    assert (notes.unresolved, other.unresolved) == ({("forward",): 2}, {})
    device.advance(3 * MS)
    device_clock.poll()
    assert (notes.times_ns, other.times_ns) == ({}, {("forward",): [1 * MS]})


def test_a_failing_device_harms_nobody(device, notes):
    with notes.block("before"):
        device.launch(1 * MS)
    device.is_failing = True
    with notes.block("failing"):
        pass
    device_clock.poll()
    device.is_failing = False
    with notes.block("after"):
        device.launch(1 * MS)
    device.advance(2 * MS)
    device_clock.poll()
    assert notes.unresolved == {("before",): 1, ("failing",): 1}
    assert notes.times_ns == {("after",): [1 * MS]}


def test_a_block_entered_before_the_device_was_set_is_a_plain_one(notes):
    set_device_clock(NoDevice())
    with notes.block("early"):
        set_device_clock(FakeDevice())
    set_device_clock(NoDevice())
    assert not notes.times_ns
    assert not notes.unresolved


def test_a_block_that_is_open_when_the_device_is_taken_away_ends_well(notes):
    set_device_clock(FakeDevice())
    with notes.block("open"):
        set_device_clock(NoDevice())
    assert not notes.times_ns


def test_without_a_device_a_block_is_the_plain_one(notes):
    set_device_clock(device_clock_for("cpu"))
    block = NotedBlock(notes, "forward")
    assert make_device_block(notes, block) is block
    assert device_clock.describe_device_time() == ""
    device_clock.poll()
    device_clock.settle()


def test_many_threads_lose_nothing(notes):
    device = FakeDevice()
    set_device_clock(device)
    num_threads, num_passes = 4, 500
    barrier = threading.Barrier(num_threads)

    def work(number):
        barrier.wait()
        for _ in range(num_passes):
            with notes.block(f"thread {number}"):
                pass
            device_clock.poll()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    set_device_clock(NoDevice())
    assert {path: len(times) for path, times in notes.times_ns.items()} == {
        (f"thread {number}",): num_passes for number in range(num_threads)
    }
    assert not notes.unresolved


def test_synchronising_gives_exact_times_at_once_and_says_that_it_distorts(notes):
    device = FakeDevice()
    set_device_clock(device, synchronize=True)
    device.launch(100 * MS)
    for _ in range(2):
        with notes.block("forward"):
            device.launch(7 * MS)
        assert device.now_ns >= 107 * MS
    assert notes.times_ns == {("forward",): [7 * MS] * 2}
    assert device.num_synchronizations == 4
    assert notes.name == "Notes [device-synchronised: timings are distorted]"
    assert device_clock.describe_device_time() == "device-synchronised: timings are distorted"
    set_device_clock(device)
    assert device_clock.describe_device_time() == "device events"
    set_device_clock(NoDevice())


def test_a_synchronising_host_spends_the_time_of_the_device_inside_the_block():
    device = FakeDevice()
    set_device_clock(device, synchronize=True)
    notes = Notes()
    seen_ns = []

    class HostBlock(NotedBlock):
        def __exit__(self, *arguments):
            seen_ns.append(device.now_ns)
            super().__exit__(*arguments)

    with make_device_block(notes, HostBlock(notes, "forward")):
        device.launch(7 * MS)
    set_device_clock(NoDevice())
    assert seen_ns == [7 * MS], "the host block ends after the wait"


def test_unknown_devices_are_errors_that_say_what_there_is():
    with pytest.raises(TimingError, match=r"no device clock for 'tpu'; allowed are 'cpu', 'cuda' and 'cuda:<index>'"):
        device_clock_for("tpu")


def test_cuda_without_torch_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TimingError, match=r"device times of 'cuda:1' need PyTorch.*install torch"):
        device_clock_for("cuda:1")


def test_cuda_without_such_a_device_is_an_error_that_says_so():
    torch = pytest.importorskip("torch")
    missing = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(TimingError, match=rf"there is no device '{missing}': PyTorch sees \d+ CUDA devices"):
        device_clock_for(missing)


def test_a_tree_shows_host_and_device_side_by_side(timing, clock, device):
    with timing.add_time("train"):
        with timing.add_time("forward", device=True):
            device.launch(700 * MS)
            clock.pass_s(0.25)
        clock.spend(timing, "plain", 1)
    device.advance(700 * MS)
    device_clock.poll()
    assert str(timing) == "Test tree view:\ntrain: 1.2500\n  forward: 0.2500 [device 0.7000], plain: 1.0000"
    assert timing.flat_str() == "train: 1.2500, forward: 0.2500, plain: 1.0000"
    forward = timing.to_dict()["children"]["train"]["children"]["forward"]
    assert forward["device"] == {"count": 1, "total": 0.7, "unresolved": 0}
    assert "device" not in timing.to_dict()["children"]["train"]
    with timing.add_time("train"), timing.add_time("forward", device=True):
        device.launch(1 * MS)
    with timing.add_time("never", device=True):
        pass
    device_clock.settle(timing)
    lines = str(timing).splitlines()
    assert "never: 0.0000 [device 1 unresolved]" in lines
    assert "  forward: 0.2500 [device 0.7000, 1 unresolved], plain: 1.0000" in lines


def test_without_a_device_the_keyword_changes_nothing(timing, clock):
    clock.spend(timing, "plain", 1)
    with timing.add_time("asked", device=True):
        clock.pass_s(1)
    assert str(timing) == "Test tree view:\nplain: 1.0000, asked: 1.0000"


def test_blocks_that_are_not_recorded_do_not_measure_the_device(device):
    timing = Timing("Test")  # of this process's recorder, which is the one that is switched
    set_recording_enabled(False)
    try:
        with timing.add_time("off", device=True):
            device.launch(1 * MS)
    finally:
        set_recording_enabled(True)
    assert device.num_records == 0
    assert str(timing) == "Test tree view:"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_forked_process_begins_without_its_parents_device(device, notes):
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def child():
        with notes.block("forward"):
            pass
        send.send((device_clock.describe_device_time(), device.num_records))

    with notes.block("parent"):
        process = context.Process(target=child)
        process.start()
        assert receive.recv() == ("", 1)
        process.join()
    device_clock.poll()
    assert set(notes.times_ns) == {("parent",)}
