"""Rules T1 to T7, T10 and T12. The tree is in test_render.py, threads and tasks in test_threads_and_tasks.py."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sample_profiler.profiling import Timing, TimingError, get_timing, set_timing
from sample_profiler.profiling.recorder.choice import get_open_blocks


def children(timing):
    return timing.to_dict()["children"]


# T1: the three kinds


def test_t1_add_time_sums(timing, clock):
    for seconds in (0.5, 0.25, 2.0):
        clock.spend(timing, "hotspot", seconds)
    assert timing["hotspot"] == 2.75


def test_t1_timeit_keeps_the_last(timing, clock):
    for seconds in (0.5, 2.0, 0.25):
        clock.spend(timing, "hotspot", seconds, "timeit")
    assert timing["hotspot"] == 0.25


def test_t1_time_avg_averages_the_last_ten(timing, clock):
    for seconds in range(1, 13):
        clock.spend(timing, "hotspot", seconds, "time_avg")
    assert timing["hotspot"] == sum(range(3, 13)) / 10


def test_t1_time_avg_averages_what_there_is_before_the_window_is_full(timing, clock):
    clock.spend(timing, "hotspot", 1.0, "time_avg")
    clock.spend(timing, "hotspot", 4.0, "time_avg")
    assert timing["hotspot"] == 2.5


def test_t1_window_outlives_many_passes(timing, clock):
    for seconds in range(1, 1001):
        with timing.time_avg("hotspot", average=3):
            clock.pass_s(seconds)
    assert timing["hotspot"] == 999.0


def test_t1_first_use_sets_the_window(timing, clock):
    for seconds in (1, 2, 9):
        with timing.time_avg("hotspot", average=2):
            clock.pass_s(seconds)
    with timing.time_avg("hotspot"):  # no window asked for: the one it has
        clock.pass_s(1)
    assert timing["hotspot"] == 5.0


@pytest.mark.parametrize("parent", [None, "elsewhere"])
def test_t1_another_window_is_an_error_that_says_so(timing, parent):
    with timing.time_avg("hotspot", average=3):
        pass
    with contextlib.ExitStack() as stack:
        if parent:
            stack.enter_context(timing.add_time(parent))
        with (
            pytest.raises(TimingError, match=r"'hotspot' averages 3 passes .* asked for 10"),
            timing.time_avg("hotspot", average=10),
        ):
            pytest.fail("the block must not be entered")


def test_t1_default_window_counts_as_first_use(timing):
    with timing.time_avg("hotspot"):
        pass
    with pytest.raises(TimingError, match="averages 10 passes"), timing.time_avg("hotspot", average=3):
        pass


@pytest.mark.parametrize("average", [0, -1, 2.5, True, "3"])
def test_t1_a_window_is_a_number_of_passes(timing, average):
    with pytest.raises(TimingError, match="whole number"):
        timing.time_avg("hotspot", average=average)


# T2: nesting


def test_t2_nesting_becomes_the_tree(timing, clock):
    with timing.add_time("a"):
        clock.pass_s(1)
        clock.spend(timing, "b", 2)
    a = children(timing)["a"]
    assert a["total"] == 3.0
    assert a["children"]["b"]["total"] == 2.0


def test_t2_parent_is_the_block_open_at_entering_not_at_making(timing, clock):
    block = timing.add_time("inner")
    with timing.add_time("outer"), block:
        clock.pass_s(1)
    assert list(children(timing)) == ["outer"]
    assert children(timing)["outer"]["children"]["inner"]["total"] == 1.0


def test_t2_one_key_under_two_parents_is_two_nodes(timing, clock):
    for parent, seconds in (("a", 1), ("b", 2)):
        with timing.add_time(parent):
            clock.spend(timing, "x", seconds)
    tree = children(timing)
    assert tree["a"]["children"]["x"]["total"] == 1.0
    assert tree["b"]["children"]["x"]["total"] == 2.0


def test_t2_recursion_nests(timing, clock):
    def descend(depth):
        with timing.add_time("f"):
            clock.pass_s(1)
            if depth > 1:
                descend(depth - 1)

    descend(3)
    outermost = children(timing)["f"]
    assert outermost["total"] == 3.0
    assert outermost["children"]["f"]["total"] == 2.0
    assert outermost["children"]["f"]["children"]["f"]["total"] == 1.0


def test_t2_a_sibling_does_not_nest_in_its_closed_brother(timing):
    for key in ("a", "b", "a"):
        with timing.add_time(key):
            pass
    assert list(children(timing)) == ["a", "b"]
    assert children(timing)["a"]["count"] == 2


def test_t2_two_timings_do_not_nest_in_each_other(timing, make_timing, clock):
    other = make_timing("Other", clock_ns=clock)
    with timing.add_time("a"), other.add_time("b"), timing.add_time("c"):
        clock.pass_s(1)
    assert list(children(other)) == ["b"]
    assert children(other)["b"]["children"] == {}
    assert list(children(timing)["a"]["children"]) == ["c"]


def test_t2_very_deep_recursion_can_be_read_printed_and_pickled(timing):
    num_levels = 2 * sys.getrecursionlimit()
    with contextlib.ExitStack() as stack:
        for _ in range(num_levels):
            stack.enter_context(timing.add_time("f"))
        assert timing["f"] == 0.0
    assert len(str(timing).splitlines()) == 1 + num_levels
    again = pickle.loads(pickle.dumps(timing))
    assert sum(1 for _ in again.snapshot().walk()) == 1 + num_levels
    assert timing.to_dict()["children"]["f"]["count"] == 1


def test_a_block_object_is_entered_once(timing, clock):
    block = timing.add_time("a")
    with block:
        with pytest.raises(TimingError, match=r"'a' is entered twice.*add_time\(\)"), block:
            pass
        clock.pass_s(1)
    with pytest.raises(TimingError, match="entered twice"), block:
        pass
    assert children(timing)["a"]["count"] == 1
    assert timing["a"] == 1.0


# T3: exceptions


def test_t3_an_exception_records_closes_and_goes_on_unchanged(timing, clock):
    error = ValueError("mine")
    with pytest.raises(ValueError) as caught, timing.add_time("a"), timing.add_time("b"):
        clock.pass_s(2)
        raise error
    assert caught.value is error
    assert error.__cause__ is None and error.__context__ is None
    assert get_open_blocks() == []
    assert timing["a"] == timing["b"] == 2.0
    clock.spend(timing, "next", 1)
    assert list(children(timing)) == ["a", "next"]


# T4: mixed kinds


@pytest.mark.parametrize(
    ("first", "second"),
    [("add_time", "timeit"), ("timeit", "time_avg"), ("time_avg", "add_time")],
)
def test_t4_two_kinds_of_one_key_raise_at_entering_and_leave_the_open_blocks(timing, clock, first, second):
    with timing.add_time("parent"):
        clock.spend(timing, "key", 1, first)
        block = getattr(timing, second)("key")
        open_before = get_open_blocks()
        with pytest.raises(TimingError, match=rf"'parent/key' is {first}\(.*now used as {second}\("):
            block.__enter__()
        assert get_open_blocks() == open_before
        clock.spend(timing, "after", 2)
    parent = children(timing)["parent"]
    assert {key: node["total"] for key, node in parent["children"].items()} == {"key": 1.0, "after": 2.0}
    assert parent["children"]["key"]["kind"] == first


def test_t4_two_kinds_under_two_parents_are_fine(timing, clock):
    with timing.add_time("a"):
        clock.spend(timing, "x", 1, "add_time")
    with timing.add_time("b"):
        clock.spend(timing, "x", 2, "timeit")
    assert timing["x"] == 3.0


# T5: keys


@pytest.mark.parametrize("key", ["add_time", "items", "_name", "name", "_recorder", "__class__", "", "a b/c: 1"])
def test_t5_a_key_may_be_called_anything(timing, clock, key):
    clock.spend(timing, key, 1)
    clock.spend(timing, key, 1)
    assert timing[key] == 2.0
    assert key in timing
    assert list(timing) == [key]
    assert callable(timing.add_time) and timing.name == "Test"


@pytest.mark.parametrize("key", [1, None, ("a", "b")])
def test_t5_a_key_is_a_string(timing, key):
    with pytest.raises(TimingError, match="allowed are strings"), timing.add_time(key):
        pass


# T6: statistics


@pytest.mark.parametrize("method", ["add_time", "timeit", "time_avg"])
def test_t6_every_node_keeps_count_total_min_max_last(timing, clock, method):
    for seconds in (2.0, 0.5, 1.0):
        clock.spend(timing, "a", seconds, method)
    node = children(timing)["a"]
    assert {field: node[field] for field in ("count", "total", "min", "max", "last")} == {
        "count": 3,
        "total": 3.5,
        "min": 0.5,
        "max": 2.0,
        "last": 1.0,
    }


def test_t6_statistics_do_not_depend_on_how_many_passes_there_were(timing, clock):
    for number in range(1, 1001):
        clock.spend(timing, "a", number)
    node = children(timing)["a"]
    assert (node["count"], node["total"], node["min"], node["max"], node["last"]) == (1000, 500500.0, 1.0, 1000.0, 1000)
    assert sum(node["histogram"].values()) == 1000


def test_t6_histogram_gives_quantiles_within_five_percent(timing, clock):
    rng = random.Random(1)
    durations_s = [rng.lognormvariate(-9, 2) for _ in range(5000)]
    for seconds in durations_s:
        clock.spend(timing, "a", seconds)
    statistics = timing.snapshot().children["a"].statistics
    durations_s.sort()
    for fraction in (0.5, 0.95, 0.99):
        exact_ns = durations_s[int(fraction * 5000) - 1] * 1e9
        assert statistics.quantile_ns(fraction) == pytest.approx(exact_ns, rel=0.05)


# T7: reading


def test_t7_value_sums_over_all_parents(timing, clock):
    clock.spend(timing, "x", 1)
    with timing.add_time("a"):
        clock.spend(timing, "x", 2)
    assert timing["x"] == 3.0


def test_t7_no_double_count_under_recursion(timing, clock):
    with timing.add_time("f"), timing.add_time("g"), timing.add_time("f"):
        clock.pass_s(1)
    assert timing["f"] == 1.0
    assert timing.flat_str() == "f: 1.0000, g: 1.0000"


def test_t7_a_missing_key_is_a_key_error(timing):
    with pytest.raises(KeyError, match="missing"):
        timing["missing"]
    assert "missing" not in timing


def test_t7_to_dict_is_json_ready_and_complete(timing, clock):
    with timing.add_time("a"):
        clock.spend(timing, "b", 1.5, "time_avg")
    plain = timing.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["name"] == "Test"
    stack = [plain]
    while stack:
        node = stack.pop()
        assert {"count", "total", "min", "max", "last", "children"} <= set(node)
        assert "is_parallel" not in node
        stack.extend(node["children"].values())


def test_t7_the_root_counts_from_the_making_of_the_timing(timing, clock):
    clock.pass_s(1)
    clock.spend(timing, "a", 2)
    clock.pass_s(3)
    plain = timing.to_dict()
    assert (plain["count"], plain["total"]) == (1, 6.0)


def test_t7_from_dict_gives_the_same_back(timing, clock):
    for seconds in range(1, 4):
        with timing.add_time("a"):
            clock.spend(timing, "b", seconds, "time_avg")
            clock.spend(timing, "c", seconds, "timeit")
    plain = json.loads(json.dumps(timing.to_dict()))
    again = Timing.from_dict(plain)
    assert again.to_dict() == plain
    assert str(again) == str(timing)
    with pytest.raises(TimingError, match="'a' is add_time"), again.timeit("a"):
        pass


@pytest.mark.parametrize("plain", [{}, {"children": {}}, {"count": "x"}, {"count": 1, "children": 3}])
def test_t7_from_dict_refuses_other_data(plain):
    with pytest.raises(TimingError, match="not the data of a Timing"):
        Timing.from_dict(plain)


def test_t7_two_timings_merge(timing, make_timing, clock):
    other = make_timing("Other", clock_ns=clock)
    for one, keys in ((timing, ("a", "b")), (other, ("a", "c"))):
        for key in keys:
            with one.add_time(key):
                clock.spend(one, "x", 1)
    other_before = other.to_dict()
    timing.merge(other)
    assert other.to_dict() == other_before
    tree = children(timing)
    assert list(tree) == ["a", "b", "c"]
    assert (tree["a"]["count"], tree["a"]["total"], tree["b"]["total"], tree["c"]["total"]) == (2, 2.0, 1.0, 1.0)
    assert tree["a"]["children"]["x"]["count"] == 2
    assert [key for key in tree if "is_parallel" in tree[key]] == ["a"]
    clock.spend(timing, "a", 1)
    assert timing["a"] == 3.0


def test_t7_merging_two_kinds_raises_and_adds_nothing(timing, make_timing, clock):
    other = make_timing("Other", clock_ns=clock)
    for one, method in ((timing, "add_time"), (other, "timeit")):
        with one.add_time("a"):
            clock.spend(one, "b", 1, method)
    before = timing.to_dict()
    with pytest.raises(TimingError, match="'a/b' is add_time"):
        timing.merge(other)
    assert timing.to_dict() == before


def test_t7_merged_tree_of_many(make_timing, clock):
    workers = [make_timing(f"RolloutWorker_w{index} profile", clock_ns=clock) for index in range(12)]
    for index, worker in enumerate(workers):
        clock.spend(worker, "env_step", index + 1)
        clock.spend(worker, "wait", index + 1, "time_avg")
        clock.spend(worker, "latest", index + 1, "timeit")
    merged = Timing.merged("RolloutWorkers", workers)
    node = children(merged)["env_step"]
    assert (node["count"], node["total"], node["min"], node["max"]) == (12, 78.0, 1.0, 12.0)
    assert node["is_parallel"] is True
    assert merged["wait"] == 6.5
    assert merged["latest"] == 12.0
    assert str(merged) == "RolloutWorkers tree view:\nenv_step: 78.0000, wait: 6.5000, latest: 12.0000"


def test_t7_runs_one_after_the_other_merge_without_the_parallel_mark(timing, make_timing, clock):
    other = make_timing("Other", clock_ns=clock)
    for one in (timing, other):
        clock.spend(one, "a", 1)
    timing.merge(other, is_parallel=False)
    assert "is_parallel" not in children(timing)["a"]


# T10: the clock


def test_t10_durations_are_integers_of_the_monotonic_clock(make_timing, monkeypatch):
    def wall_clock(*_):
        pytest.fail("the wall clock is used")

    for name in ("time", "time_ns", "localtime", "gmtime"):
        monkeypatch.setattr(time, name, wall_clock)
    timing = make_timing()
    before_ns = time.perf_counter_ns()
    with timing.add_time("a"):
        time.perf_counter_ns()
    after_ns = time.perf_counter_ns()
    total_ns = timing.snapshot().children["a"].statistics.total_ns
    assert isinstance(total_ns, int)
    assert 0 < total_ns <= after_ns - before_ns


# T12: pickling


def test_t12_a_pickled_timing_arrives_whole_in_another_process(timing, clock, tmp_path):
    for seconds in range(1, 4):
        with timing.add_time("a"):
            clock.spend(timing, "b", seconds, "time_avg")
    with timing.add_time("still open"):
        clock.pass_s(1)
        file = tmp_path / "timing.pickle"
        file.write_bytes(pickle.dumps(timing))
    code = (
        "import pickle, json, sys; timing = pickle.load(open(sys.argv[1], 'rb'));"
        "print(json.dumps([timing.to_dict(), str(timing)]))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code, str(file)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    ).stdout
    plain, text = json.loads(output)
    assert plain == timing.to_dict()
    assert text == str(timing)


def test_t12_an_unpickled_timing_records_on(timing, clock):
    clock.spend(timing, "a", 1)
    again = pickle.loads(pickle.dumps(timing))
    with again.add_time("a"):
        pass
    node = children(again)["a"]
    assert node["count"] == 2
    assert "is_parallel" not in node
    assert again.to_dict()["count"] == 2  # the root's first life, and its second since the first block


def test_t12_a_subclass_stays_one():
    assert type(pickle.loads(pickle.dumps(SubclassedTiming("Mine")))) is SubclassedTiming


class SubclassedTiming(Timing):
    pass


def test_methods_of_a_subclass_take_the_place_of_those_of_timing(make_timing, clock, device):
    flows = []

    class Prefixed(make_timing):
        def add_time(self, key, *, device=False):
            return super().add_time("my " + key, device=device)

        def timeit(self, key, **arguments):
            return super().timeit("last " + key, **arguments)

        def mark_flow(self, number):
            flows.append(number)
            super().mark_flow(number)

    timing = Prefixed("Test", clock_ns=clock)
    for seconds in (1, 2):
        with timing.add_time("a"), timing.timeit("b"), timing.time_avg("c"):
            clock.pass_s(seconds)
            timing.mark_flow(seconds)
    with timing.add_time("device", device=True), timing.timeit("device", device=True):
        pass
    assert children(timing)["my a"]["children"]["last b"]["children"]["c"]["count"] == 2
    assert (timing["my a"], timing["last b"], timing["c"], flows) == (3.0, 2.0, 1.5, [1, 2])
    assert list(children(timing)) == ["my a", "my device"]


def test_a_method_that_a_subclass_leaves_alone_is_the_recorders_own():
    timing = SubclassedTiming()
    assert set(vars(timing)) == set(vars(Timing()))


# get_timing and set_timing


def test_get_timing_is_one_default_outside_a_component():
    assert get_timing() is get_timing()
    assert isinstance(get_timing(), Timing)


def test_set_timing_returns_the_previous_one(timing, make_timing):
    default = get_timing()
    other = make_timing("Other")
    assert set_timing(timing) is default
    assert get_timing() is timing
    assert set_timing(other) is timing
    assert set_timing(default) is other
    assert get_timing() is default


def test_get_timing_reaches_code_inside_a_users_env(timing, clock):
    class Env:
        def step(self):
            with get_timing().add_time("render"):
                clock.pass_s(1)

    previous = set_timing(timing)
    try:
        with timing.add_time("env_step"):
            Env().step()
    finally:
        set_timing(previous)
    assert str(timing) == "Test tree view:\nenv_step: 1.0000\n  render: 1.0000"


def test_two_components_in_one_process_keep_apart(make_timing, clock):
    worker, learner = (make_timing(name, clock_ns=clock) for name in ("worker", "learner"))

    def train():
        previous = set_timing(learner)
        with get_timing().add_time("train"):
            clock.pass_s(2)
        set_timing(previous)

    previous = set_timing(worker)
    with get_timing().add_time("env_step"):
        train()
        with get_timing().add_time("render"):
            clock.pass_s(1)
    set_timing(previous)
    assert str(worker) == "worker tree view:\nenv_step: 3.0000\n  render: 1.0000"
    assert str(learner) == "learner tree view:\ntrain: 2.0000"


# Imports


def test_importing_profiling_loads_nothing_beyond_the_standard_library():
    code = (
        "import sys; before = set(sys.modules)\n"
        "import sample_profiler.profiling as profiling\n"
        "timing = profiling.Timing(); profiling.get_timing(); profiling.set_timing(timing); profiling.TimingError\n"
        "with timing.add_time('a'): pass\n"
        "str(timing)\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'sample_profiler'}), 'asyncio' in new)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[] False"


def test_profiling_names_what_it_offers():
    import sample_profiler.profiling as profiling

    assert set(profiling.__all__) <= set(dir(profiling))
    with pytest.raises(
        AttributeError, match="no attribute 'Timer'; it offers Session, TWIN, Timing, TimingError, get_timing"
    ):
        profiling.Timer  # noqa: B018
