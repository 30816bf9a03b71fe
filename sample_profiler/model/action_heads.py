"""Owns the last layers of the actor: from the decoder's output to the parameters of a distribution of actions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import gymnasium
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.config import ModelOptions
from sample_profiler.errors import ConfigError, EnvContractError
from sample_profiler.model.distributions import MASKED_LOGIT, Categorical, DiagonalGaussian, IndependentParts
from sample_profiler.model.kernels.linear import Linear
from sample_profiler.model.kernels.perceptrons import Part
from sample_profiler.spaces import action_parts, part_width

__all__ = [
    *("IMPORTED_LAYER", "IMPORTED_STDDEV"),
    *("ActionHead", "DiscreteHead", "GaussianHead", "PartsHead", "cut_imported_layer", "make_action_head"),
]

IMPORTED_LAYER = "action_head.imported_layer"
"""Prefix of weight and bias of such a layer in a state dict."""

IMPORTED_STDDEV = "action_head.imported_log_stddev"
"""Name of the logarithms of standard deviations beside it, which one policy has for all states."""


class DiscreteHead(nn.Module):
    """Logits of one of n actions.

    Attributes:
        num_parameters: Numbers that describe one distribution, n.
        mask_size: Width of an action mask, n.
    """

    def __init__(self, input_size: int, num_actions: int) -> None:
        super().__init__()
        self.logits = Linear(input_size, num_actions)
        self.num_parameters = self.mask_size = num_actions

    def forward(self, decoded: Tensor, is_allowed: Tensor | None) -> Tensor:
        """Return logits, ``[N, n]``; those of forbidden actions are :data:`MASKED_LOGIT`.

        Args:
            decoded: ``[N, D]``.
            is_allowed: ``[N, n]``, 0 where an action is forbidden; ``None``: all are allowed.
        """
        logits: Tensor = self.logits(decoded)
        return logits if is_allowed is None else logits.masked_fill(is_allowed == 0, MASKED_LOGIT)

    def parts_of_layer(self) -> list[Part]:
        """Return weights ``[n, D]`` and bias ``[n]`` of the one layer that the head is, without a mask."""
        return [(self.logits.weight, self.logits.bias)]

    def distribution(self, parameters: Tensor) -> Categorical:
        """Make the distributions that parameters ``[N, n]`` describe."""
        return Categorical(parameters)

    @torch.no_grad()
    def initialize(self, gain: float = 1.0) -> None:
        """Multiply the weights that the initialization of the whole network has drawn by a gain."""
        self.logits.weight.mul_(gain)


class GaussianHead(nn.Module):
    """Means and logarithms of standard deviations of the n entries of a continuous action.

    Attributes:
        num_parameters: Numbers that describe one distribution, 2 n.
        mask_size: 0: no action can be forbidden.
    """

    mask_size = 0

    def __init__(self, input_size: int, action_size: int, options: ModelOptions) -> None:
        super().__init__()
        self._action_size = action_size
        self._tanh_scale = options.continuous_tanh_scale
        self._initial_log_stddev = math.log(options.initial_stddev)
        self._is_adaptive = options.adaptive_stddev
        self.num_parameters = 2 * action_size
        self.outputs = Linear(input_size, 2 * action_size if self._is_adaptive else action_size)
        if not self._is_adaptive:
            self.log_stddev = nn.Parameter(torch.full((action_size,), self._initial_log_stddev))

    def forward(self, decoded: Tensor, is_allowed: Tensor | None) -> Tensor:  # noqa: ARG002 - as in DiscreteHead
        """Return means, then logarithms of standard deviations, ``[N, 2 n]``, from ``[N, D]``."""
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

    def parts_of_layer(self) -> list[Part] | None:
        """Return those of ``2 n`` outputs, if the head is a layer; a deviation that all states share has no weights."""
        if self._tanh_scale:
            return None
        means = self.outputs.weight, self.outputs.bias
        return [means] if self._is_adaptive else [means, (None, self.log_stddev)]

    def distribution(self, parameters: Tensor) -> DiagonalGaussian:
        """Make the distributions that parameters ``[N, 2 n]`` describe."""
        return DiagonalGaussian(parameters)

    @torch.no_grad()
    def initialize(self, gain: float = 1.0) -> None:
        """Multiply the weights that the initialization of the whole network has drawn by a gain.

        The standard deviation starts at ``initial_stddev``, also where the network decides it.
        """
        self.outputs.weight.mul_(gain)
        if self._is_adaptive:
            nn.init.constant_(self.outputs.bias[self._action_size :], self._initial_log_stddev)


class PartsHead(nn.Module):
    """A head for each part of an action that has several.

    Attributes:
        num_parameters: Numbers that describe one distribution, those of all parts.
        mask_size: Width of an action mask: the logits of all discrete parts.
    """

    def __init__(self, heads: Sequence[DiscreteHead | GaussianHead]) -> None:
        super().__init__()
        self._heads = tuple(heads)
        self.heads = nn.ModuleList(heads)
        self.num_parameters = sum(head.num_parameters for head in heads)
        self.mask_size = sum(head.mask_size for head in heads)

    def forward(self, decoded: Tensor, is_allowed: Tensor | None) -> Tensor:
        """Return the parameters of all parts side by side, ``[N, num_parameters]``.

        Args:
            decoded: ``[N, D]``.
            is_allowed: ``[N, mask_size]``, 0 where a discrete part must not have a value; ``None``: all are allowed.
        """
        if is_allowed is None:
            return torch.cat([head(decoded, None) for head in self._heads], dim=-1)
        masks = torch.split(is_allowed, [head.mask_size for head in self._heads], dim=-1)
        return torch.cat([head(decoded, mask) for head, mask in zip(self._heads, masks, strict=True)], dim=-1)

    def parts_of_layer(self) -> list[Part] | None:
        """Return those of all parts of the action, if they are layers."""
        parts = [head.parts_of_layer() for head in self._heads]
        return None if None in parts else [part for of_head in parts if of_head is not None for part in of_head]

    def distribution(self, parameters: Tensor) -> IndependentParts:
        """Make the distributions that parameters ``[N, num_parameters]`` describe."""
        pieces = torch.split(parameters, [head.num_parameters for head in self._heads], dim=-1)
        return IndependentParts([head.distribution(piece) for head, piece in zip(self._heads, pieces, strict=True)])

    def initialize(self, gain: float = 1.0) -> None:
        """Initialize every part."""
        for head in self._heads:
            head.initialize(gain)


ActionHead: TypeAlias = DiscreteHead | GaussianHead | PartsHead


def make_action_head(action_space: gymnasium.Space[Any], input_size: int, options: ModelOptions) -> ActionHead:
    """Make the head for an action space.

    Args:
        action_space: What `action_parts` knows.
        input_size: Width of the decoder's output.
        options: Those of continuous actions.

    Raises:
        ConfigError: There is no head for such actions.
    """
    try:
        parts = action_parts(action_space)
    except EnvContractError as error:
        raise ConfigError([str(error)]) from None
    heads = [
        DiscreteHead(input_size, int(part.n))
        if isinstance(part, spaces.Discrete)
        else GaussianHead(input_size, part_width(part), options)
        for part in parts
    ]
    return heads[0] if len(heads) == 1 else PartsHead(heads)


def cut_imported_layer(network: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Replace the last layer of an actor that Sample Factory has trained by those of the network's own heads.

    There it is one layer for all parts of an action; here each part has its own. How many rows belong to which is known
    only where the action space is, so it is cut when a network loads it, by `register_load_state_dict_pre_hook`.

    Args:
        network: That loads a state.
        state: The state, changed in place. What does not fit is left under the name of the first head, for PyTorch to
            tell of.
        prefix: Of all names in it.
    """
    layers = dict(_layers_of_heads(network))
    for kind in ("weight", "bias"):
        imported = state.pop(f"{prefix}{IMPORTED_LAYER}.{kind}", None)
        if not isinstance(imported, Tensor):
            continue
        rows = [len(layer.weight) for layer in layers.values()]
        pieces = torch.split(imported, rows) if sum(rows) == len(imported) else (imported,)
        state.update({f"{prefix}{name}.{kind}": piece for name, piece in zip(layers, pieces, strict=False)})
    if (stddev := state.pop(f"{prefix}{IMPORTED_STDDEV}", None)) is not None:
        state[f"{prefix}action_head.log_stddev"] = stddev


def _layers_of_heads(network: nn.Module) -> list[tuple[str, nn.Linear]]:
    """Return the layer of each part of an action, in order, by its name in the network."""
    found: list[tuple[str, nn.Linear]] = []
    for name, head in network.named_modules():
        if isinstance(head, DiscreteHead):
            found.append((f"{name}.logits", head.logits))
        elif isinstance(head, GaussianHead):
            found.append((f"{name}.outputs", head.outputs))
    return found
