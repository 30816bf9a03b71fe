"""Owns what is asked of PyTorch in this process before it is profiled: what it already uses, and who profiles already.

PyTorch is imported when something is asked, not before.
"""

from __future__ import annotations

import sys

__all__ = ["activities_in_use", "is_call_hook_taken", "is_torch_capturing"]


def activities_in_use() -> tuple[str, ...]:
    """Return the names of what there is to be recorded here: the processor, and the GPU where the process uses it.

    A process that does not use the GPU shall not begin to, with hundreds of megabytes there, because it is looked at.
    """
    import torch

    return ("cpu", "cuda") if torch.cuda.is_initialized() else ("cpu",)  # type: ignore[no-untyped-call]


def is_torch_capturing() -> bool:
    """Tell whether `torch.profiler` records in this process; it can do so for one at a time."""
    from torch._C._autograd import _profiler_enabled

    return bool(_profiler_enabled())


def is_call_hook_taken() -> bool:
    """Tell whether a profiler other than PyTorch's is told of every call of a function, as cProfile and pyinstrument.

    The interpreter tells one of them at a time: `with_stack` would take its place.
    """
    return sys.getprofile() is not None and not is_torch_capturing()
