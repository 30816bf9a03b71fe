"""Owns what is asked of PyTorch in this process before it is profiled: what it already uses, and who profiles already.

PyTorch is imported when something is asked, not before.
"""

from __future__ import annotations

import gc

__all__ = ["activities_in_use", "is_torch_capturing", "is_torch_prepared", "is_torch_session_on"]


def activities_in_use() -> tuple[str, ...]:
    """Return the names of what there is to be recorded here: the processor, and the GPU where the process uses it.

    A process that does not use the GPU shall not begin to, with hundreds of megabytes there, because it is looked at.
    """
    import torch

    return ("cpu", "cuda") if torch.cuda.is_initialized() else ("cpu",)  # type: ignore[no-untyped-call]


def is_torch_capturing() -> bool:
    """Tell whether `torch.profiler` records in this process; it can do so for one at a time."""
    from torch._C._autograd import _profiler_enabled

    return bool(_profiler_enabled()) or is_torch_session_on()  # of this thread, or of another


def is_torch_session_on() -> bool:
    """Tell whether the latest `torch.profiler` of this process to begin, in whichever thread, has not ended."""
    from torch.autograd import profiler

    return bool(profiler._is_profiler_enabled)


def is_torch_prepared() -> bool:
    """Tell whether somebody's `torch.profiler` is between its preparation and its begin, as while it warms up.

    PyTorch cannot say so. Another one in between would be the end of the process when the first ends.
    """
    from torch.autograd.profiler import profile

    # Whatever is of a class refers to it.
    found = [one for one in gc.get_referrers(profile) if type(one) is profile]
    return any(one.entered and one.kineto_results is None for one in found)
