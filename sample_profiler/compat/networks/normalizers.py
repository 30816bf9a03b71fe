"""Owns normalization as networks written for Sample Factory have it inside: in place, with statistics of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.compat.helpers.tensors import TensorDict, clone_tensordict
from sample_profiler.model.normalization import CLIP
from sample_profiler.spaces import DEFAULT_OBSERVATION_KEY

__all__ = ["ObservationNormalizer", "RunningMeanStdDictInPlace", "RunningMeanStdInPlace", "running_mean_std_summaries"]

_EPSILON = 1e-5


class RunningMeanStdInPlace(nn.Module):
    """Mean and variance of all rows seen while training; `forward` normalizes what it is given, and returns nothing.

    `torch.jit.script` understands it.

    Args:
        input_shape: Of one row.
        epsilon: Is added to the variance.
        clip: Normalized numbers are kept within plus and minus this.
        per_channel: Whether all numbers of a channel, the first dimension of a row, have the same statistics.
        norm_only: Whether the mean stays where it is.
    """

    if TYPE_CHECKING:
        running_mean: Tensor
        running_var: Tensor
        count: Tensor

    def __init__(
        self,
        input_shape: Sequence[int],
        epsilon: float = _EPSILON,
        clip: float = CLIP,
        per_channel: bool = False,
        norm_only: bool = False,
    ) -> None:
        super().__init__()
        self.input_shape = input_shape
        self.eps = epsilon
        self.clip = clip
        self.per_channel = per_channel
        self.norm_only = norm_only
        self._others = [0, *range(2, len(input_shape) + 1)] if per_channel else [0]
        self._view = [-1, *([1] * (len(input_shape) - 1))] if per_channel else list(input_shape) or [1]
        shape = tuple(input_shape[:1] if per_channel else input_shape)
        self.register_buffer("running_mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("running_var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.ones(1, dtype=torch.float64))

    def forward(self, x: Tensor, denormalize: bool = False) -> None:
        """Normalize rows `[N, *input_shape]` in place, while training after taking them into account; or go back."""
        if self.training and not denormalize:
            self._update(x)
        mean = self.running_mean.float().view(self._view)
        stddev = (self.running_var.float() + self.eps).sqrt().view(self._view)
        if self.norm_only:
            x.copy_(x * stddev if denormalize else x / stddev)
        elif denormalize:
            x.copy_(x.clamp(-self.clip, self.clip) * stddev + mean)
        else:
            x.copy_(((x - mean) / stddev).clamp(-self.clip, self.clip))

    def _update(self, x: Tensor) -> None:
        """Take rows into account (Chan, Golub and LeVeque 1979)."""
        rows = x.detach().double()
        num_rows = x.numel() // max(1, self.running_mean.numel())
        mean, variance = rows.mean(self._others), rows.var(self._others, unbiased=False)
        delta = mean - self.running_mean
        count = self.count[0]
        total = count + num_rows
        squares = self.running_var * count + variance * num_rows
        squares += delta * delta * count * num_rows / total
        self.running_mean += delta * num_rows / total
        self.running_var.copy_(squares / total)
        self.count.copy_(total)


class RunningMeanStdDictInPlace(nn.Module):
    """The same of each entry of an observation.

    Args:
        obs_space: Of the observation.
        keys_to_normalize: Of the entries that are normalized; None: all.
        others: As of :class:`RunningMeanStdInPlace`.
    """

    def __init__(self, obs_space: spaces.Dict, keys_to_normalize: Sequence[str] | None = None, **others: Any) -> None:
        super().__init__()
        keys = obs_space.spaces if keys_to_normalize is None else keys_to_normalize
        self.running_mean_std = nn.ModuleDict(
            {key: RunningMeanStdInPlace(space.shape or (), **others) for key, space in obs_space.items() if key in keys}
        )

    def forward(self, x: Mapping[str, Tensor]) -> None:
        """Normalize observations `[N, ...]` in place."""
        for key, statistics in self.running_mean_std.items():
            statistics(x[key])


class ObservationNormalizer(nn.Module):
    """Returns observations `[N, ...]` as `obs_subtract_mean`, `obs_scale` and `normalize_input` say, as copies.

    Args:
        obs_space: Of the observation.
        cfg: The run's options.
    """

    def __init__(self, obs_space: spaces.Dict, cfg: Any) -> None:
        super().__init__()
        self.sub_mean = cfg.obs_subtract_mean
        self.scale = cfg.obs_scale
        self.running_mean_std = (
            RunningMeanStdDictInPlace(obs_space, cfg.normalize_input_keys) if cfg.normalize_input else None
        )

    @torch.no_grad()
    def forward(self, obs_dict: Mapping[str, Tensor]) -> TensorDict:
        """Normalize observations, float32."""
        normalized = clone_tensordict({key: values.float() for key, values in obs_dict.items()})
        if (main := normalized.get(DEFAULT_OBSERVATION_KEY)) is not None:
            main.sub_(self.sub_mean).div_(self.scale)
        if self.running_mean_std is not None:
            self.running_mean_std(normalized)
        return normalized

    def summaries(self) -> dict[str, Tensor]:
        """Return the means of the statistics."""
        return running_mean_std_summaries(self)


def running_mean_std_summaries(running_mean_std_module: nn.Module) -> dict[str, Tensor]:
    """Return the mean of each buffer of statistics, standard deviations instead of variances, by key and name."""
    figures: dict[str, Tensor] = {}
    for path, values in running_mean_std_module.named_buffers():
        name = "_".join(path.split(".")[-2:])
        if name.endswith("running_mean"):
            figures[name] = values.float().mean()
        elif name.endswith("running_var"):
            figures[name.replace("_var", "_std")] = (values.float() + _EPSILON).sqrt().mean()
    return figures
