"""What both recorders do alike: passes that are over already, roots set back, recording switched off, device time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from sample_profiler.errors import TimingError
from sample_profiler.profiling import TWIN, Timing, set_recording_enabled
from sample_profiler.profiling.device_clock.clock import poll
from sample_profiler.profiling.recorder.choice import ENVIRONMENT_VARIABLE, get_open_blocks
from sample_profiler.profiling.tree.statistics import bucket_bounds_ns, bucket_index

S = 1_000_000_000


def children(node):
    return {key: child.statistics.count for key, child in node.children.items()}


# ---- record ----


def test_a_recorded_pass_lies_in_the_innermost_open_block(timing, clock):
    with timing.add_time("outer"), timing.add_time("inner"):
        clock.pass_s(5.0)
        timing.record("over", clock.now_ns - 3 * S, clock.now_ns - S)
        timing.record("over", clock.now_ns - S, clock.now_ns)
    timing.record("over", clock.now_ns, clock.now_ns)
    root = timing.snapshot()
    assert children(root) == {"outer": 1, "over": 1}
    over = root.children["outer"].children["inner"].children["over"].statistics
    assert (over.count, over.total_ns, over.min_ns, over.max_ns, over.last_ns) == (2, 3 * S, S, 2 * S, S)
    assert over.last_end_ns == clock.now_ns
    assert sum(over.histogram.values()) == 2


def test_recorded_passes_and_blocks_of_one_key_add_up(timing, clock):
    clock.spend(timing, "a", 1.0)
    timing.record("a", clock.now_ns - S, clock.now_ns + S)
    clock.spend(timing, "a", 3.0)
    assert timing["a"] == 6.0
    assert timing.snapshot().children["a"].statistics.count == 3


def test_many_recorded_passes_are_all_there(timing, clock):
    for number in range(1000):
        timing.record("a", number, 2 * number)
    statistics = timing.snapshot().children["a"].statistics
    assert (statistics.count, statistics.total_ns) == (1000, sum(range(1000)))


def test_a_recorded_pass_that_ends_before_its_start_is_an_error(timing):
    with pytest.raises(TimingError, match="the pass of 'a' ends 1 ns before its start"):
        timing.record("a", 5, 4)
    assert not timing.snapshot().children


@pytest.mark.parametrize("moment", [1.5, "1", None, 2**63, -(2**63) - 1])
def test_a_recorded_pass_whose_start_or_end_is_no_whole_number_is_an_error(timing, moment):
    for start, end in ((1, moment), (moment, 2)):
        with pytest.raises(TimingError, match=r"a pass of 'a' starts or ends at .*; allowed are whole nanoseconds"):
            timing.record("a", start, end)
    assert not timing.snapshot().children


def test_a_recorded_pass_may_have_integers_of_another_type(timing):
    class Moment:
        """What NumPy's integers have."""

        def __init__(self, number):
            self.number = number

        def __index__(self):
            return self.number

    timing.record("a", Moment(1), Moment(5))
    assert timing.snapshot().children["a"].statistics.total_ns == 4


def test_a_recorded_pass_of_a_key_of_another_kind_is_an_error(timing, clock):
    clock.spend(timing, "a", 1.0, "timeit")
    with pytest.raises(TimingError, match="'a'"):
        timing.record("a", 1, 2)
    assert timing.snapshot().children["a"].statistics.count == 1


# ---- backdate ----


def test_a_backdated_root_counts_from_its_new_start(timing, clock):
    start_ns = clock.now_ns
    timing.backdate(start_ns - 3 * S, "before_main")
    clock.pass_s(1.0)
    root = timing.snapshot()
    assert root.statistics.total_ns == 4 * S
    assert root.children["before_main"].statistics.total_ns == 3 * S


@pytest.mark.parametrize("later_s", [0, 5])
def test_a_root_is_never_set_forward(timing, clock, later_s):
    timing.backdate(clock.now_ns + later_s * S)
    clock.pass_s(1.0)
    root = timing.snapshot()
    assert (root.statistics.total_ns, root.children) == (S, {})


