"""Owns the pixels that the passes through an encoder work with: made anew for the pass backwards, not kept for it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch
from torch import Tensor

from sample_profiler.model import PolicyNetwork

__all__ = ["PixelsAnew"]


class _Kept(NamedTuple):
    """A tensor that lies in the memory of an image's pixels: which, and where there."""

    key: str
    dtype: torch.dtype
    size: torch.Size
    stride: tuple[int, ...]
    offset: int


class PixelsAnew:
    """Memory for the pixels of one piece of observations at a time.

    A convolution keeps its input for the pass backwards. The first one's are normalized pixels, in float32 four times
    as large as the bytes that they come from, and half of what a micro-batch has to keep. To compute them again takes
    no longer than to write them to the main memory and read them from there.

    Args:
        model: the network.
    """

    def __init__(self, model: PolicyNetwork) -> None:
        self._model = model
        self._memory: dict[str, Tensor] = {}

    def normalize(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Prepare observations, `[N, ...]` by key, for the network; pixels of an earlier call are overwritten."""
        return self._model.normalize(observations, self._memory)

    def kept_as_bytes(
        self, observations: Mapping[str, Tensor], normalized: Mapping[str, Tensor]
    ) -> AbstractContextManager[object]:
        """Let what is computed within keep the bytes of images in place of their pixels.

        Args:
            observations: what :meth:`normalize` has been called with last.
            normalized: what it returned.
        """
        pixels = {key: each for key, each in self._memory.items() if normalized.get(key) is each and each.numel()}
        keys = {each.untyped_storage().data_ptr(): key for key, each in pixels.items()}
        if not keys:  # no images, or none that are made by a loop of ours
            return contextlib.nullcontext()

        def pack(tensor: Tensor) -> Tensor | _Kept:
            key = keys.get(tensor.untyped_storage().data_ptr()) if tensor.layout is torch.strided else None
            if key is None:
                return tensor.detach()  # an output would hold on to its own graph, were that never gone through
            return _Kept(key, tensor.dtype, tensor.size(), tensor.stride(), int(tensor.storage_offset()))

        def unpack(kept: Tensor | _Kept) -> Tensor:
            if isinstance(kept, Tensor):
                return kept
            values, memory = observations[kept.key], self._memory.get(kept.key)
            again = self._model.observation_normalizer.pixels(kept.key, values, kept.dtype, memory)
            assert again is not None
            self._memory[kept.key] = again
            return again.as_strided(kept.size, kept.stride, kept.offset)

        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
