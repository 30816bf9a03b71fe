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