def test_a_root_may_be_set_back_again(timing, clock):
    start_ns = clock.now_ns
    timing.backdate(start_ns - S)
    timing.backdate(start_ns - 3 * S)
    root = timing.snapshot()
    assert root.statistics.total_ns == 3 * S
    assert root.children["start_up"].statistics.total_ns == 3 * S


# ---- merging ----


def test_of_known_and_unknown_ends_the_same_pass_is_the_last(timing, clock):
    worker = type(timing)(clock_ns=clock)
    clock.spend(worker, "a", 1.0, "timeit")
    loaded = Timing.from_dict(worker.to_dict())  # which does not tell when its passes ended
    timing.merge(worker)
    assert timing["a"] == 1.0
    clock.spend(timing, "a", 2.0, "timeit")
    timing.merge(worker, loaded)
    assert timing["a"] == 2.0, "it ended later"
    clock.spend(worker, "a", 3.0, "timeit")
    timing.merge(worker)
    assert timing["a"] == 3.0
    assert timing.snapshot().children["a"].statistics.count == 6


@pytest.mark.parametrize("seconds", [1e6, 1e12])
def test_numbers_that_no_record_file_holds_are_merged_all_the_same(timing, clock, seconds):
    clock.spend(timing, "a", 2.0)
    node = {"count": 1, "total": seconds, "min": seconds, "max": seconds, "last": seconds, "kind": "add_time"}
    node |= {"histogram": {str(bucket_bounds_ns(bucket_index(round(seconds * S)))[0]): 1}, "children": {}}
    device = {"count": 1, "total": seconds, "unresolved": 0}
    other = type(timing).from_dict({**node, "children": {"a": {**node, "device": device}}})
    assert other.to_dict()["children"]["a"] == {**node, "device": device}
    for _ in range(2):
        timing.merge(other)
    clock.spend(timing, "a", 1.0)
    found = timing.snapshot().children["a"]
    assert (found.statistics.count, found.statistics.total_ns) == (4, 2 * round(seconds * S) + 3 * S)
    assert (found.statistics.min_ns, found.statistics.max_ns) == (S, round(seconds * S))
    assert (found.is_parallel, found.device.total_ns) == (True, 2 * round(seconds * S))


# ---- restart ----


def test_a_restart_forgets_all_and_what_is_open_ends_unrecorded(timing, clock, device):
    with timing.add_time("outer", device=True):
        clock.pass_s(1.0)
        for _ in range(70):
            clock.spend(timing, "inner", 0.5)
        for _ in range(3):
            clock.spend(timing, "average", 0.5, "time_avg")
        timing.restart()
        clock.pass_s(2.0)
        assert children(timing.snapshot()) == {}
        clock.spend(timing, "later", 3.0)
    clock.spend(timing, "average", 4.0, "time_avg")
    root = timing.snapshot()
    assert children(root) == {"later": 1, "average": 1}
    assert (root.statistics.total_ns, root.is_parallel) == (9 * S, False)
    assert root.children["average"].statistics.recent_ns == [4 * S]
    clock.spend(timing, "outer", 5.0)
    clock.spend(timing, "outer", 7.0)
    outer = timing.snapshot().children["outer"]
    assert (outer.device, outer.is_parallel, outer.children) == (None, False, {})
    figures = outer.statistics
    assert (figures.count, figures.total_ns, figures.min_ns, figures.max_ns) == (2, 12 * S, 5 * S, 7 * S)
    assert sum(figures.histogram.values()) == 2


def test_a_restart_forgets_what_was_merged_and_other_threads(timing, clock):
    other = type(timing)(clock_ns=clock)
    clock.spend(other, "a", 1.0)
    timing.merge(other)
    thread = threading.Thread(target=clock.spend, args=(timing, "a", 1.0))
    thread.start()
    thread.join()
    clock.spend(timing, "a", 1.0)
    assert timing.snapshot().is_parallel
    timing.restart()
    assert timing.snapshot().children == {}
    clock.spend(timing, "a", 2.0)
    root = timing.snapshot()
    assert (root.is_parallel, root.children["a"].is_parallel, timing["a"]) == (False, False, 2.0)


