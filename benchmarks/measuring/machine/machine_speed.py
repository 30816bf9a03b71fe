"""A fixed piece of work, by which a machine that becomes slower is told from a run that does.

On a machine that is shared, as most rented ones are, neighbours take caches and the way to memory away for minutes.
Nothing on this side shows that (no stolen time, no lower clock), but every process takes more processor time for the
same, this one, too.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

__all__ = ["FixedWork"]

_NUM_VALUES = 500_000  # in each of three arrays, 12 MB in all: more than the caches of a core
_NUM_PASSES = 5


class FixedWork:
    """Takes numbers in a random order: as sensitive to caches and memory as environments and networks."""

    def __init__(self) -> None:
        self._order = np.random.default_rng(0).permutation(_NUM_VALUES)
        self._values, self._taken = np.ones(_NUM_VALUES), np.empty(_NUM_VALUES)

    def measure(self) -> float:
        """Return the processor seconds that it takes now; the median of a few passes."""
        passes = []
        for _ in range(_NUM_PASSES):
            begin_s = time.thread_time()
            np.take(self._values, self._order, out=self._taken, mode="clip")
            passes.append(time.thread_time() - begin_s)
        return statistics.median(passes)
