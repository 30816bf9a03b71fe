"""Owns what is done after each rollout of a worker: a hook is called, and a capture, where one is on, counts it."""

from __future__ import annotations

import math
from collections.abc import Callable

from sample_profiler.profiling.captures.rollouts.profiler import ProfiledWorker, RolloutProfiler
from sample_profiler.profiling.captures.rollouts.request import ProfileRequest

__all__ = ["PostCollectHook", "RolloutCaptures"]

PostCollectHook = Callable[[int, int], object]
"""(index of the worker, number of the rollout counted from 0): is called after each rollout of a worker."""

_HOOK_BLOCK = "post_collect_hook"


class RolloutCaptures:
    """The captures of a worker's rollouts, one at a time, and its hook, which stays whatever is captured.

    Args:
        worker: whose rollouts these are.
        worker_idx: its index.

    Attributes:
        hook: is called after each rollout; None: nothing is.
    """

    def __init__(self, worker: ProfiledWorker, worker_idx: int) -> None:
        self.hook: PostCollectHook | None = None
        self._worker = worker
        self._worker_idx = worker_idx
        self._latest: RolloutProfiler | None = None

    @property
    def current(self) -> RolloutProfiler | None:
        """The capture that is on; None: none is."""
        return None if self._latest is None or self._latest.is_over else self._latest

    @property
    def num_rollouts_left(self) -> float:
        """How many more rollouts of the worker belong into a capture that is on; without one, infinity."""
        return math.inf if self._latest is None else self._latest.num_left

    def enable(self, request: ProfileRequest) -> None:
        """Begin a capture.

        Raises:
            ImportError: there is no PyTorch.
            ValueError: one is on already, another profiler is in its way, or PyTorch can record none of the activities
                here.
        """
        if self.current is not None:
            raise ValueError(
                f"a capture of rollout worker {self._worker_idx} is on already: end it with disable_profile()"
            )
        self._latest = RolloutProfiler(self._worker, self._worker_idx, request)
        self._latest.begin()

    def disable(self) -> str | None:
        """End the capture, if one is on, and return the name of its trace, if there is one.

        Raises:
            OSError: the trace cannot be written.
        """
        trace = self.current.finish() if self.current is not None else None
        return None if trace is None else str(trace)

    def end(self) -> None:
        """End the capture, if one is on; what goes wrong is told in the log, and harms nobody else."""
        if self.current is not None:
            self.current.end()

    def tell(self, rollout: int) -> None:
        """Take in that a rollout has ended; only what is the hook's own is billed to it."""
        if self.hook is not None:
            with self._worker.timing.add_time(_HOOK_BLOCK):
                self.hook(self._worker_idx, rollout)
        if self.current is not None:
            self.current.count(rollout)