def test_threads_go_on_after_a_restart(timing, clock):
    has_begun, go_on = threading.Event(), threading.Event()

    def work():
        with timing.add_time("outer"):
            clock.spend(timing, "before", 1.0)
            has_begun.set()
            go_on.wait()
            clock.spend(timing, "after", 2.0)

    thread = threading.Thread(target=work)
    thread.start()
    has_begun.wait()
    timing.restart()
    go_on.set()
    thread.join()
    assert children(timing.snapshot()) == {"after": 1}


# ---- set_recording_enabled: process-wide, so each runs in a process of its own, with either recorder ----

SWITCH = """
from sample_profiler.profiling import Timing, set_recording_enabled
from sample_profiler.profiling.recorder.choice import get_open_blocks
now_ns = 0
timing = Timing("T", clock_ns=lambda: now_ns)
loaded = Timing.from_dict(timing.to_dict())
def spend(key, method="add_time", **options):
    global now_ns
    with getattr(timing, method)(key, **options):
        now_ns += 10
def counts(node):
    return {key: (child.statistics.count, counts(child)) for key, child in node.children.items()}
"""

SWITCHED = {
    "blocks entered while recording is off are not recorded": """
spend("on")
set_recording_enabled(False)
for method in ("add_time", "timeit", "time_avg"):
    spend("off", method)
    spend("off", method, device=True)
timing.record("off", 1, 2)
timing.mark_flow(7)
with loaded.add_time("off"): pass
with Timing().add_time("off") as got: assert got is None
assert counts(timing.snapshot()) == {"on": (1, {})}, counts(timing.snapshot())
set_recording_enabled(True)
spend("on")
spend("again", "timeit")
assert counts(timing.snapshot()) == {"on": (2, {}), "again": (1, {})}
assert not loaded.snapshot().children
""",
    "a block that is open when recording is switched off ends well": """
with timing.add_time("open"):
    set_recording_enabled(False)
    spend("off")
    now_ns += 5
set_recording_enabled(True)
statistics = timing.snapshot().children["open"].statistics
assert (statistics.count, statistics.total_ns) == (1, 15)
assert counts(timing.snapshot()) == {"open": (1, {})}
assert get_open_blocks() == []
""",
    "a block that was entered while recording was off leaves nothing": """
set_recording_enabled(False)
with timing.add_time("off"):
    set_recording_enabled(True)
    spend("on")
assert counts(timing.snapshot()) == {"on": (1, {})}
assert get_open_blocks() == []
""",
    "a block made before the switch and entered after it ends well": """
before = timing.add_time("made before")
set_recording_enabled(False)
during = timing.add_time("made while off")
with before: pass
set_recording_enabled(True)
with during: pass
with timing.add_time("outer"):
    spend("inner")
assert counts(timing.snapshot())["outer"] == (1, {"inner": (1, {})})
assert "made while off" not in timing.snapshot().children
assert get_open_blocks() == []
""",
    "the one block that stands for all may be entered again and again": """
set_recording_enabled(False)
set_recording_enabled(False)
block = timing.add_time("off")
with block:
    with block, timing.timeit("off"): pass
try:
    with block:
        raise KeyError("goes on")
except KeyError:
    pass
else:
    raise AssertionError
set_recording_enabled(True)
set_recording_enabled(True)
spend("on")
assert counts(timing.snapshot()) == {"on": (1, {})}
""",
}


@pytest.fixture(params=["compiled", "pure Python"])
def environment(request):
    environment = {**os.environ, ENVIRONMENT_VARIABLE: "1" if request.param == "pure Python" else ""}
    if run("from sample_profiler.profiling import TWIN; print(TWIN)", environment).strip() != request.param:
        pytest.skip(f"the {request.param} recorder is not here")
    return environment


