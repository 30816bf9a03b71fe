"""Owns the statistics of observations and returns, and the arithmetic that brings both to zero mean and unit variance.

What is subtracted and divided (``obs_subtract_mean``, ``obs_scale``, running mean and deviation) becomes one factor and
one offset per number of an observation. They are buffers beside the statistics, so whoever copies a state dict, tensor
by tensor or through shared memory, has coefficients that belong to the weights; nothing has to be recomputed or told.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.config import ObservationOptions
from sample_profiler.model.kernels.kernels import is_traced, scale, scale_to_pixels, sum_bytes
from sample_profiler.spaces import DEFAULT_OBSERVATION_KEY, normalized_keys

__all__ = ["ObservationNormalizer", "RunningMeanStd", "added_up"]

CLIP = 5.0
"""Normalized values are kept within plus or minus this many standard deviations."""

_EPSILON = 1e-5  # keeps the deviation of what never changes from being 0

# 2 MiB of floats: several passes over a piece of this size stay in a core's cache.
_PIECE_SIZE = 1 << 19

# 256 squares of bytes add up to less than 2**24: sums of so many are exact in float32.
_MAX_EXACT_ROWS = 256


class RunningMeanStd(nn.Module):
    """Mean and variance of all samples seen so far, of each number of a sample by itself.

    It starts out as if it had seen one sample with mean 0 and variance 1, so that it is usable from the beginning and
    the first samples cannot make the deviation nearly 0.
    """

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        """Make the statistics.

        Args:
            shape: Of one sample.
        """
        super().__init__()
        self._shape = shape
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.ones((), dtype=torch.float64))

    @property
    def stddev(self) -> Tensor:
        """Standard deviation, never 0, float64."""
        return (self.variance + _EPSILON).sqrt()

    @torch.no_grad()
    def update(self, samples: Tensor) -> None:
        """Take samples into account.

        Args:
            samples: ``[..., *shape]``.
        """
        rows = samples.reshape(-1, *self._shape)
        if len(rows):
            self.merge(*_moments(rows), num_samples=len(rows))

    @torch.no_grad()
    def merge(self, mean: Tensor, variance: Tensor, num_samples: int) -> None:
        """Take samples into account whose mean and (population) variance are known, float64 of the statistics' shape.

        Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances".
        Moments that are not finite are left out, each by itself: a single NaN would stay in the statistics for ever.
        """
        is_finite = torch.isfinite(mean) & torch.isfinite(variance)
        mean, variance = torch.where(is_finite, mean, self.mean), torch.where(is_finite, variance, self.variance)
        total = self.count + num_samples
        delta = mean - self.mean
        squares = self.variance * self.count + variance * num_samples
        squares += delta.square() * (self.count * num_samples / total)
        # In place: the buffers may be shared, and are what a state dict refers to.
        self.mean.add_(delta * (num_samples / total))
        self.variance.copy_(squares / total)
        self.count.copy_(total)

    def sums(self) -> Tensor:
        """Return how many samples there were, their sum and that of their squares, ``[3, *shape]`` float64."""
        squares = self.variance + self.mean.square()
        return torch.stack([torch.ones_like(squares), self.mean, squares]) * self.count

    def take_sums(self, sums: Tensor) -> None:
        """Become the statistics of samples with these sums, ``[3, *shape]``."""
        _, mean, squares = sums / sums[0]
        self.mean.copy_(mean)
        self.variance.copy_((squares - mean.square()).clamp_min(0))
        self.count.copy_(sums[0].flatten()[0])

    def normalize(self, samples: Tensor) -> Tensor:
        """Return samples ``[..., *shape]`` in standard deviations from the mean, clipped, float32."""
        return ((samples - self.mean.float()) / self.stddev.float()).clamp(-CLIP, CLIP)

    def denormalize(self, samples: Tensor) -> Tensor:
        """Return the values that normalized samples ``[..., *shape]`` stand for, float32."""
        return torch.addcmul(self.mean.float(), samples.clamp(-CLIP, CLIP), self.stddev.float())


@contextlib.contextmanager
def added_up(normalizer: nn.Module, add_up: Callable[[Sequence[Tensor]], None]) -> Iterator[None]:
    """Let samples that are taken into account meanwhile count at others, too, and theirs here.

    Args:
        normalizer: Has the statistics; all of them were the same before.
        add_up: Replaces tensors by their sums over all.
    """
    statistics = [module for module in normalizer.modules() if isinstance(module, RunningMeanStd)]
    before = [each.sums() for each in statistics]
    yield
    added = [each.sums() - earlier for each, earlier in zip(statistics, before, strict=True)]
    add_up(added)
    for each, earlier, more in zip(statistics, before, added, strict=True):
        each.take_sums(earlier + more)
    for module in normalizer.modules():
        if isinstance(module, _AffineEntry):
            module.derive_coefficients()


class ObservationNormalizer(nn.Module):
    """Brings observations of all keys to float32, those that are asked for to zero mean and unit variance."""

    def __init__(self, observation_spaces: Mapping[str, gymnasium.Space[Any]], options: ObservationOptions) -> None:
        """Make the statistics.

        Args:
            observation_spaces: By key, none of them nested.
            options: What to normalize. ``obs_subtract_mean`` and ``obs_scale`` concern the key ``obs`` alone, since
                other entries are rarely of the same units.

        Raises:
            ConfigError: The options name observations that do not exist.
        """
        super().__init__()
        shift, scale = options.obs_subtract_mean, options.obs_scale
        keys = normalized_keys(observation_spaces, options.normalize_input_keys, shift, scale)
        running_keys = keys if options.normalize_input else ()
        self._keys = sorted(observation_spaces)
        # Not a ModuleDict: a key may have a dot in it, or the name of one of a module's methods.
        # A tuple beside the module list, and no call of a module around each: inference normalizes for every few steps.
        self._entries = tuple(_make_entry(key, observation_spaces[key], options, running_keys) for key in self._keys)
        self.entries = nn.ModuleList(self._entries)

    def forward(
        self,
        observations: Mapping[str, Tensor],
        image_keys: Collection[str] = (),
        memory: dict[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Normalize N observations.

        Args:
            observations: By key, ``[N, ...]`` of the types that the environment gives; keys that the observation space
                does not have are left out of the result.
            image_keys: Of what may be as :meth:`pixels` returns it.
            memory: Pixels that are there, by key, are overwritten; those of this call are there then.

        Returns:
            New tensors by key but for `memory`, ``[N, ...]`` float32 but for pixels.
        """
        memory = {} if memory is None else memory
        made = {key: self.pixels(key, observations[key], into=memory.get(key)) for key in image_keys}
        pixels = {key: each for key, each in made.items() if each is not None}
        memory.update(pixels)
        entries = zip(self._keys, self._entries, strict=True)
        return {key: pixels[key] if key in pixels else entry.forward(observations[key]) for key, entry in entries}

    def pixels(
        self, key: str, values: Tensor, dtype: torch.dtype | None = None, into: Tensor | None = None
    ) -> Tensor | None:
        """Normalize N images of a key as convolutions like them best; None where that is no single pass.

        Args:
            key: Of the images.
            values: ``[N, C, H, W]``, as the environment gives them.
            dtype: Of the result; None: that of autocast.
            into: Is overwritten and returned if it is such a result for as many images.

        Returns:
            ``[N, C, H, W]``, channels last.
        """
        entry = self._entries[self._keys.index(key)]
        return entry.pixels(values, dtype, into) if isinstance(entry, _AffineEntry) else None

    def update(self, observations: Mapping[str, Tensor]) -> None:
        """Take N observations into account, ``[N, ...]`` by key."""
        for key, entry in zip(self._keys, self._entries, strict=True):
            if isinstance(entry, _AffineEntry):
                entry.update(observations[key])


