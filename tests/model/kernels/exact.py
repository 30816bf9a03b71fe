"""Activations as functions that are exact in double precision."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from sample_profiler.model.kernels.kernels import Activation

EXACT: dict[Activation, Callable[[torch.Tensor], torch.Tensor]] = {
    Activation.NONE: lambda values: values,
    Activation.ELU: F.elu,
    Activation.RELU: F.relu,
    Activation.TANH: torch.tanh,
}


def assert_same_whatever_the_default(compute: Callable[[], list[torch.Tensor | None]]) -> None:
    """Compute twice, the second time with another default type and device of the user."""
    expected = compute()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            found = compute()
    finally:
        torch.set_default_dtype(torch.float32)
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours, theirs)
