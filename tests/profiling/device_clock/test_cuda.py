"""Device times of a real CUDA device; skipped where there is none."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict

import pytest

from sample_profiler.profiling.device_clock import clock as device_clock
from sample_profiler.profiling.device_clock.clock import NoDevice, device_clock_for, make_device_block, set_device_clock

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no CUDA device"),
]

CYCLES = 20_000_000  # about ten milliseconds of a GPU that does nothing else


class Notes:
    """Stands in for a Timing and for its blocks."""

    def __init__(self):
        self.name = "Notes"
        self.times_ns = defaultdict(list)
        self.unresolved = Counter()

    def add_device_time(self, path, duration_ns):
        self.times_ns[path].append(duration_ns)

    def add_unresolved(self, path, number):
        self.unresolved[path] += number

    def block(self, key):
        return make_device_block(self, NamedBlock(key))


class NamedBlock:
    def __init__(self, key):
        self.key = key

    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass

    def path(self):
        return (self.key,)


@pytest.fixture
def notes():
    torch.cuda.synchronize()
    set_device_clock(device_clock_for("cuda"))
    yield Notes()
    torch.cuda.synchronize()
    set_device_clock(NoDevice())


def work():
    torch.cuda._sleep(CYCLES)


def test_a_block_that_only_launches_work_gets_the_works_time(notes):
    with notes.block("forward"):
        work()
    torch.cuda.synchronize()
    device_clock.poll()
    (duration_ns,) = notes.times_ns[("forward",)]
    assert duration_ns > 1_000_000


def test_nested_blocks_add_up(notes):
    with notes.block("outer"):
        for _ in range(3):
            with notes.block("inner"):
                work()
    torch.cuda.synchronize()
    device_clock.poll()
    (outer,) = notes.times_ns[("outer",)]
    inner = notes.times_ns[("inner",)]
    assert len(inner) == 3
    # Events resolve half a microsecond.
    assert sum(inner) <= outer + 10_000


def test_streams_and_threads_have_their_own_times(notes):
    def run(name):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(5):
                with notes.block(name):
                    work()

    threads = [threading.Thread(target=run, args=(f"stream {number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    device_clock.poll()
    assert {path: len(times) for path, times in notes.times_ns.items()} == {("stream 0",): 5, ("stream 1",): 5}


def test_what_is_not_done_at_the_end_is_unresolved_and_not_waited_for(notes):
    with notes.block("forward"):
        for _ in range(20):
            work()
    device_clock.settle(notes)
    assert notes.unresolved[("forward",)] + len(notes.times_ns[("forward",)]) == 1


def test_a_graph_can_be_captured_inside_a_block(notes):
    values = torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with notes.block("outer"), torch.cuda.graph(graph), notes.block("captured"):
        values += 1
        device_clock.poll()
    with notes.block("replay"):
        graph.replay()
    torch.cuda.synchronize()
    device_clock.poll()
    assert values[0].item() == 1
    assert notes.unresolved == {("captured",): 1}
    assert set(notes.times_ns) == {("outer",), ("replay",)}


def test_synchronising_leaves_nothing_running(notes):
    set_device_clock(device_clock_for("cuda:0"), synchronize=True)
    done = torch.cuda.Event()
    with notes.block("forward"):
        work()
        done.record()
    assert done.query()
    assert len(notes.times_ns[("forward",)]) == 1
    assert "distorted" in notes.name
