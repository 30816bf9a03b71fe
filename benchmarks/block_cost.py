"""Print what one block costs: nanoseconds per ``with timing.add_time(...)``, around nothing.

The smallest of several repeats is shown, since everything that disturbs a run only makes it longer, and what the loop
itself costs is taken off. ``--peer-python`` runs the same loops with another tool's Timing, in its own environment.
"""

from __future__ import annotations

import argparse
import subprocess
import timeit
from collections.abc import Callable
from typing import Any

REPEATS = 7

PEER_SCRIPT = """
import timeit
from sample_factory.utils.timing import Timing
timing = Timing()
def plain(num_passes):
    for _ in range(num_passes):
        with timing.add_time("a"):
            pass
def nested(num_passes):
    with timing.add_time("outer"):
        for _ in range(num_passes):
            with timing.add_time("b"):
                with timing.add_time("c"):
                    pass
for name, function, num_blocks in (("unnested", plain, 1), ("nested", nested, 2)):
    seconds = min(timeit.repeat(lambda: function({num_passes}), number=1, repeat={repeats}))
    print(f"{{name}} {{seconds / {num_passes} / num_blocks * 1e9:.0f}}")
"""


def unnested(timing: Any, num_passes: int) -> None:
    """Open one block again and again at the root."""
    for _ in range(num_passes):
        with timing.add_time("a"):
            pass


def nested(timing: Any, num_passes: int) -> None:
    """Open a block inside a block inside a block that stays open."""
    with timing.add_time("outer"):
        for _ in range(num_passes):
            with timing.add_time("b"), timing.add_time("c"):
                pass


def averaged(timing: Any, num_passes: int) -> None:
    """Open one block with a window again and again."""
    for _ in range(num_passes):
        with timing.time_avg("d", average=10):
            pass


def empty(_: Any, num_passes: int) -> None:
    """Only loop."""
    for _ in range(num_passes):
        pass


def cost_ns(function: Callable[[Any, int], None], timing: Any, num_passes: int) -> float:
    """Return the smallest time of one pass of the loop."""
    return min(timeit.repeat(lambda: function(timing, num_passes), number=1, repeat=REPEATS)) / num_passes * 1e9


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num_passes", type=int, default=100_000)
    parser.add_argument("--peer-python", help="a Python that has sample_factory installed, to compare with")
    arguments = parser.parse_args()

    from sample_profiler.profiling import Timing

    timing = Timing()
    loop_ns = cost_ns(empty, timing, arguments.num_passes)
    for function, num_blocks in ((unnested, 1), (nested, 2), (averaged, 1)):
        block_ns = (cost_ns(function, timing, arguments.num_passes) - loop_ns) / num_blocks
        print(f"sample_profiler {function.__name__}: {block_ns:.0f} ns per block")
    if arguments.peer_python:
        script = PEER_SCRIPT.format(num_passes=arguments.num_passes, repeats=REPEATS)
        result = subprocess.run(
            [arguments.peer_python, "-c", script], capture_output=True, text=True, check=True, timeout=600
        )
        for line in result.stdout.splitlines():
            if line.startswith(("unnested", "nested")):
                name, value = line.split()
                print(f"peer {name}: {value} ns per block")


if __name__ == "__main__":
    main()
