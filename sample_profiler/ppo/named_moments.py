"""Owns the way of an optimizer's state to a network whose parameters are known by their names alone.

Checkpoints that were imported have it so: in which order a network has its parameters is its own affair.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["NAMED_STATE", "indexed_state"]

NAMED_STATE = "state_by_name"
"""Key of such a state: what there is of each parameter, `step` and both moments, by its name in the network."""


def indexed_state(state: dict[str, Any], network: nn.Module) -> dict[str, Any]:
    """Return the state of an optimizer with parameters counted as the network has them.

    Args:
        state: As an optimizer returned it, or with its parameters by name.
        network: Whose parameters they are. It knows how parts of them are cut out of one that was imported.

    Raises:
        AttributeError, KeyError, RuntimeError, TypeError, ValueError: It is of other parameters.
    """
    if NAMED_STATE not in state:
        return state
    named = state[NAMED_STATE]
    if not named:
        return {"state": {}}
    means, squares = (_arranged({name: entry[key] for name, entry in named.items()}, network) for key in _MOMENTS)
    step = max(torch.as_tensor(entry["step"], dtype=torch.float32) for entry in named.values())
    moments = enumerate(zip(means, squares, strict=True))
    return {"state": {i: {"step": step, **dict(zip(_MOMENTS, both, strict=True))} for i, both in moments}}


_MOMENTS = ("exp_avg", "exp_avg_sq")


@torch.no_grad()
def _arranged(moments: dict[str, Tensor], network: nn.Module) -> list[Tensor]:
    """Return a moment of each parameter of a network, in its order; 0 where there is none."""
    scratch = copy.deepcopy(network)
    for parameter in scratch.parameters():
        parameter.zero_()
    problems = scratch.load_state_dict(moments, strict=False)
    if problems.unexpected_keys:
        raise ValueError(f"its optimizer has {problems.unexpected_keys[0]}, which the network has not")
    return [parameter.detach() for parameter in scratch.parameters()]
