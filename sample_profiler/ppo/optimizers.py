"""Owns how the optimizer is made, and goes on where another one was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from sample_profiler.config import OptimizerOptions

__all__ = ["load_optimizer_state", "make_optimizer"]

_GATHERED = {"step", "exp_avg", "exp_avg_sq"}
"""What Adam keeps of each parameter."""


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


def load_optimizer_state(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Take over what an optimizer has gathered; how it goes about its work stays as this run's flags say.

    Args:
        optimizer: from `make_optimizer`.
        state: what the `state_dict` of one like it returned.

    Raises:
        KeyError, RuntimeError, TypeError, ValueError: it is of other parameters, or damaged.
    """
    options = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict({"state": state["state"], "param_groups": state["param_groups"]})
    for group, own in zip(optimizer.param_groups, options, strict=True):
        parameters = group["params"]
        group.clear()
        group |= {"params": parameters, **own}
    known = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    for parameter, gathered in optimizer.state.items():
        if id(parameter) not in known or gathered.keys() != _GATHERED:
            raise ValueError("its optimizer is of other parameters")
        for name, value in gathered.items():
            shape = () if name == "step" else parameter.shape
            if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.shape != shape:
                raise ValueError(f"{name} of its optimizer is not of a parameter's shape")