class _AffineEntry(nn.Module):
    """One key: ``clip(factor * x + offset)``."""

    factor: Tensor
    offset: Tensor

    def __init__(self, shape: tuple[int, ...], subtract: float, scale: float, *, is_running: bool) -> None:
        super().__init__()
        self._subtract = subtract
        self._scale = scale
        self.statistics = RunningMeanStd(shape) if is_running else None
        self._is_identity = not is_running and subtract == 0 and scale == 1
        self.register_buffer("factor", torch.ones(shape if is_running else ()))
        self.register_buffer("offset", torch.zeros(shape if is_running else ()))
        self.derive_coefficients()
        # The options may have changed since a checkpoint was written.
        self.register_load_state_dict_post_hook(_derive_coefficients_again)  # type: ignore[no-untyped-call]

    def forward(self, values: Tensor) -> Tensor:
        if self._is_identity:
            return values.float()
        limit = math.inf if self.statistics is None else CLIP
        if (scaled := scale(values, self.factor, self.offset, limit)) is not None:
            return scaled
        # A graph is made for any number of rows.
        if is_traced() or values.numel() <= _PIECE_SIZE or not values.is_cpu:
            scaled = torch.addcmul(self.offset, values.float(), self.factor)
            return scaled if self.statistics is None else scaled.clamp_(-CLIP, CLIP)
        normalized = torch.empty(values.shape, dtype=torch.float32)
        rows_per_piece = _rows_per_piece(values)
        for start in range(0, len(values), rows_per_piece):
            piece = normalized[start : start + rows_per_piece]
            piece.copy_(values[start : start + rows_per_piece])
            torch.addcmul(self.offset, piece, self.factor, out=piece)
            if self.statistics is not None:
                piece.clamp_(-CLIP, CLIP)
        return normalized

    def pixels(self, values: Tensor, dtype: torch.dtype | None, into: Tensor | None) -> Tensor | None:
        limit = math.inf if self.statistics is None else CLIP
        return scale_to_pixels(values, self.factor, self.offset, limit, dtype=dtype, into=into)

    def update(self, values: Tensor) -> None:
        if self.statistics is None or not len(values):
            return
        mean, variance = _moments(values)
        self.statistics.merge((mean - self._subtract) / self._scale, variance / self._scale**2, len(values))
        self.derive_coefficients()

    @torch.no_grad()
    def derive_coefficients(self) -> None:
        """Fold ((x - subtract) / scale - mean) / stddev into factor and offset."""
        if self.statistics is None:
            self.factor.fill_(1 / self._scale)
            self.offset.fill_(-self._subtract / self._scale)
            return
        stddev = self.statistics.stddev
        self.factor.copy_(1 / (stddev * self._scale))
        self.offset.copy_(-(self.statistics.mean + self._subtract / self._scale) / stddev)


