"""The encoder of ViZDoom's environments, as a program registers it that was written for Sample Factory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gymnasium import spaces
    from torch import nn

__all__ = ["make_vizdoom_encoder"]


def make_vizdoom_encoder(cfg: Any, obs_space: spaces.Dict) -> nn.Module:
    """Make the encoder that a run has where none is registered: checkpoints are those of either.

    Args:
        cfg: Options of its layers.
        obs_space: Of one agent.
    """
    from sample_profiler.compat.networks.parts import model_options_of  # here: workers import this without PyTorch
    from sample_profiler.model.encoders import ObservationEncoder

    return ObservationEncoder(obs_space.spaces, model_options_of(cfg))
