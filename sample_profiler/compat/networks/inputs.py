"""Owns how observations come to networks written for Sample Factory: as values, of the types that these ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.model.policy_network import split

__all__ = ["ExpectedInputs"]

_Coded = spaces.Discrete | spaces.MultiDiscrete


@dataclass(frozen=True)
class ExpectedInputs:
    """What a network expects observations to be.

    Attributes:
        coded: Spaces of the observations whose values come as vectors with a one in them, one for each value; by key.
        types: Of those that it does not want as float32, by key.
    """

    coded: Mapping[str, _Coded]
    types: Mapping[str, torch.dtype]

    @classmethod
    def of(cls, network: Any, observation_space: spaces.Dict) -> ExpectedInputs:
        """Find out what a network expects.

        Args:
            network: Perhaps with `type_for_input_tensor`.
            observation_space: Of one agent, without an action mask.
        """
        type_of = getattr(network, "type_for_input_tensor", lambda _: torch.float32)
        types = {key: type_of(key) for key in observation_space}
        return cls(
            coded={key: space for key, space in observation_space.items() if isinstance(space, _Coded)},
            types={key: kind for key, kind in types.items() if kind is not torch.float32},
        )

    def prepare(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return observations `[N, ...]` by key as they are expected."""
        values = {key: _values_of(observations[key], space) for key, space in self.coded.items()}
        prepared = {**observations, **values}
        return {**prepared, **{key: prepared[key].to(kind) for key, kind in self.types.items()}}

    def __call__(self, _encoder: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Prepare what an encoder is called with, as its hook."""
        observations, *others = arguments
        return self.prepare(observations), *others


def _values_of(vectors: Tensor, space: _Coded) -> Tensor:
    """Return the values of N observations, `[N, *space.shape]` float32."""
    sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.ravel().tolist()
    parts = zip(split(vectors, sizes), np.ravel(space.start).tolist(), strict=True)
    values = torch.stack([part.argmax(dim=-1).float() + start for part, start in parts], dim=-1)
    return values.view(vectors.shape[0], *(space.shape or ()))
