"""Owns captures of `torch.profiler` that count rollouts, in the process of the rollout worker that is captured.

A capture begins when no rollout is under way, so every rollout that it counts is whole, and no warm-up rollout reaches
into the trace. Where a worker has several groups of
environments, these wait for each other once; and at the end, so that no further rollout begins in the trace.

PyTorch is imported when a capture is asked for, not before.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from sample_profiler.errors import CaptureError
from sample_profiler.files import written_whole
from sample_profiler.profiling import ranges
from sample_profiler.profiling.captures.rollouts.request import ProfileRequest
from sample_profiler.profiling.captures.rollouts.trace_notes import add_note, has_activity
from sample_profiler.profiling.captures.torch_profile import (
    TorchProfile,
    check_none_is_prepared,
    is_call_hook_taken,
    name_rival_of_stacks,
)
from sample_profiler.profiling.captures.torch_state import activities_in_use, is_torch_capturing
from sample_profiler.profiling.timing import Timing
from sample_profiler.switches import RANGES_VARIABLE

__all__ = ["METADATA_KEY", "ROLLOUT_END", "ProfiledWorker", "RolloutProfiler"]

logger = logging.getLogger(__name__)

ROLLOUT_END = "RolloutProfiler.rollout_end"
"""A very short range in the trace at the end of each rollout that counts."""

METADATA_KEY = "sample_profiler"
"""The key under which a trace says what it is of."""

_SILENT_S = 600.0  # that a worker may give no sign of life: a long trace takes minutes to write
_BLOCK = "rollout_profiler"


class ProfiledWorker(Protocol):
    """What a capture needs of the worker."""

    timing: Timing

    def beat(self, patience_s: float) -> None:
        """Tell whoever watches the worker for how long it may be silent now, if for longer than usual."""

    def at_rollout_boundary(self, callback: Callable[[], None], most_begun: int | None = None) -> None:
        """Call `callback` as soon as no rollout is under way, and at most so many have begun; let none begin before."""


class RolloutProfiler:
    """A capture: warm-up, then the rollouts that count, then the trace.

    Args:
        worker: who is captured.
        worker_idx: its index.
        request: what is asked for.

    Attributes:
        trace: the trace, once it has been written.
        is_over: it has ended, in one way or another.

    Raises:
        ImportError: there is no PyTorch.
        ValueError: PyTorch can record none of the activities here, or another profiler is in its way.
    """

    def __init__(self, worker: ProfiledWorker, worker_idx: int, request: ProfileRequest) -> None:
        other = name_rival_of_stacks() if request.with_stack and not TorchProfile.is_any_on else None
        if other is not None:
            raise ValueError(
                f"with_stack=True, and another profiler ({other}) runs in rollout worker {worker_idx}, which would "
                "lose its place: wait until that has ended, or use with_stack=False"
            )
        if not TorchProfile.is_any_on:
            check_none_is_prepared()
        self.trace: Path | None = None
        self.is_over = False
        self._worker = worker
        self._worker_idx = worker_idx
        self._request = request
        self._activities = _find_activities(request.activities)
        self._profiler: Any = None  # a TorchProfile, once it has begun
        self._gave_way = False
        self._num_warmup = 0
        self._rollouts: list[int] = []
        self._num_wanted = request.num_rollouts - request.warmup_rollouts
        with worker.timing.add_time(_BLOCK):
            _warm_up(self._activities)

    @property
    def num_left(self) -> float:
        """How many rollouts are still to be captured; infinity while the capture has not begun."""
        return math.inf if self._profiler is None or self.is_over else self._num_wanted - len(self._rollouts)

    def begin(self) -> None:
        """Begin to count; without warm-up, before the worker's next rollout begins."""
        if not self._request.warmup_rollouts:
            self._begin_at_boundary()

    def count(self, rollout: int) -> None:
        """Count a rollout that has ended."""
        if self._profiler is None:
            self._num_warmup += 1
            if self._num_warmup >= self._request.warmup_rollouts:
                self._begin_at_boundary()
            return
        if not self._gave_way:  # else somebody else's would see the mark
            self._rollouts.append(rollout)
            _mark(ROLLOUT_END)
        if self._gave_way or not self.num_left:
            self.end()

    def end(self) -> None:
        """Do what `finish` does; what goes wrong is told in the log, and harms nobody else."""
        try:
            self.finish()
        except Exception:
            logger.exception("A capture has not ended well")

    def finish(self) -> Path | None:
        """End the capture and write its trace; doing so again does nothing.

        Returns:
            The trace; None if it ended before anything could be captured, or had to give way to another profiler.

        Raises:
            OSError: the trace cannot be written.
        """
        if self.is_over:
            return self.trace
        self.is_over = True
        if self._profiler is None:
            logger.warning(
                "The capture of rollout worker %d ended after %d of %d warm-up rollouts: there is no trace",
                self._worker_idx,
                self._num_warmup,
                self._request.warmup_rollouts,
            )
            return None
        with self._worker.timing.add_time(_BLOCK):
            self._worker.beat(_SILENT_S)
            self._stop()
            self._worker.beat(0.0)
        return self.trace

    def _stop(self) -> None:
        if not self._gave_way:
            self._profiler.profile.add_metadata_json(METADATA_KEY, json.dumps(self._describe()))
        try:
            self._profiler.stop()
        except CaptureError as error:
            logger.warning("There is no trace of rollout worker %d: %s", self._worker_idx, error)
            return
        self.trace = self._export()
        logger.info(
            "Wrote the trace of %d rollouts of rollout worker %d: %s", len(self._rollouts), self._worker_idx, self.trace
        )
        if self._request.on_trace_ready is not None:
            self._request.on_trace_ready(self._profiler.profile)

    def _begin_at_boundary(self) -> None:
        if not self._has_to_wait():
            self._worker.at_rollout_boundary(self._begin, self._num_wanted)

    def _begin(self) -> None:
        if self.is_over or self._profiler is not None or self._has_to_wait():
            return
        with self._worker.timing.add_time(_BLOCK):
            try:
                self._start()
            except Exception as error:  # in the middle of somebody's rollouts
                logger.warning("The rollouts of worker %d cannot be captured: %s", self._worker_idx, error)
                self.end()

    def _has_to_wait(self) -> bool:
        # In one process PyTorch can make one capture at a time: with all workers in it, they take turns.
        return is_torch_capturing() or (self._request.with_stack and is_call_hook_taken())

    def _start(self) -> None:
        request = self._request
        own = TorchProfile(
            self._note_giving_way,
            activities=self._activities,
            record_shapes=request.record_shapes,
            profile_memory=request.profile_memory,
            with_stack=request.with_stack,
            with_flops=request.with_flops,
        )
        own.start()
        self._profiler = own

    def _note_giving_way(self) -> None:
        self._gave_way = True

    def _describe(self) -> dict[str, Any]:
        return {
            "worker": self._worker_idx,
            "process": os.getpid(),
            "rollouts": self._rollouts,
            "warmup_rollouts": self._request.warmup_rollouts,
            "activities": [activity.name.lower() for activity in self._activities],
            "named_ranges": "unarmed" if isinstance(ranges.profile_range(""), contextlib.nullcontext) else "armed",
            "monotonic_ns": time.monotonic_ns(),
            "time_ns": time.time_ns(),
        }

    def _export(self) -> Path:
        """Write the trace: under another name first, so that a trace that is there is whole."""
        path = Path(self._request.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as partial:
            self._profiler.profile.export_chrome_trace(str(partial))
            if not partial.exists() or not partial.stat().st_size:
                raise OSError(f"PyTorch has not written the trace {path}: is the disk full?")
            if not has_activity(partial, ignored=(ROLLOUT_END,)):
                note = (
                    f"nothing was recorded in {len(self._rollouts)} rollouts of rollout worker {self._worker_idx}: it "
                    f"ran no PyTorch operator, and no named range; set {RANGES_VARIABLE}=1 before Python "
                    "starts, or capture with with_stack=True"
                )
                logger.warning("The trace %s is empty: %s", path, note)
                add_note(partial, METADATA_KEY, note)
        return path


def _find_activities(names: tuple[str, ...] | None) -> list[Any]:
    import torch
    from torch.profiler import ProfilerActivity

    known = {"cpu": ProfilerActivity.CPU, "cuda": ProfilerActivity.CUDA}
    if names is None:
        names = activities_in_use()
    supported = torch.profiler.supported_activities()  # type: ignore[no-untyped-call]
    usable = [name for name in names if known[name] in supported and (name != "cuda" or torch.cuda.is_available())]
    missing = [name for name in names if name not in usable]
    if not usable:
        raise ValueError(
            f"no activity can be recorded: PyTorch offers no {' or '.join(missing)} here; use activities=['cpu']"
        )
    if missing:
        logger.warning("PyTorch offers no %s here: only %s is recorded", " or ".join(missing), ", ".join(usable))
    return [known[name] for name in usable]


def _warm_up(activities: list[Any]) -> None:
    """Make PyTorch's profiler load what it needs, most of a second, before rollouts are measured.

    Raises:
        ValueError: somebody else's is at work in this process.
    """
    if not TorchProfile.is_any_on:
        own = TorchProfile(activities=activities)
        own.start()
        own.stop()


def _mark(name: str) -> None:
    from torch.profiler import record_function

    with record_function(name):
        pass
