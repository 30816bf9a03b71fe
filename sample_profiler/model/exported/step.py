"""Owns one step of a policy as one function of tensors: all that there is from observations to actions and states."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.model.policy_network import PolicyNetwork
from sample_profiler.spaces import action_parts

__all__ = ["OUTPUTS", "STATES", "PolicyStep", "example_inputs", "input_names"]

STATES = "states"
"""Name of what a step takes beside observations."""

OUTPUTS = ("actions", "action_parameters", "returns", "next_states")
"""Names of what a step gives, in order."""

_NUM_EXAMPLES = 3


def input_names(keys: Iterable[str]) -> dict[str, str]:
    """Return what each observation is called in a graph, by its key: its key, unless something else has that name.

    Args:
        keys: of the observations.
    """
    names: dict[str, str] = {}
    for key in sorted(keys):
        name = key
        while name in (STATES, *OUTPUTS, *names.values()):
            name = f"observation_{name}"
        names[key] = name
    return names


class PolicyStep(nn.Module):
    """One step of a policy, deterministic: the most probable actions.

    Args:
        model: of the policy.
        action_space: of its environment.
        has_normalized_values: whether its values are in units of normalized returns.
    """

    starts: Tensor
    low: Tensor
    high: Tensor

    def __init__(
        self, model: PolicyNetwork, action_space: gymnasium.Space[Any], *, has_normalized_values: bool
    ) -> None:
        super().__init__()
        self.model = model
        self._has_normalized_values = has_normalized_values
        starts, low, high = _limits(action_space)
        self._is_bounded = any(map(math.isfinite, (*low, *high)))
        self._is_shifted = any(starts)
        self.register_buffer("starts", torch.tensor(starts))
        self.register_buffer("low", torch.tensor(low))
        self.register_buffer("high", torch.tensor(high))

    @property
    def unit_of_returns(self) -> float:
        """What a value of 1 of the network is as a return."""
        return float(self.model.returns_normalizer.stddev) if self._has_normalized_values else 1.0

    def forward(self, observations: Mapping[str, Tensor], states: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Go one step.

        Args:
            observations: by key, `[N, ...]`, as the environment gives them.
            states: `[N, S]`, from the step before; zeros where an episode begins.

        Returns:
            The numbers of the actions, `[N, A]`, within the bounds of the environment, of Tuples and dictionaries part
            after part; the parameters of their distributions, `[N, P]`; the returns that the policy expects, `[N]`;
            and the next states, `[N, S]`.
        """
        parameters, values, new_states = self.model(self.model.normalize(observations), states)
        returns = self.model.returns_normalizer.denormalize(values) if self._has_normalized_values else values
        return self.actions_of(parameters), parameters, returns, new_states

    def actions_of(self, parameters: Tensor) -> Tensor:
        """Return the most probable actions of distributions, `[N, A]`, by their parameters `[N, P]`."""
        actions = self.model.action_distribution(parameters).mode()
        if self._is_bounded:
            actions = torch.minimum(torch.maximum(actions, self.low), self.high)
        return actions + self.starts.to(actions.dtype) if self._is_shifted else actions


def _limits(action_space: gymnasium.Space[Any]) -> tuple[list[int], list[float], list[float]]:
    """Return, for each number of an action, what a discrete one counts from, and the bounds of a continuous one."""
    starts, low, high = [], [], []
    for part in action_parts(action_space):
        if isinstance(part, spaces.Discrete):
            starts.append(int(part.start))
            low.append(-math.inf)
            high.append(math.inf)
        else:
            starts += [0] * part.low.size
            low += part.low.ravel().tolist()
            high += part.high.ravel().tolist()
    return starts, low, high


def example_inputs(
    observation_space: spaces.Dict, state_size: int, num_rows: int = _NUM_EXAMPLES, seed: int = 0
) -> tuple[dict[str, Tensor], Tensor]:
    """Return observations of a space, and states as they are in the middle of an episode.

    Args:
        observation_space: of one agent, by key, none of them nested.
        state_size: S.
        num_rows: N.
        seed: of what is drawn.
    """
    keys = sorted(observation_space.spaces)
    observation_space.seed(seed)
    rows = [observation_space.sample() for _ in range(num_rows)]
    arrays = {key: np.stack([np.asarray(row[key]) for row in rows]) for key in keys}
    states = torch.tanh(torch.randn(num_rows, state_size, generator=torch.Generator().manual_seed(seed)))
    return {key: torch.from_numpy(_finite(array)) for key, array in arrays.items()}, states


def _finite(array: Any) -> Any:
    """Keep what is drawn of spaces without bounds among the numbers that networks see."""
    return np.clip(array, -1e3, 1e3).astype(array.dtype) if array.dtype.kind == "f" else array
