"""Owns that no network chooses actions in a way that is left out here, as a filter that keeps a drone from crashing."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.compat.networks.distributions import get_action_distribution
from sample_profiler.compat.networks.factory import get_rnn_size
from sample_profiler.errors import ModelError
from sample_profiler.spaces import action_parts

__all__ = ["check_actions"]

_NUM_ROWS, _NUM_REPEATS = 8, 32
_FARTHEST = 0.25
"""Two samples of 256 from one distribution are farther apart once in ten million times."""


def check_actions(
    network: nn.Module, cfg: Any, observation_space: spaces.Dict, action_space: gymnasium.Space[Any]
) -> None:
    """Look whether the actions that a network returns are drawn from its `action_logits`: those are drawn from here.

    Args:
        network: Written for Sample Factory.
        cfg: Options of the run.
        observation_space: Of one agent, without an action mask.
        action_space: Of one agent.

    Raises:
        ModelError: They are others.
    """
    methods = (getattr(type(network), name, None) for name in ("forward", "forward_tail"))
    if all(getattr(method, "__module__", "").startswith("sample_profiler.") for method in methods):
        return
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            seen = [observation_space.sample() for _ in range(_NUM_ROWS)]
            observations = {
                key: torch.from_numpy(np.stack([each[key] for each in seen])).float().repeat_interleave(_NUM_REPEATS, 0)
                for key in observation_space
            }
            result = network(observations, torch.zeros(_NUM_ROWS * _NUM_REPEATS, get_rnn_size(cfg)))
            chosen = torch.as_tensor(result["actions"]).reshape(_NUM_ROWS * _NUM_REPEATS, -1).float()
            drawn = get_action_distribution(action_space, result["action_logits"]).sample()
            drawn = drawn.reshape(chosen.shape).float()
        except Exception:  # only loops of the script's own call `forward`, which may want anything
            return
    low, high = (torch.tensor(bound) for bound in _bounds_of(action_space))
    apart = max(map(_distance, chosen.clip(low, high).T, drawn.clip(low, high).T))
    if apart > _FARTHEST:
        raise ModelError(
            f"{type(network).__name__}.forward returns other actions than those drawn from its action_logits, which "
            "are what is executed here: change action_logits in forward_tail, or the action in the environment"
        )


def _bounds_of(action_space: gymnasium.Space[Any]) -> tuple[list[float], list[float]]:
    """Return what each number of an action is clipped to before it is executed."""
    low: list[float] = []
    high: list[float] = []
    for part in action_parts(action_space):
        low += part.low.ravel().tolist() if isinstance(part, spaces.Box) else [-math.inf]
        high += part.high.ravel().tolist() if isinstance(part, spaces.Box) else [math.inf]
    return low, high


def _distance(one: Tensor, other: Tensor) -> float:
    """Return the distance of Kolmogorov and Smirnov: how far shares of numbers up to a limit are apart at most."""
    limits = torch.cat([one, other])
    shares = [torch.searchsorted(each.sort().values, limits, right=True) / len(each) for each in (one, other)]
    return float((shares[0] - shares[1]).abs().max())
