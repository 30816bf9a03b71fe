"""Owns how the optimizer is made."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from sample_profiler.config import OptimizerOptions

__all__ = ["make_optimizer"]


def make_optimizer(parameters: Iterable[nn.Parameter], options: OptimizerOptions) -> torch.optim.Optimizer:
    """Makes the optimizer that the options ask for.

    Args:
        parameters: Of the network, on the device where they stay.
        options: Adam's coefficients and the first learning rate.
    """
    return torch.optim.Adam(
        parameters,
        lr=options.learning_rate,
        betas=(options.adam_beta1, options.adam_beta2),
        eps=options.adam_eps,
        # One pass over all parameters instead of a dozen.
        fused=True,
    )
