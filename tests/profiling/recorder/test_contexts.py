"""The rule T9 where contexts are copied: a task or copy nests in what was open when it was made, with each recorder."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import random
import threading
import tracemalloc

import pytest

from sample_profiler.profiling import TWIN, Timing
from sample_profiler.profiling.recorder.choice import get_open_blocks

VARIABLES = [contextvars.ContextVar(f"variable {number}") for number in range(40)]


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def turn(loop):
    loop.run_until_complete(asyncio.sleep(0))


def paths(timing):
    """Return the paths of all blocks."""
    found, stack = set(), [((), timing.snapshot())]
    while stack:
        path, node = stack.pop()
        for key, child in node.children.items():
            found.add("/".join((*path, key)))
            stack.append(((*path, key), child))
    return found


async def poll(timing, key):
    await asyncio.sleep(0)
    with timing.add_time(key):
        await asyncio.sleep(0)


async def poll_on(timing, has_variable):
    if has_variable:
        VARIABLES[0].set(1)
    while True:
        await asyncio.sleep(0)
        await poll(timing, "poll")


@pytest.mark.parametrize("has_variable", [False, True])
@pytest.mark.parametrize("has_begun", [False, True])
def test_t9_a_task_does_not_nest_in_a_block_that_is_entered_after_its_making(timing, loop, has_variable, has_begun):
    with timing.add_time("outer"):
        task = loop.create_task(poll_on(timing, has_variable))
        if has_begun:
            turn(loop)
        for step in ("step", "next step"):
            with timing.add_time(step), timing.add_time("inner"):
                for _ in range(4):
                    turn(loop)
    with timing.add_time("last"):
        for _ in range(4):
            turn(loop)
        task.cancel()
        turn(loop)
    steps = {"outer/step", "outer/step/inner", "outer/next step", "outer/next step/inner"}
    assert paths(timing) == {"outer", "outer/poll", "last", "poll"} | steps


def test_t9_tasks_made_before_inside_and_after_blocks(timing, loop):
    tasks = [loop.create_task(poll(timing, "before"))]
    with timing.add_time("outer"):
        tasks.append(loop.create_task(poll(timing, "in outer")))
        with timing.add_time("closed"):
            tasks.append(loop.create_task(poll(timing, "in closed")))
        with timing.add_time("inner"):
            tasks.append(loop.create_task(poll(timing, "in inner")))
            for _ in range(5):
                turn(loop)
        tasks.append(loop.create_task(poll(timing, "late")))
    tasks.append(loop.create_task(poll(timing, "after")))
    with timing.add_time("last"):
        loop.run_until_complete(asyncio.gather(*tasks))
    assert paths(timing) == {
        *("outer", "outer/in outer", "outer/closed", "outer/in closed", "outer/inner", "outer/inner/in inner"),
        *("before", "late", "after", "last"),
    }


def test_t9_copied_contexts_keep_what_was_open_whatever_happens_to_the_own_one(timing):
    def spend(key):
        with timing.add_time(key):
            pass

    copies = {"start": contextvars.copy_context()}
    with timing.add_time("a"):
        copies["in a"] = contextvars.copy_context()
        VARIABLES[1].set(1)
        copies["in a, later"] = contextvars.copy_context()
        copies["copy of start"] = copies["start"].copy()
        VARIABLES[1].set(2)
        with timing.add_time("b"):
            copies["in b"] = contextvars.copy_context()
            for name, copy in copies.items():
                copy.run(spend, name)
                copy.run(VARIABLES[2].set, 1)
            contextvars.copy_context().run(contextvars.copy_context().run, spend, "two levels")
            contextvars.Context().run(spend, "empty")
    for name, copy in copies.items():
        copy.run(spend, f"{name}, again")
    inside = {"a/in a", "a/in a, later", "a/b", "a/b/in b", "a/b/two levels"}
    outside = {"a", "start", "copy of start", "empty"} | {f"{name}, again" for name in copies}
    assert paths(timing) == inside | outside


def test_t9_a_coroutine_sent_from_a_thread_nests_in_the_task_that_uses_the_thread(timing):
    async def answer():
        with timing.add_time("answer"):
            await asyncio.sleep(0)

    def ask(loop):
        with timing.add_time("ask"):
            asyncio.run_coroutine_threadsafe(answer(), loop).result(30)

    async def main():
        with timing.add_time("main"):
            for _ in range(2):
                await asyncio.to_thread(ask, asyncio.get_running_loop())

    asyncio.run(main())
    assert paths(timing) == {"main", "main/answer", "ask"}


def test_t9_a_generator_goes_on_in_a_task(timing, loop):
    def generate():
        with timing.add_time("generator"):
            yield
            with timing.add_time("inside"):
                yield

    async def take(generator):
        for _ in generator:
            await asyncio.sleep(0)

    with timing.add_time("before"):
        generator = generate()
        next(generator)
        task = loop.create_task(take(generator))
    with timing.add_time("step"):
        turn(loop)
        loop.run_until_complete(task)
    assert get_open_blocks() == []
    assert paths(timing) == {"before", "before/generator", "before/generator/inside", "before/generator/step"}


class Program:
    """Blocks, variables and copies of contexts at random, in this thread and two more, the same for the same seed."""

    def __init__(self, timing, seed):
        self.timing = timing
        self.random = random.Random(seed)
        self.num_variables = self.random.choice([0, 1, 3, 40])
        self.num_left = 100
        self.seen, self.open, self.contexts, self.entered = [], [], [contextvars.Context()], []
        self.actions = [
            *[self.enter] * 6,
            *[self.leave] * 3,
            *[self.copy] * 3,
            *[self.set] * 2,
            *[self.run_in_context] * 3,
            self.copy_copy,
            self.forget,
            self.run_in_thread,
        ]

    def act(self, num_actions):
        for _ in range(num_actions):
            if self.num_left > 0:
                self.num_left -= 1
                self.random.choice(self.actions)()
        self.seen.append([block.key for block in get_open_blocks()])

    def enter(self):
        block = self.timing.add_time(str(self.num_left))
        block.__enter__()
        self.open.append(block)

    def leave(self):
        if self.open:
            self.open.pop(self.random.choice([-1, 0])).__exit__(None, None, None)

    def copy(self):
        self.contexts.append(contextvars.copy_context())

    def copy_copy(self):
        self.contexts.append(self.random.choice(self.contexts).copy())

    def set(self):
        # In another thread, what is set alone, without a block, goes unnoticed by the compiled recorder.
        if self.num_variables and threading.current_thread() is self.thread:
            VARIABLES[self.random.randrange(self.num_variables)].set(self.num_left)

    def forget(self):
        if len(self.contexts) > 1:
            del self.contexts[self.random.randrange(1, len(self.contexts))]

    def run_in_context(self):
        context = self.random.choice(self.contexts)
        if not any(context is other for other in self.entered):  # not `in`: contexts with equal variables are equal
            self.entered.append(context)
            context.run(self.act, 6)
            self.entered.pop()

    def run_in_thread(self):
        thread = threading.Thread(target=self.random.choice([self.run_in_context, lambda: self.act(6)]))
        thread.start()
        thread.join()

    def run(self):
        self.thread = threading.current_thread()
        while self.num_left:
            self.act(6)
        while self.open:
            self.leave()


@pytest.mark.parametrize("seed", range(60))
def test_t9_both_recorders_nest_alike_whatever_is_copied_and_entered(seed):
    if TWIN != "compiled":
        pytest.skip("the compiled recorder is not here")
    from pure_timing import PureTiming

    def run(timing_class):
        program = Program(timing_class(), seed)
        thread = threading.Thread(target=program.run)  # with a context of its own that nobody has used
        thread.start()
        thread.join()
        return program.seen, paths(program.timing)

    assert run(PureTiming) == run(Timing)


def test_copies_of_contexts_leak_nothing(timing):
    def spend():
        with timing.add_time("d"):
            pass

    def work(num_passes):
        for number in range(num_passes):
            with timing.add_time("a"):
                copy = contextvars.copy_context()
                with timing.add_time("b"):
                    VARIABLES[0].set(number)
                    with timing.add_time("c"):
                        copy.run(spend)

    def in_thread(num_passes):
        thread = threading.Thread(target=work, args=(num_passes,))
        thread.start()
        thread.join()
        timing.snapshot()
        gc.collect()

    in_thread(300)
    tracemalloc.start()
    try:
        in_thread(300)
        before = tracemalloc.get_traced_memory()[0]
        in_thread(3000)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 20_000
