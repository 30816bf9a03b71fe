"""One way to spend time on blocks, in a process of its own: reads how many passes, answers with nanoseconds for each.

``python block_loops.py VARIANT [FOLDER]``. Run as a file, not as a module, so that a peer's own Python can run it: it
imports nothing but what its variant needs. One round is one line in (a number of passes) and one line out (what a pass
costs more than the empty loop).
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Loop = Callable[[int], None]


def around_nothing(make_block: Callable[[str], Any]) -> Loop:
    """Return a loop that opens and closes one block again and again."""

    def loop(num_passes: int) -> None:
        for _ in range(num_passes):
            with make_block("a"):
                pass

    return loop


def method_of(timing: Any) -> Loop:
    """Return the same with the method looked up each time, as code that measures does."""

    def loop(num_passes: int) -> None:
        for _ in range(num_passes):
            with timing.add_time("a"):
                pass

    return loop


def recorder(folder: str, *, with_file: bool) -> Any:
    """Return a Timing of this package, in a record file with a ring or in none."""
    from sample_profiler.profiling import Timing
    from sample_profiler.profiling.recording.file import RecordFile

    timing = Timing()
    if with_file:
        file = RecordFile(Path(folder, "blocks.rec"), process_name="blocks")
        file.attach(timing, "blocks")
    return timing


def flow(folder: str) -> Loop:
    """Return a loop of flow points in an open block."""
    timing = recorder(folder, with_file=True)
    timing.add_time("open").__enter__()

    def loop(num_passes: int) -> None:
        for number in range(num_passes):
            timing.mark_flow(number)

    return loop


def decorated(_: str) -> Loop:
    """Return a loop of calls of a function with a decorator that nobody armed, which has to be the function itself."""
    from sample_profiler.profiling.ranges import profile_range

    def function() -> None:
        pass

    measured = profile_range("x")(function)
    if measured is not function:
        raise SystemExit("profile_range costs something though nobody armed it: it returns another function")

    def loop(num_passes: int) -> None:
        for _ in range(num_passes):
            measured()

    return loop


def sample_factory(_: str) -> Loop:
    """Return a loop over Sample Factory's Timing."""
    from sample_factory.utils.timing import Timing

    return method_of(Timing())


def ml_agents(_: str) -> Loop:
    """Return a loop over ML-Agents' timers; by their path, since their package wants more than they do."""
    package = importlib.util.find_spec("mlagents_envs")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("this Python has no mlagents_envs")
    path = Path(next(iter(package.submodule_search_locations)), "timers.py")
    spec = importlib.util.spec_from_file_location("ml_agents_timers", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be imported")
    timers = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = timers
    spec.loader.exec_module(timers)
    return around_nothing(timers.hierarchical_timer)


def plain_call(_: str) -> Loop:
    """Return a loop of calls of an undecorated function."""

    def function() -> None:
        pass

    def loop(num_passes: int) -> None:
        for _ in range(num_passes):
            function()

    return loop


VARIANTS: dict[str, Callable[[str], Loop]] = {
    "ring": lambda folder: method_of(recorder(folder, with_file=True)),
    "no_file": lambda folder: method_of(recorder(folder, with_file=False)),
    "flow": flow,
    "decorated": decorated,
    "plain_call": plain_call,
    "sample_factory": sample_factory,
    "ml_agents": ml_agents,
}


def empty(num_passes: int) -> None:
    """Only loop."""
    for _ in range(num_passes):
        pass


def seconds_of(loop: Loop, num_passes: int) -> float:
    """Return how long a loop takes."""
    start_ns = time.perf_counter_ns()
    loop(num_passes)
    return (time.perf_counter_ns() - start_ns) / 1e9


def main(variant: str, folder: str) -> None:
    """Answer until there are no more questions."""
    loop = VARIANTS[variant](folder)
    for line in sys.stdin:
        num_passes = int(line)
        seconds = seconds_of(loop, num_passes) - seconds_of(empty, num_passes)
        print(seconds / num_passes * 1e9, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