def run(code, environment, *options):
    done = subprocess.run([sys.executable, *options, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SWITCHED)
def test_switching_recording(environment, name):
    assert run(SWITCH + SWITCHED[name] + 'print("done")', environment) == "done\n"


def test_the_switch_is_back_on_after_these_tests(clock):
    timing = Timing("T", clock_ns=clock)
    set_recording_enabled(True)
    clock.spend(timing, "a", 1.0)
    assert timing["a"] == 1.0


# ---- device time ----


@pytest.mark.parametrize("method", ["add_time", "timeit", "time_avg"])
def test_a_block_measures_its_device_without_waiting(timing, clock, device, method):
    for duration_ns in (300, 500):
        with getattr(timing, method)("work", device=True):
            device.launch(duration_ns)
            clock.pass_s(1.0)
        device.advance(1000)
    poll()
    work = timing.snapshot().children["work"]
    assert (work.device.count, work.device.total_ns, work.device.num_unresolved) == (2, 800, 0)
    assert (work.statistics.count, work.statistics.total_ns) == (2, 2 * S)
    assert device.num_synchronizations == 0


def test_device_time_lies_at_the_blocks_own_path(timing, device):
    with timing.add_time("outer"), timing.add_time("work", device=True):
        device.launch(10)
    with timing.add_time("work", device=False):
        device.launch(20)
    device.advance(100)
    poll()
    root = timing.snapshot()
    assert root.children["outer"].children["work"].device.total_ns == 10
    assert root.children["work"].device is None


def test_without_a_device_the_block_is_a_plain_one(timing, clock):
    with timing.add_time("work", device=True):
        clock.pass_s(1.0)
    work = timing.snapshot().children["work"]
    assert (work.device, work.statistics.total_ns) == (None, S)


def test_what_is_no_key_and_no_device_is_refused(timing):
    for method in (timing.add_time, timing.timeit):
        for arguments, options in (((), {}), (("a", True), {}), (("a",), {"other": 1}), (("a",), {"key": "a"})):
            with pytest.raises(TypeError):
                method(*arguments, **options)
    clock_of = timing.add_time(key="by name", device=False)
    with clock_of:
        pass
    assert "by name" in timing


# ---- which of the two ----


def test_the_environment_chooses_the_recorder_in_pure_python():
    environment = {**os.environ, ENVIRONMENT_VARIABLE: "1"}
    code = (
        "import sys; from sample_profiler.profiling import TWIN, Timing\n"
        "print(TWIN, type(Timing()._recorder).__name__, 'sample_profiler.profiling.recorder._core' in sys.modules)"
    )
    assert run(code, environment) == "pure Python Recorder False\n"


def test_without_the_compiled_one_the_recorder_in_pure_python_is_taken():
    environment = {**os.environ, ENVIRONMENT_VARIABLE: ""}
    code = (
        "import sys; sys.modules['sample_profiler.profiling.recorder._core'] = None\n"
        "from sample_profiler.profiling import TWIN, Timing, set_recording_enabled\n"
        "from sample_profiler.profiling.recorder.choice import get_open_blocks\n"
        "timing = Timing()\n"
        "with timing.add_time('a'): print(TWIN, len(get_open_blocks()))\n"
        "set_recording_enabled(False)\n"
        "with timing.add_time('b'): pass\n"
        "print(list(timing))"
    )
    assert run(code, environment) == "pure Python 1\n['a']\n"


def test_a_compiled_one_of_another_version_is_not_taken():
    environment = {**os.environ, ENVIRONMENT_VARIABLE: ""}
    code = (
        "import sys, types; sys.modules['sample_profiler.profiling.recorder._core'] = types.ModuleType('_core')\n"
        "from sample_profiler.profiling import TWIN\n"
        "print(TWIN)"
    )
    assert run(code, environment) == "pure Python\n"


def test_the_twin_names_itself(make_timing):
    assert TWIN in ("compiled", "pure Python")
    assert type(Timing()._recorder).__name__ == {"compiled": "CompiledRecorder", "pure Python": "Recorder"}[TWIN]


def test_open_blocks_of_both_are_told(make_timing):
    timing = make_timing()
    with timing.add_time("outer"), timing.timeit("inner"):
        assert [block.path() for block in get_open_blocks()] == [("outer", "inner"), ("outer",)]
