"""The rules T8 (threads), T9 (generators, coroutines) and T11 (reading while blocks are open)."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
import weakref

import pytest

from sample_profiler.profiling import Timing, TimingError, get_timing, set_timing
from sample_profiler.profiling.recorder.choice import get_open_blocks
from sample_profiler.profiling.recorder.pure import Recorder


def run_in_thread(function):
    failures = []

    def guarded():
        try:
            function()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def children(timing):
    return timing.to_dict()["children"]


# T8


def test_t8_blocks_of_two_threads_never_nest(timing, clock):
    with timing.add_time("a"):
        run_in_thread(lambda: clock.spend(timing, "b", 1))
    tree = children(timing)
    assert list(tree) == ["a", "b"]
    assert tree["a"]["children"] == {}


def test_t8_a_copied_context_does_not_carry_the_open_block_into_another_thread(timing, clock):
    async def main():
        with timing.add_time("a"):
            await asyncio.to_thread(clock.spend, timing, "b", 1)

    asyncio.run(main())
    assert list(children(timing)) == ["a", "b"]


def test_t8_threads_merge_by_path_at_the_root(timing, clock):
    def work():
        with timing.add_time("a"):
            clock.spend(timing, "b", 1)

    work()
    run_in_thread(work)
    run_in_thread(lambda: clock.spend(timing, "only here", 1))
    assert str(timing) == "Test tree view:\nonly here: 1.0000\na: 2.0000\n  b: 2.0000"
    plain = timing.to_dict()
    a = plain["children"]["a"]
    assert plain["is_parallel"] is True
    assert a["is_parallel"] is True and a["children"]["b"]["is_parallel"] is True
    assert a["count"] == 2
    assert "is_parallel" not in plain["children"]["only here"]


def test_t8_one_other_thread_alone_is_not_parallel(timing, clock):
    run_in_thread(lambda: clock.spend(timing, "a", 1))
    plain = timing.to_dict()
    assert "is_parallel" not in plain
    assert "is_parallel" not in plain["children"]["a"]


def test_t8_threads_that_have_ended_are_kept_but_take_no_room(timing, clock):
    for _ in range(50):
        run_in_thread(lambda: clock.spend(timing, "a", 1))
    run_in_thread(lambda: clock.spend(timing, "b", 1))
    a = children(timing)["a"]
    assert (a["count"], a["total"], a["is_parallel"]) == (50, 50.0, True)
    if isinstance(timing._recorder, Recorder):  # one living thread (this one) and at most the last that ended
        assert len(timing._recorder._trees) <= 2


def test_t8_kinds_agree_between_threads(timing, clock):
    clock.spend(timing, "a", 1)

    def work():
        with timing.timeit("a"):
            pass

    with pytest.raises(TimingError, match="'a' is add_time"):
        run_in_thread(work)


def test_t8_no_pass_is_lost_between_threads(timing):
    num_threads, num_passes = 4, 2000
    barrier = threading.Barrier(num_threads)

    def work():
        barrier.wait()
        for _ in range(num_passes):
            with timing.add_time("a"), timing.add_time("b"):
                pass

    threads = [threading.Thread(target=work) for _ in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    a = children(timing)["a"]
    assert a["count"] == a["children"]["b"]["count"] == num_threads * num_passes


def test_t8_the_last_pass_of_timeit_is_the_one_that_ended_last(timing, clock):
    with timing.timeit("a"):
        clock.pass_s(1)

        def work():
            with timing.timeit("a"):
                clock.pass_s(5)

        run_in_thread(work)
        clock.pass_s(1)
    assert timing["a"] == 7.0


def test_a_timing_is_freed_with_its_threads_trees(make_timing):
    timing = make_timing()
    with timing.add_time("a"):
        pass
    gone = weakref.ref(timing._recorder)
    del timing
    with make_timing().add_time("another"):  # the context remembers the block entered last
        pass
    gc.collect()
    assert gone() is None


def test_a_new_thread_has_the_timing_of_the_process(timing):
    seen = []
    previous = set_timing(timing)
    run_in_thread(lambda: seen.append(get_timing()))
    set_timing(previous)
    assert seen == [previous]
    set_timing(timing, process_wide=True)
    run_in_thread(lambda: seen.append(get_timing()))
    set_timing(previous, process_wide=True)
    assert seen == [previous, timing]
    assert get_timing() is previous


# T9


def test_t9_generators_leave_blocks_out_of_order(timing, clock):
    def generate(key):
        with timing.add_time(key):
            clock.pass_s(1)
            yield
            clock.pass_s(1)

    first, second = generate("first"), generate("second")
    next(first)  # 0 to 1
    next(second)  # 1 to 2, inside first
    assert [block.key for block in get_open_blocks()] == ["second", "first"]
    assert next(first, "done") == "done"  # first ends at 3
    assert [block.key for block in get_open_blocks()] == ["second"]
    clock.spend(timing, "third", 1)  # inside second, which is open
    assert next(second, "done") == "done"  # second ends at 5
    assert get_open_blocks() == []
    clock.spend(timing, "fourth", 1)
    tree = children(timing)
    assert list(tree) == ["first", "fourth"]
    assert tree["first"]["total"] == 3.0
    second = tree["first"]["children"]["second"]
    assert second["total"] == 4.0
    assert second["children"]["third"]["total"] == 1.0


def test_t9_two_generators_of_one_key_keep_their_own_durations(timing, clock):
    def generate(seconds):
        with timing.add_time("g"):
            yield
            clock.pass_s(seconds)

    one, two = generate(1), generate(2)
    next(one)
    next(two)
    next(one, None)
    next(two, None)
    outer = children(timing)["g"]
    assert outer["total"] == 1.0
    assert outer["children"]["g"]["total"] == 3.0


def test_t9_a_generator_closed_early_closes_its_block(timing, clock):
    def generate():
        with timing.add_time("g"):
            yield

    generator = generate()
    with timing.add_time("a"):
        next(generator)
        clock.pass_s(1)
    generator.close()
    clock.spend(timing, "b", 1)
    assert list(children(timing)) == ["a", "b"]
    assert timing["g"] == 1.0


def test_t9_a_generator_may_end_in_another_thread(timing, clock):
    def generate():
        with timing.add_time("g"):
            yield
            clock.pass_s(2)

    generator = generate()
    next(generator)
    run_in_thread(lambda: next(generator, None))
    assert get_open_blocks() == []
    assert timing["g"] == 2.0
    clock.spend(timing, "next", 1)
    assert list(children(timing)) == ["g", "next"]


def test_t9_overlapping_generators_leave_no_chain_of_closed_blocks(timing):
    def generate():
        with timing.add_time("g"):
            yield

    generators = [generate()]
    next(generators[0])
    for _ in range(50):
        generators.append(generate())
        next(generators[-1])
        next(generators.pop(0), None)
    num_linked, block = 0, get_open_blocks()[0]
    while block is not None:
        num_linked, block = num_linked + 1, block.outer
    generators[0].close()
    assert num_linked <= 3


def test_t9_nesting_in_asyncio_follows_the_task(timing, clock):
    async def work(key, inner):
        with timing.add_time(key):
            await asyncio.sleep(0)
            clock.spend(timing, inner, 1)
            await asyncio.sleep(0)

    async def main():
        with timing.add_time("main"):
            await asyncio.gather(work("one", "x"), work("two", "y"))

    asyncio.run(main())
    tree = children(timing)
    assert list(tree) == ["main"]
    one, two = (tree["main"]["children"][key] for key in ("one", "two"))
    assert list(one["children"]) == ["x"]
    assert list(two["children"]) == ["y"]
    assert one["total"] == two["total"] == tree["main"]["total"] == 2.0
    assert "is_parallel" not in one


def test_t9_many_tasks_in_one_node_keep_their_own_durations(timing, clock):
    num_tasks = 300

    async def work(num_rounds):
        with timing.add_time("task"):
            for _ in range(num_rounds):
                await asyncio.sleep(0)
        clock.spend(timing, "after", 0)

    async def main():
        tasks = [asyncio.create_task(work(index % 7)) for index in range(num_tasks)]
        for _ in range(10):
            clock.pass_s(1)
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    asyncio.run(main())
    task = children(timing)["task"]
    assert task["count"] == num_tasks
    assert task["total"] == sum(float(index % 7) for index in range(num_tasks))
    assert "after" in children(timing)


def test_t9_a_task_that_outlives_its_block_nests_in_what_is_still_open(timing, clock):
    async def work(release):
        await release.wait()
        clock.spend(timing, "late", 1)

    async def main():
        release = asyncio.Event()
        with timing.add_time("outer"):
            with timing.add_time("creates"):
                task = asyncio.create_task(work(release))
            release.set()
            await task
        with timing.add_time("last"):
            pass

    asyncio.run(main())
    tree = children(timing)
    assert list(tree) == ["outer", "last"]
    assert list(tree["outer"]["children"]) == ["creates", "late"]


def test_t9_tasks_that_start_each_other_do_not_grow(timing):
    lengths = []

    async def work(num_left, done):
        with timing.add_time("step"):
            num_linked, block = 0, get_open_blocks()[0]
            while block is not None:
                num_linked, block = num_linked + 1, block.outer
            lengths.append(num_linked)
            if num_left:
                tasks.append(asyncio.create_task(work(num_left - 1, done)))
            else:
                done.set()

    async def main():
        done = asyncio.Event()
        tasks.append(asyncio.create_task(work(50, done)))
        await done.wait()
        await asyncio.gather(*tasks)

    tasks = []
    asyncio.run(main())
    assert max(lengths) <= 3


def test_t9_async_generators(timing, clock):
    async def generate():
        with timing.add_time("generator"):
            for _ in range(2):
                clock.pass_s(1)
                yield

    async def main():
        generator = generate()
        with timing.add_time("consumer"):
            await anext(generator)
        await generator.aclose()
        clock.spend(timing, "next", 1)

    asyncio.run(main())
    assert list(children(timing)) == ["consumer", "next"]
    assert children(timing)["consumer"]["children"]["generator"]["total"] == 1.0


def test_t9_a_cancelled_task_closes_its_block(timing, clock):
    async def work():
        with timing.add_time("work"):
            await asyncio.sleep(3600)

    async def main():
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        clock.pass_s(2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert timing["work"] == 2.0
    assert get_open_blocks() == []


# T11


@pytest.mark.parametrize("method", ["add_time", "timeit", "time_avg"])
def test_t11_reading_counts_the_open_part(timing, clock, method):
    with getattr(timing, method)("a"):
        clock.pass_s(1)
        assert timing["a"] == 1.0
        with timing.add_time("b"):
            clock.pass_s(1)
            assert str(timing) == "Test tree view:\na: 2.0000\n  b: 1.0000"
            assert children(timing)["a"]["count"] == 1
    assert timing["a"] == 2.0
    assert children(timing)["a"]["count"] == 1


def test_t11_reading_changes_nothing(timing, clock):
    with timing.add_time("a"):
        for _ in range(3):
            clock.pass_s(1)
            assert timing.to_dict() == timing.to_dict()
    assert timing["a"] == 3.0


def test_t11_merging_and_pickling_count_the_open_part(timing, make_timing, clock):
    with timing.add_time("a"):
        clock.pass_s(2)
        merged = Timing.merged("Merged", [timing])
        arrived = pickle.loads(pickle.dumps(timing))
        clock.pass_s(1)
    assert merged["a"] == arrived["a"] == 2.0
    assert timing["a"] == 3.0


def test_t11_merging_into_a_timing_with_open_blocks(timing, make_timing, clock):
    other = make_timing("Other", clock_ns=clock)
    clock.spend(other, "a", 5)
    with timing.add_time("a"):
        timing.merge(other)
        clock.spend(timing, "b", 1)
    assert timing["a"] == 6.0
    assert children(timing)["a"]["children"]["b"]["total"] == 1.0


def test_t11_a_block_open_across_many_others_keeps_its_duration(timing, clock):
    def generate():
        with timing.add_time("long"):
            yield

    generator = generate()

    async def hold():
        next(generator)
        await asyncio.sleep(0)

    async def main():
        held = asyncio.create_task(hold())
        await asyncio.sleep(0)
        for _ in range(500):
            clock.spend(timing, "long", 1)
        await held

    asyncio.run(main())
    assert children(timing)["long"]["total"] == 1000.0
    clock.pass_s(1)
    generator.close()
    clock.pass_s(1)
    node = children(timing)["long"]
    assert (node["count"], node["total"], node["max"], node["last"]) == (501, 1001.0, 501.0, 501.0)


def test_t11_reading_while_other_threads_record_is_an_exact_cut(make_timing):
    timing = make_timing()
    stop = threading.Event()

    def work():
        while not stop.is_set():
            with timing.add_time("a"):
                for _ in range(3):
                    with timing.add_time("b"), timing.add_time("c"):
                        pass

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            for node in timing.snapshot().walk():
                inside_ns = sum(child.statistics.total_ns for child in node.children.values())
                if node.key:
                    assert node.statistics.total_ns >= inside_ns
            str(timing)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_t11_the_clock_itself_may_read(make_timing):
    """A reader that comes in the middle of entering a block, as a signal handler may, finds a sound tree."""
    seen = []

    def clock_ns():
        if timing is not None and not seen_enough():
            seen.append(None)
            seen.append(str(timing))
        return len(seen)

    def seen_enough():
        return len(seen) > 40 or (seen and seen[-1] is None)

    timing = None
    timing = make_timing("Test", clock_ns=clock_ns)
    for _ in range(10):
        with timing.add_time("a"), timing.add_time("b"):
            pass
    assert any(text and "b: " in text for text in seen)
