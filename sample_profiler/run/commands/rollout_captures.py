"""Owns how captures of rollouts are asked for, the same for a Collector and for the Runner of a live run."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sample_profiler.component_id import ROLLOUT_WORKER, ComponentId
from sample_profiler.profiling.captures.rollouts.request import ProfileOptions, plan_profiles

__all__ = ["ANSWER_S", "CapturesRollouts"]

ANSWER_S = 120.0  # importing PyTorch on a busy machine, or writing a long trace, takes a while
"""How long rollout workers may take to begin or end captures, all of them together."""


class CapturesRollouts(abc.ABC):
    """Whoever can ask rollout workers for captures; says how they are asked.

    Attributes:
        num_workers: number of rollout workers.
    """

    num_workers: int
    _run_folder: Path

    @abc.abstractmethod
    def _call_components(self, method: str, arguments: dict[str, tuple[Any, ...]]) -> list[Any]:
        """Call a command of components, each with its arguments, and return the values in their order.

        Raises:
            CommandError: a component raised.
            SampleProfilerError: one has failed, or has not answered within `ANSWER_S`.
        """

    def enable_profile(
        self,
        *,
        workers: Iterable[int] | None = None,
        num_rollouts: int = 3,
        warmup_rollouts: int = 1,
        save_path: str | Path | None = None,
        activities: Iterable[Any] | None = None,
        record_shapes: bool = True,
        profile_memory: bool = False,
        with_stack: bool = True,
        with_flops: bool = False,
        on_trace_ready: Callable[[Any], object] | None = None,
    ) -> None:
        """Capture some rollouts with `torch.profiler` in some workers; each writes a trace for Perfetto.

        The captures end by themselves. With ``--serial_mode=True`` all workers share a process: their captures take
        turns, and each shows what the others do meanwhile.

        Args:
            workers: which of them; None: worker 0.
            num_rollouts: after which each capture ends, warm-up included.
            warmup_rollouts: how many of them, at the front, are in no trace.
            save_path: where traces go, with ``{worker_idx}`` for the worker's index; None:
                ``profile/worker_{worker_idx}.json`` in the run's folder. A name that ends in ``.gz`` is compressed.
            activities: "cpu", "cuda", or members of `torch.profiler.ProfilerActivity`; None: what the worker uses.
            record_shapes: note the shapes of the arguments of operators.
            profile_memory: note allocations of tensors.
            with_stack: also record every call of a Python function.
            with_flops: estimate floating-point operations.
            on_trace_ready: is called in each worker with its `torch.profiler.profile`, after the trace was written.

        Raises:
            ValueError: the numbers do not fit each other; a worker that does not exist; an unknown activity; a
                save_path that cannot be formatted, or that several workers would write to; a function that cannot be
                sent to the workers.
            CommandError: a worker cannot be captured: a capture is on already, another profiler is in its way, or it
                can record nothing.
            SampleProfilerError: a worker has failed, or does not answer.
        """
        options = ProfileOptions(
            num_rollouts=num_rollouts,
            warmup_rollouts=warmup_rollouts,
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            on_trace_ready=on_trace_ready,
        )
        requests = plan_profiles(self.num_workers, self._run_folder, options, workers=workers, save_path=save_path)
        self._call_rollout_workers("enable_profile", {worker: (request,) for worker, request in requests.items()})

    def disable_profile(self) -> list[Path]:
        """End all captures that are on, and return the traces that this has written; without any, do nothing.

        Raises:
            CommandError: a trace cannot be written.
            SampleProfilerError: a worker has failed, or does not answer.
        """
        traces = self._call_rollout_workers("disable_profile", dict.fromkeys(range(self.num_workers), ()))
        return [Path(trace) for trace in traces if trace is not None]

    def _call_rollout_workers(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> list[Any]:
        """Call a command of some rollout workers, by their indices; the rest is as with `_call_components`."""
        return self._call_components(
            method, {str(ComponentId(ROLLOUT_WORKER, index=worker)): args for worker, args in arguments.items()}
        )
