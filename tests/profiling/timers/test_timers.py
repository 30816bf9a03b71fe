"""Rules ML1 to ML12, ML14 and ML17, and the file of ML15. Documents of runs are in test_documents.py."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import json
import math
import os
import pickle
import subprocess
import sys
import threading

import pytest
from pure_timing import PureTiming

import sample_profiler
from sample_profiler import timers
from sample_profiler.errors import TimingError
from sample_profiler.profiling.recorder.choice import ENVIRONMENT_VARIABLE
from sample_profiler.profiling.timers import nodes as timer_nodes
from sample_profiler.profiling.timers.stacks import get_thread_stacks
from sample_profiler.timers import GaugeNode, TimerNode, TimerStack, hierarchical_timer, timed


@pytest.fixture(autouse=True)
def fresh_stacks(make_timing):
    """Record the timers of all threads with each of the recorders in turn."""
    gc.collect()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timer_nodes, "Timing", make_timing)
        timers.reset_timers()
        yield
    timers.reset_timers()


@pytest.fixture
def stack(clock):
    return TimerStack(clock_ns=clock)


@pytest.fixture
def run_python(make_timing):
    def run(code):
        environment = os.environ | {ENVIRONMENT_VARIABLE: str(int(make_timing is PureTiming))}
        arguments = [sys.executable, "-c", code]
        return subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    return run


def spend(stack, clock, name, seconds):
    with hierarchical_timer(name, stack):
        clock.pass_s(seconds)


def run_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
    return thread


def test_public_names_are_those_of_the_package_too():
    assert all(getattr(sample_profiler, name) is getattr(timers, name) for name in timers.__all__)


def test_every_function_takes_a_timer_stack_as_its_last_argument(stack):
    functions = [value for name in timers.__all__ if inspect.isfunction(value := getattr(timers, name))]
    assert len(functions) == 10
    for function in functions:
        *_, last = inspect.signature(function).parameters.values()
        assert (last.name, last.default) == ("timer_stack", None), function
    assert timers.get_timer_stack_for_thread(threading.main_thread(), stack) is stack


def test_timers_import_only_the_standard_library(run_python):
    code = (
        "import sys, sample_profiler.timers as timers, sample_profiler.profiling.ranges\n"
        "timers.get_timer_tree()\n"
        "print([name for name in ('torch', 'numpy', 'gymnasium', 'psutil') if name in sys.modules])"
    )
    assert run_python(code) == "[]"


def test_timers_are_recorded_by_each_of_the_recorders(stack, make_timing):
    stacks = [stack, get_thread_stacks().main]
    run_thread(lambda: (timers.get_timer_root(), stacks.append(get_thread_stacks().current())))
    assert [type(one.recording.timing) for one in stacks] == [make_timing] * 3


def test_timers_are_recorded_by_the_recorder_of_timing(stack, monkeypatch):
    recorded = []
    timing = stack.recording.timing
    add_time = timing.add_time
    monkeypatch.setattr(timing, "add_time", lambda key: (recorded.append(key), add_time(key))[1])
    with hierarchical_timer("outer", stack), hierarchical_timer("inner", stack):
        pass
    timed(lambda: None, stack)()
    assert recorded[:2] == ["outer", "inner"]
    assert recorded[2].endswith("<lambda>")


def test_ml1_a_block_nests_under_the_open_timer_and_yields_its_node(stack, clock):
    with hierarchical_timer("outer", stack) as outer:
        clock.pass_s(1)
        with hierarchical_timer("inner", stack) as inner:
            clock.pass_s(2)
            assert (inner.name, inner.count, inner.total) == ("inner", 1, 2.0)
    assert list(stack.root.children) == ["outer"]
    assert list(outer.children) == ["inner"]
    assert (outer.total, outer.self_total, inner.total) == (3.0, 1.0, 2.0)


def test_ml1_the_yielded_node_takes_what_workers_send(stack, clock):
    worker = TimerStack(clock_ns=clock)
    spend(worker, clock, "env_step", 4)
    with hierarchical_timer("workers", stack) as node:
        for _ in range(2):
            node.merge(worker.root, root_name="worker_root")
    assert timers.get_timer_tree(stack)["children"]["workers"]["children"]["worker_root"]["children"] == {
        "env_step": {"total": 8.0, "count": 2, "is_parallel": True, "self": 8.0}
    }


def test_ml1_timers_left_out_of_order_have_the_right_parents_and_nodes(stack, clock):
    first, second = hierarchical_timer("first", stack), hierarchical_timer("second", stack)
    first.__enter__()
    second.__enter__()
    clock.pass_s(1)
    first.__exit__(None, None, None)
    with hierarchical_timer("third", stack) as third:
        clock.pass_s(1)
    second.__exit__(None, None, None)
    with hierarchical_timer("fourth", stack) as fourth:
        clock.pass_s(3)
    assert list(stack.root.children) == ["first", "fourth"]
    assert fourth.total == 3.0
    assert stack.root.children["first"].children["second"].total == 2.0
    # `third` lies inside of `second`, the innermost timer that was open.
    assert third.total == 1.0
    assert list(stack.root.children["first"].children["second"].children) == ["third"]


def test_ml1_timers_of_two_stacks_do_not_nest_in_each_other(stack, clock):
    other = TimerStack(clock_ns=clock)
    with hierarchical_timer("a", stack), hierarchical_timer("b", other), hierarchical_timer("c", stack) as node:
        clock.pass_s(1)
    assert list(other.root.children) == ["b"]
    assert list(stack.root.children["a"].children) == ["c"]
    assert node.total == 1.0


def test_ml1_the_node_of_a_task_that_is_older_than_the_open_timer_is_where_it_is_recorded(stack, clock):
    nodes = []

    async def poll():
        with hierarchical_timer("poll", stack) as node:
            clock.pass_s(1)
            await asyncio.sleep(0)
        nodes.append(node)

    loop = asyncio.new_event_loop()
    with hierarchical_timer("outer", stack):
        older = loop.create_task(poll())
    with hierarchical_timer("step", stack) as step:
        loop.run_until_complete(asyncio.gather(older, poll()))
    loop.close()
    assert [(node.count, node.total) for node in nodes] == [(1, 2.0), (1, 1.0)]
    assert list(stack.root.children) == ["outer", "step", "poll"]
    assert list(step.children) == ["poll"]


def test_ml1_while_recording_is_off_nodes_stay_apart_from_what_was_recorded(run_python):
    code = (
        "from sample_profiler.profiling import set_recording_enabled\n"
        "from sample_profiler.timers import *\n"
        "with hierarchical_timer('a'): pass\n"
        "set_recording_enabled(False)\n"
        "with hierarchical_timer('a') as node: node.merge(get_timer_root())\n"
        "set_recording_enabled(True)\n"
        "print(node.name, node.count, get_timer_root().children['a'].count)"
    )
    assert run_python(code) == "a 1 1"


def test_ml1_a_name_that_is_no_string_is_an_error_that_leaves_nothing_open(stack):
    with pytest.raises(TimingError, match="key of a block is 3"), hierarchical_timer(3, stack):
        pytest.fail("the block must not be entered")
    with hierarchical_timer("next", stack):
        pass
    assert list(stack.root.children) == ["next"]


class Trainer:
    @timed
    def advance(self, steps: int) -> int:
        """Advance."""
        return steps + 1


def test_ml2_timed_names_the_node_by_the_qualified_name_and_keeps_metadata():
    assert Trainer().advance(2) == 3
    assert list(timers.get_timer_root().children) == ["Trainer.advance"]
    assert (Trainer.advance.__name__, Trainer.advance.__doc__) == ("advance", "Advance.")
    assert Trainer.advance.__wrapped__ is not Trainer.advance


def test_ml2_one_function_under_two_parents_is_two_nodes(stack, clock):
    work = timed(lambda: clock.pass_s(1), stack)
    for parent in ("a", "b", "b"):
        with hierarchical_timer(parent, stack):
            work()
    children = stack.root.children
    assert [child.count for name in "ab" for child in children[name].children.values()] == [1, 2]


def test_ml2_timed_works_on_async_functions(stack, clock):
    @timed(timer_stack=stack)
    async def fetch(seconds):
        await asyncio.sleep(0)
        clock.pass_s(seconds)
        return seconds

    async def both():
        with hierarchical_timer("gather", stack):
            return await asyncio.gather(fetch(1), fetch(2))

    assert asyncio.iscoroutinefunction(fetch)
    assert asyncio.run(both()) == [1, 2]
    gather = stack.root.children["gather"]
    assert list(gather.children) == [fetch.__qualname__]
    # Both wait at once: the second one also while the first one works.
    assert (gather.children[fetch.__qualname__].count, gather.children[fetch.__qualname__].total) == (2, 4.0)


def yield_steps():
    yield 1


async def yield_steps_async():
    yield 1


@pytest.mark.parametrize("function", [yield_steps, yield_steps_async, staticmethod(yield_steps)])
def test_ml2_a_generator_function_is_refused_with_what_to_do(stack, function):
    for decorate in (timed, timed(timer_stack=stack)):
        with pytest.raises(TimingError, match=r"generator function 'yield_steps.*put `with hierarchical_timer"):
            decorate(function)


@pytest.mark.parametrize("decorator", [classmethod, property, functools.cached_property])
def test_ml2_timed_above_a_decorator_that_makes_no_function_names_the_right_order(decorator):
    name = decorator.__name__
    with pytest.raises(TimingError, match=f"@timed stands above @{name}.*: put @{name} above @timed"):
        timed(decorator(lambda self: self))


def test_ml2_timed_at_what_cannot_be_called_says_so():
    with pytest.raises(TimingError, match="@timed got 'advance', which cannot be called"):
        timed("advance")


def test_ml2_timed_stands_below_decorators_of_methods_and_on_both_sides_of_staticmethod(stack):
    class Model:
        @classmethod
        @timed(timer_stack=stack)
        def make(cls):
            return cls()

        @property
        @timed(timer_stack=stack)
        def size(self):
            return 3

        @timed(timer_stack=stack)
        @staticmethod
        def above():
            return 4

        @staticmethod
        @timed(timer_stack=stack)
        def below():
            return 5

    model = Model.make()
    assert (model.size, Model.above(), model.above(), Model.below(), model.below()) == (3, 4, 4, 5, 5)
    counts = {name.rpartition(".")[2]: node.count for name, node in stack.root.children.items()}
    assert counts == {"make": 1, "size": 1, "above": 2, "below": 2}


def test_ml2_an_async_static_method_is_timed_to_its_end(stack, clock):
    @timed(timer_stack=stack)
    @staticmethod
    async def fetch():
        clock.pass_s(2)

    asyncio.run(fetch())
    assert stack.root.children[fetch.__qualname__].total == 2.0


def test_ml3_an_exception_is_counted_the_block_closed_and_the_exception_goes_on(stack, clock):
    @timed(timer_stack=stack)
    def fail():
        clock.pass_s(1)
        raise KeyError("lost")

    for _ in range(2):
        with pytest.raises(KeyError, match="lost"):
            fail()
    with hierarchical_timer("after", stack):
        pass
    node = stack.root.children[fail.__qualname__]
    assert (node.count, node.total) == (2, 2.0)
    assert list(stack.root.children) == [fail.__qualname__, "after"]


def test_ml4_count_is_the_number_of_calls_and_total_the_inclusive_seconds(stack, clock):
    for _ in range(3):
        with hierarchical_timer("outer", stack):
            clock.pass_s(1)
            spend(stack, clock, "inner", 0.5)
    outer = stack.root.children["outer"]
    assert (outer.count, outer.total) == (3, 4.5)
    assert (outer.children["inner"].count, outer.children["inner"].total) == (3, 1.5)


def test_ml5_self_is_the_total_less_the_totals_of_the_children(stack, clock):
    with hierarchical_timer("outer", stack):
        clock.pass_s(1)
        spend(stack, clock, "a", 2)
        spend(stack, clock, "b", 3)
    clock.pass_s(4)
    document = timers.get_timer_tree(stack)
    assert document["children"]["outer"]["self"] == 1.0
    assert document["self"] == 4.0


def test_ml6_the_root_counts_once_from_creation_or_reset(stack, clock):
    clock.pass_s(3)
    spend(stack, clock, "a", 1)
    document = timers.get_timer_tree(stack)
    assert (document["name"], document["count"], document["total"]) == ("root", 1, 4.0)
    timers.reset_timers(stack)
    clock.pass_s(2)
    assert (stack.root.name, stack.root.count, stack.root.total) == ("root", 1, 2.0)


def test_ml6_what_is_merged_into_the_root_changes_neither_its_count_nor_its_total(stack, clock):
    other = TimerStack(clock_ns=clock)
    spend(other, clock, "a", 5)
    stack.root.merge(other.root)
    document = timers.get_timer_tree(stack)
    assert (document["count"], document["total"], document["is_parallel"]) == (1, 5.0, True)
    assert document["children"]["a"]["total"] == 5.0


def test_ml6_what_is_merged_without_passes_of_its_own_is_there_all_the_same(stack, clock):
    spend(stack, clock, "mine", 1)
    other, groups = TimerStack(clock_ns=clock), TimerNode()
    spend(other, clock, "a", 5)
    groups.merge(other.root.children["a"], root_name="group")
    assert groups.count == 0
    stack.root.merge(groups, root_name="groups")
    stack.root.children["groups"].merge(groups, root_name="more")
    children = timers.get_timer_tree(stack)["children"]
    assert list(children) == ["mine", "groups"]
    assert children["groups"]["children"]["group"]["total"] == 5.0
    assert children["groups"]["children"]["more"]["children"]["group"]["total"] == 5.0


def test_ml7_keys_of_the_json_and_their_order(stack, clock):
    with hierarchical_timer("a", stack) as node:
        spend(stack, clock, "b", 1)
    worker = TimerNode()
    worker.merge(node)
    node.merge(worker, root_name="c")
    timers.set_gauge("lag", 2, stack)
    document = json.loads(json.dumps(timers.get_timer_tree(stack), allow_nan=False))
    assert list(document) == ["name", "gauges", "metadata", "total", "count", "self", "children"]
    assert list(document["children"]["a"]) == ["total", "count", "self", "children"]
    assert list(document["children"]["a"]["children"]["b"]) == ["total", "count", "self"]
    assert list(document["children"]["a"]["children"]["c"]) == ["total", "count", "is_parallel", "self", "children"]
    assert document["children"]["a"]["children"]["c"]["is_parallel"] is True


def test_ml7_empty_parts_are_left_out(stack):
    assert list(timers.get_timer_tree(stack)) == ["name", "metadata", "total", "count", "self"]


def test_ml7_a_tree_as_deep_as_the_stack_of_python_can_still_be_written(stack, clock, tmp_path):
    @timed(timer_stack=stack)
    def recurse(depth):
        clock.pass_s(1)
        if depth:
            recurse(depth - 1)

    recurse(400)
    timers.write_timing_tree(tmp_path / "timers.json", stack)
    node, depth = json.loads((tmp_path / "timers.json").read_text()), 0
    while "children" in node:
        (node,) = node["children"].values()
        depth += 1
    assert depth == 199
    assert (node["total"], node["self"]) == (401 - 198, 1.0)


def test_ml8_gauges_have_value_min_max_and_count(stack):
    for value in (3, -1, 2):
        timers.set_gauge("queue", value, stack)
    assert timers.get_timer_tree(stack)["gauges"] == {"queue": {"value": 2.0, "min": -1.0, "max": 3.0, "count": 3}}


def test_ml8_nan_is_ignored(stack):
    timers.set_gauge("never", math.nan, stack)
    timers.set_gauge("some", 1, stack)
    timers.set_gauge("some", math.nan, stack)
    assert timers.get_timer_tree(stack)["gauges"] == {"some": {"value": 1.0, "min": 1.0, "max": 1.0, "count": 1}}


def test_ml8_infinities_leave_the_json_valid(stack, tmp_path):
    for value in (math.inf, -math.inf):
        timers.set_gauge("ratio", value, stack)
    timers.write_timing_tree(tmp_path / "timers.json", stack)
    gauge = json.loads((tmp_path / "timers.json").read_text(), parse_constant=pytest.fail)["gauges"]["ratio"]
    assert (gauge["value"], gauge["max"]) == (-sys.float_info.max, sys.float_info.max)
    assert stack.gauges["ratio"].max_value == math.inf


def test_ml8_a_value_that_is_no_number_is_an_error_that_says_so(stack):
    with pytest.raises(TimingError, match=r"value of a gauge is 'full'; allowed are numbers"):
        timers.set_gauge("queue", "full", stack)


@pytest.mark.parametrize("name", [5, None, b"queue", ("a",)])
def test_a_name_of_a_gauge_or_note_that_is_no_string_is_an_error_that_leaves_nothing(stack, name):
    for give in (
        lambda: timers.set_gauge(name, 1.0, stack),
        lambda: timers.merge_gauges({"fine": GaugeNode(1.0), name: GaugeNode(1.0)}, stack),
        lambda: timers.add_metadata(name, "x", stack),
    ):
        with pytest.raises(TimingError, match="allowed are strings"):
            give()
    assert stack.gauges == {}
    assert name not in stack.metadata


def test_ml8_a_number_that_no_float_can_hold_is_an_error_that_says_so(stack):
    for value in (10**400, 10**5000):
        with pytest.raises(TimingError, match="of type int that is too large for a float; allowed are numbers up to"):
            timers.set_gauge("queue", value, stack)
    assert stack.gauges == {}


def test_ml9_metadata_are_strings_and_tell_the_versions(stack):
    timers.add_metadata("seed", 7, stack)
    metadata = timers.get_timer_tree(stack)["metadata"]
    assert all(type(value) is str for value in metadata.values())
    assert metadata["timer_format_version"] == "0.1.0"
    assert metadata["seed"] == "7"
    assert metadata["python_version"] == sys.version
    assert metadata["command_line_arguments"] == " ".join(sys.argv)
    assert 0 < int(metadata["start_time_seconds"]) <= int(metadata["end_time_seconds"])
    assert metadata["sample_profiler_version"] == sample_profiler.__version__
    assert metadata["numpy_version"] == pytest.importorskip("numpy").__version__
    assert {"torch_version", "gymnasium_version"} <= set(metadata)


def test_ml9_what_is_handed_out_is_a_copy(stack):
    timers.add_metadata("a", "1", stack)
    timers.set_gauge("g", 1, stack)
    document = timers.get_timer_tree(stack)
    document["metadata"]["a"] = "changed"
    document["gauges"]["g"]["value"] = 9
    stack.metadata["a"] = "changed"
    stack.gauges["g"].update(9)
    again = timers.get_timer_tree(stack)
    assert (again["metadata"]["a"], again["gauges"]["g"]["value"]) == ("1", 1.0)


def test_ml10_merge_adds_recursively_marks_and_leaves_the_other_as_it_is(clock):
    stacks = [TimerStack(clock_ns=clock) for _ in range(2)]
    for seconds, one in enumerate(stacks, start=1):
        with hierarchical_timer("a", one):
            spend(one, clock, "b", seconds)
    spend(stacks[1], clock, "only", 4)
    node, other = (one.root.copy() for one in stacks)
    before = other.to_dict()
    node.merge(other)
    assert other.to_dict() == before
    assert (node.count, node.children["a"].count, node.children["a"].children["b"].total) == (2, 2, 3.0)
    assert all(child.is_parallel for child in (node, *node.children.values()))
    node.merge(other, is_parallel=False)
    assert (node.children["only"].total, node.children["only"].is_parallel) == (8.0, True)


def test_ml10_merge_under_a_name_and_without_the_mark(stack, clock):
    spend(stack, clock, "a", 1)
    node = TimerNode()
    node.merge(stack.root, root_name="worker", is_parallel=False)
    assert (list(node.children), node.count) == (["worker"], 0)
    worker = node.children["worker"]
    assert (worker.count, worker.total, worker.is_parallel, worker.children["a"].is_parallel) == (1, 1.0, False, False)


def test_ml10_a_node_can_be_merged_into_itself(stack, clock):
    spend(stack, clock, "a", 1)
    node = stack.root.children["a"]
    node.merge(node)
    assert (node.count, node.total) == (2, 2.0)


def test_ml10_a_root_travels_to_another_process_as_data(stack, clock):
    with hierarchical_timer("a", stack):
        clock.pass_s(2)
        root = pickle.loads(pickle.dumps(stack.root))
    clock.pass_s(5)
    assert (root.total, root.children["a"].total, root.children["a"].count) == (2.0, 2.0, 1)


def test_ml11_a_parallel_child_may_exceed_its_parent_and_self_stays_at_zero(stack, clock):
    worker = TimerStack(clock_ns=clock)
    spend(worker, clock, "work", 10)
    with hierarchical_timer("workers", stack) as node:
        clock.pass_s(1)
        node.merge(worker.root, root_name="worker")
    document = timers.get_timer_tree(stack)["children"]["workers"]
    assert (document["total"], document["self"], document["children"]["worker"]["total"]) == (1.0, 0.0, 11.0)
    assert node.self_total == 0.0


def test_ml12_merged_gauges_keep_the_later_value_and_combine_the_rest(stack, monkeypatch):
    wall = iter(range(1, 10))
    monkeypatch.setattr("time.time_ns", lambda: next(wall))
    other = TimerStack()
    timers.set_gauge("lag", 5, other)
    timers.set_gauge("lag", 1, stack)
    timers.set_gauge("fps", 30, stack)
    timers.set_gauge("fps", 20, other)
    timers.set_gauge("only", 2, other)
    timers.merge_gauges(other.gauges, stack)
    assert timers.get_timer_tree(stack)["gauges"] == {
        "lag": {"value": 1.0, "min": 1.0, "max": 5.0, "count": 2},
        "fps": {"value": 20.0, "min": 20.0, "max": 30.0, "count": 2},
        "only": {"value": 2.0, "min": 2.0, "max": 2.0, "count": 1},
    }
    assert other.gauges["lag"].count == 1


def test_ml12_an_empty_gauge_changes_nothing():
    gauge = GaugeNode(3)
    gauge.merge(GaugeNode())
    assert gauge.to_dict() == {"value": 3.0, "min": 3.0, "max": 3.0, "count": 1}


def test_ml14_threads_are_merged_under_threads_with_their_gauges():
    barrier = threading.Barrier(3)

    def work():
        with hierarchical_timer("work"):
            timers.set_gauge("items", 1)
            barrier.wait(30)

    threads = [threading.Thread(target=work) for _ in range(2)]
    with hierarchical_timer("main"):
        for thread in threads:
            thread.start()
        barrier.wait(30)
        for thread in threads:
            thread.join()
    document = timers.get_timer_tree()
    assert list(document["children"]) == ["main", "threads"]
    node = document["children"]["threads"]
    assert (node["count"], node["is_parallel"], list(node["children"])) == (2, True, ["work"])
    assert node["children"]["work"]["count"] == 2
    assert document["gauges"]["items"]["count"] == 2
    assert document["count"] == 1


def test_ml14_totals_of_threads_are_true(clock, monkeypatch):
    monkeypatch.setattr(TimerStack.__init__, "__kwdefaults__", {"clock_ns": clock})

    def work():
        with hierarchical_timer("work"):
            clock.pass_s(2)
        clock.pass_s(1)

    thread = run_thread(work)
    clock.pass_s(100)
    node = timers.get_timer_tree()["children"]["threads"]
    assert (node["count"], node["total"], node["self"], node["children"]["work"]["total"]) == (1, 3.0, 1.0, 2.0)
    assert timers.get_timer_stack_for_thread(thread).root.total == 3.0
    # The same when nobody can ask for that thread any more.
    del thread
    gc.collect()
    node = timers.get_timer_tree()["children"]["threads"]
    assert (node["count"], node["total"], node["children"]["work"]["total"]) == (1, 3.0, 2.0)


def test_ml14_a_new_thread_never_inherits_the_stack_of_an_old_one():
    seen = []

    def work():
        seen.append((threading.get_ident(), list(timers.get_timer_root().children)))
        with hierarchical_timer("work"):
            pass

    threads = [run_thread(work) for _ in range(20)]
    # The system gives the numbers of ended threads to new ones: that is what must not matter.
    assert len({ident for ident, _ in seen}) < 20
    assert all(children == [] for _, children in seen)
    assert timers.get_timer_tree()["children"]["threads"]["count"] == 20
    assert [timers.get_timer_stack_for_thread(thread).root.children["work"].count for thread in threads] == [1] * 20


def test_ml14_stacks_of_ended_threads_do_not_pile_up():
    def work():
        with hierarchical_timer("work"):
            timers.set_gauge("items", 1)

    for _ in range(50):
        run_thread(work)
    gc.collect()
    document = timers.get_timer_tree()
    assert document["children"]["threads"]["children"]["work"]["count"] == 50
    assert document["gauges"]["items"]["count"] == 50
    assert len(get_thread_stacks()._others) <= 1


def test_ml14_threads_that_timed_nothing_are_not_counted():
    def work():
        with hierarchical_timer("work"):
            pass

    threads = [run_thread(timers.get_timer_root), run_thread(work)]
    assert timers.get_timer_tree()["children"]["threads"]["count"] == 1
    assert all(timers.get_timer_stack_for_thread(thread) for thread in threads)


def test_ml14_a_thread_sees_its_own_stack_only():
    trees = []

    def work():
        with hierarchical_timer("work"):
            pass
        trees.append(timers.get_timer_tree())

    with hierarchical_timer("main"):
        run_thread(work)
    assert list(trees[0]["children"]) == ["work"]


def test_ml14_the_stack_of_a_thread_can_be_asked_for():
    assert timers.get_timer_stack_for_thread(threading.main_thread()).root.name == "root"
    assert timers.get_timer_stack_for_thread(run_thread(lambda: None)) is None


def test_ml14_a_task_in_a_thread_that_copied_the_context_starts_at_the_root(stack):
    names = []

    def work():
        with hierarchical_timer("inside", stack) as node:
            names.append(node.count)

    async def main():
        with hierarchical_timer("outer", stack):
            await asyncio.to_thread(work)

    asyncio.run(main())
    assert names == [1]
    assert list(stack.root.children) == ["outer", "inside"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_starts_with_nothing(run_python):
    code = (
        "import os, sys\n"
        "from sample_profiler.timers import *\n"
        "with hierarchical_timer('parent'):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        with hierarchical_timer('child'): pass\n"
        "        print(list(get_timer_tree()['children']), flush=True)\n"
        "        os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "print(list(get_timer_tree()['children']))"
    )
    assert run_python(code).splitlines() == ["['child']", "['parent']"]


def test_ml15_the_file_is_written_whole_and_its_folder_made(stack, clock, tmp_path):
    path = tmp_path / "summary" / "run" / "run_timers.json"
    spend(stack, clock, "a", 1)
    timers.write_timing_tree(path, stack)
    assert json.loads(path.read_text())["children"]["a"]["total"] == 1.0
    timers.reset_timers(stack)
    timers.write_timing_tree(str(path), stack)
    assert "children" not in json.loads(path.read_text())
    assert os.listdir(path.parent) == [path.name]


def test_ml15_a_failed_write_leaves_the_file_that_was_there(stack, tmp_path, monkeypatch):
    path = tmp_path / "timers.json"
    timers.write_timing_tree(path, stack)
    before = path.read_text()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        timers.write_timing_tree(path, stack)
    assert path.read_text() == before
    assert os.listdir(tmp_path) == [path.name]


def test_ml17_reset_inside_an_open_block_is_safe(stack, clock):
    with hierarchical_timer("outer", stack) as outer:
        clock.pass_s(1)
        timers.reset_timers(stack)
        clock.pass_s(2)
        with hierarchical_timer("inner", stack) as inner:
            clock.pass_s(3)
    with hierarchical_timer("after", stack):
        clock.pass_s(4)
    assert {name: node.total for name, node in stack.root.children.items()} == {"inner": 3.0, "after": 4.0}
    assert stack.root.total == 9.0
    assert (outer.total, inner.total) == (1.0, 3.0)


def test_ml17_a_root_kept_over_a_reset_shows_what_there_was(stack, clock):
    spend(stack, clock, "a", 1)
    root = stack.root
    timers.reset_timers(stack)
    clock.pass_s(10)
    assert (root.total, list(root.children)) == (1.0, ["a"])
    root.merge(root, root_name="again")
    assert list(root.children) == ["a", "again"]
    assert list(stack.root.children) == []


def test_ml17_a_reset_drops_gauges_and_notes_and_in_the_main_thread_those_of_all_threads():
    def work():
        with hierarchical_timer("work"):
            timers.set_gauge("items", 1)

    thread = run_thread(work)
    timers.set_gauge("lag", 1)
    timers.add_metadata("note", "x")
    timers.reset_timers()
    document = timers.get_timer_tree()
    assert "gauges" not in document
    assert "children" not in document
    assert "note" not in document["metadata"]
    assert timers.get_timer_stack_for_thread(thread) is None


def test_ml17_other_threads_may_record_while_the_main_thread_resets_and_reads():
    stop = threading.Event()
    errors = []

    def work():
        try:
            while not stop.is_set():
                with hierarchical_timer("outer"), hierarchical_timer("inner"):
                    timers.set_gauge("items", 1)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(30):
        json.dumps(timers.get_timer_tree())
        if number % 3 == 0:
            timers.reset_timers()
    stop.set()
    for thread in threads:
        thread.join(30)
    assert errors == []
