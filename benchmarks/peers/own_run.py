"""Train with sample_profiler: `python -m benchmarks.peers.own_run OUTPUT doom|atari|gym|mujoco FLAG…`.

What the training script of the family does, with an observer that knows the counters of the run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sample_profiler import RunObserver


def main() -> int:
    """Train and watch."""
    # Here and not above: the run's processes import this module again, and shall be no larger for it.
    from benchmarks.measuring.runs.families import FAMILIES
    from benchmarks.peers.watching import Watch
    from sample_profiler import train

    output, name, *flags = sys.argv[1:]
    family = FAMILIES[name]
    family.register()
    observer, read_frames = _make_peek()
    with Watch(output, read_frames):
        return train(flags, extra_parts=family.parts, defaults=family.defaults, observers=[observer])


def _make_peek() -> tuple[RunObserver, Callable[[], int]]:
    """Return an observer, and what tells how many frames the run that it is told of has been trained on."""
    from sample_profiler import RunObserver
    from sample_profiler.components.messages import Counters
    from sample_profiler.run.runner import Runner

    found: list[Counters] = []

    class Peek(RunObserver):
        def on_init(self, runner: Runner) -> None:
            found.append(runner.counters)

    return Peek(), lambda: sum(int(counters.trained_frames.sum()) for counters in found)


if __name__ == "__main__":
    sys.exit(main())