def _derive_coefficients_again(entry: _AffineEntry, _: object) -> None:
    entry.derive_coefficients()


class _OneHotEntry(nn.Module):
    """One key of a Discrete space: a vector with a one at the place of the value."""

    def __init__(self, space: spaces.Discrete) -> None:
        super().__init__()
        self._num_values = int(space.n)
        self._start = int(space.start)

    def forward(self, values: Tensor) -> Tensor:
        return F.one_hot(values.long() - self._start, self._num_values).float()


class _OneHotEntries(nn.Module):
    """One key of a MultiDiscrete space: such a vector for each of its entries, one after another."""

    starts: Tensor

    def __init__(self, space: spaces.MultiDiscrete) -> None:
        super().__init__()
        sizes = space.nvec.ravel().astype(np.int64)
        self._num_values = int(sizes.sum())
        # Of the value that has the first place of the whole vector.
        starts = space.start.ravel().astype(np.int64) - (np.cumsum(sizes) - sizes)
        self.register_buffer("starts", torch.from_numpy(starts), persistent=False)

    def forward(self, values: Tensor) -> Tensor:
        places = values.flatten(1).long() - self.starts
        # Without the number of rows, which tracers would take for that of all calls.
        zeros = torch.zeros_like(places[:, :1], dtype=torch.float32).expand(-1, self._num_values)
        return zeros.scatter(1, places, 1.0)


def _make_entry(
    key: str, space: gymnasium.Space[Any], options: ObservationOptions, running_keys: Collection[str]
) -> _OneHotEntry | _OneHotEntries | _AffineEntry:
    if isinstance(space, spaces.Discrete):
        return _OneHotEntry(space)
    if isinstance(space, spaces.MultiDiscrete):
        return _OneHotEntries(space)
    is_scaled = key == DEFAULT_OBSERVATION_KEY
    return _AffineEntry(
        tuple(space.shape or ()),
        options.obs_subtract_mean if is_scaled else 0.0,
        options.obs_scale if is_scaled else 1.0,
        is_running=key in running_keys,
    )


def _rows_per_piece(values: Tensor) -> int:
    return max(1, _PIECE_SIZE // max(1, math.prod(values.shape[1:]))) if values.device.type == "cpu" else len(values)


def _moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and population variance of ``[N, ...]`` over N, float64."""
    sums, squares = sum_bytes(rows) or _sums_of_pieces(rows)
    mean = sums / len(rows)
    return mean, (squares / len(rows) - mean.square()).clamp_min(0)


def _sums_of_pieces(rows: Tensor) -> tuple[Tensor, Tensor]:
    is_bytes = rows.dtype == torch.uint8
    sums = torch.zeros(rows.shape[1:], dtype=torch.float64, device=rows.device)
    squares = torch.zeros_like(sums)
    rows_per_piece = _rows_per_piece(rows)
    for piece in torch.split(rows, min(rows_per_piece, _MAX_EXACT_ROWS) if is_bytes else rows_per_piece):
        piece_sums, piece_squares = _sums(piece, torch.float32 if is_bytes else torch.float64)
        sums += piece_sums
        squares += piece_squares
    return sums, squares


def _sums(piece: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the sums of ``[N, ...]`` and of their squares over N, computed in a type."""
    if not piece.is_cpu:
        numbers = piece.to(dtype)
        return numbers.sum(0), numbers.square().sum(0)
    # By numpy, which starts no threads. Pieces are small: where other processes want the cores, PyTorch's would wait at
    # each of them until another thread has got one.
    array = piece.numpy().astype(np.float32 if dtype == torch.float32 else np.float64)
    sums = array.sum(0)
    return torch.as_tensor(sums), torch.as_tensor(np.square(array, out=array).sum(0))
