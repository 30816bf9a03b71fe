"""Owns the last layers of the actor: from the decoder's output to the parameters of a distribution of actions."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import gymnasium
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.config import ModelOptions
from sample_profiler.errors import ConfigError
from sample_profiler.model.distributions import MASKED_LOGIT, Categorical, DiagonalGaussian

__all__ = ["ActionHead", "DiscreteHead", "GaussianHead", "make_action_head"]


class DiscreteHead(nn.Module):
    """Logits of one of n actions.

    Attributes:
        num_parameters: Numbers that describe one distribution, n.
    """

    def __init__(self, input_size: int, num_actions: int) -> None:
        super().__init__()
        self.logits = nn.Linear(input_size, num_actions)
        self.num_parameters = num_actions

    def forward(self, decoded: Tensor, is_allowed: Tensor | None) -> Tensor:
        """Returns logits, ``[N, n]``; those of forbidden actions are :data:`MASKED_LOGIT`.

        Args:
            decoded: ``[N, D]``.
            is_allowed: ``[N, n]``, 0 where an action is forbidden; ``None``: all are allowed.
        """
        logits: Tensor = self.logits(decoded)
        return logits if is_allowed is None else logits.masked_fill(is_allowed == 0, MASKED_LOGIT)

    def distribution(self, parameters: Tensor) -> Categorical:
        """Makes the distributions that parameters ``[N, n]`` describe."""
        return Categorical(parameters)

    def initialize(self) -> None:
        """Leaves the weights as the initialization of the whole network made them."""


class GaussianHead(nn.Module):
    """Means and logarithms of standard deviations of the n entries of a continuous action.

    Attributes:
        num_parameters: Numbers that describe one distribution, 2 n.
    """

    def __init__(self, input_size: int, action_size: int, options: ModelOptions) -> None:
        super().__init__()
        self._action_size = action_size
        self._tanh_scale = options.continuous_tanh_scale
        self._initial_log_stddev = math.log(options.initial_stddev)
        self._is_adaptive = options.adaptive_stddev
        self.num_parameters = 2 * action_size
        self.outputs = nn.Linear(input_size, 2 * action_size if self._is_adaptive else action_size)
        if not self._is_adaptive:
            self.log_stddev = nn.Parameter(torch.full((action_size,), self._initial_log_stddev))

    def forward(self, decoded: Tensor, is_allowed: Tensor | None) -> Tensor:  # noqa: ARG002 - as in DiscreteHead
        """Returns means, then logarithms of standard deviations, ``[N, 2 n]``, from ``[N, D]``."""
        outputs: Tensor = self.outputs(decoded)
        if self._is_adaptive:
            if not self._tanh_scale:
                return outputs
            mean, log_stddev = outputs.chunk(2, dim=-1)
        else:
            mean, log_stddev = outputs, self.log_stddev.expand_as(outputs)
        if self._tanh_scale:
            mean = torch.tanh(mean / self._tanh_scale) * self._tanh_scale
        return torch.cat([mean, log_stddev], dim=-1)

    def distribution(self, parameters: Tensor) -> DiagonalGaussian:
        """Makes the distributions that parameters ``[N, 2 n]`` describe."""
        return DiagonalGaussian(parameters)

    def initialize(self) -> None:
        """Makes the standard deviation start at ``initial_stddev``, also where the network decides it."""
        if self._is_adaptive:
            nn.init.constant_(self.outputs.bias[self._action_size :], self._initial_log_stddev)


ActionHead: TypeAlias = DiscreteHead | GaussianHead


def make_action_head(action_space: gymnasium.Space[Any], input_size: int, options: ModelOptions) -> ActionHead:
    """Makes the head for an action space.

    Args:
        action_space: Discrete or Box.
        input_size: Width of the decoder's output.
        options: Those of continuous actions.

    Raises:
        ConfigError: There is no head for such actions.
    """
    if isinstance(action_space, spaces.Discrete):
        return DiscreteHead(input_size, int(action_space.n))
    if not isinstance(action_space, spaces.Box):
        raise ConfigError(
            [f"action space {action_space} is not supported; allowed are Discrete and Box: convert it in a wrapper"]
        )
    return GaussianHead(input_size, math.prod(action_space.shape), options)
