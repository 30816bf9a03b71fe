"""Owns trajectories' memory where it is tensors on a device: one process has it, which reads and writes it there."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sample_profiler.runtime.messages.shared_memory import ArraySpec, num_bytes_of

__all__ = ["DeviceArrays", "as_index", "move"]


def move(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return values on a device; waits only for what comes to the host, whose memory is read at once."""
    return values.to(device, non_blocking=device.type != "cpu")


def as_index(indices: npt.NDArray[np.integer[Any]], device: torch.device) -> torch.Tensor:
    """Return what addresses tensors on a device."""
    return move(torch.from_numpy(indices.astype(np.int64)), device)


class DeviceArrays:
    """Named tensors laid out one after the other in one block on a device; it starts zeroed.

    A few stay numpy arrays in the host's memory: what the host decides by.

    Args:
        specs: shape and dtype of each.
        device: where the tensors are.
        on_host: names of those that are arrays.
    """

    def __init__(self, specs: Mapping[str, ArraySpec], device: torch.device, on_host: Collection[str]) -> None:
        there = {name: spec for name, spec in specs.items() if name not in on_host}
        self.device = device
        self._block = torch.zeros(num_bytes_of(there.values()), dtype=torch.uint8, device=device)
        self._arrays: dict[str, Any] = {name: np.zeros(specs[name][0], specs[name][1]) for name in on_host}
        self._on_host: list[npt.NDArray[Any]] = [self._arrays[name] for name in sorted(on_host)]
        offset = 0
        for name, (shape, dtype) in there.items():
            num_bytes = math.prod(map(int, shape)) * np.dtype(dtype).itemsize
            values = self._block[offset : offset + num_bytes].view(_torch_dtype(dtype))
            self._arrays[name] = values.view(shape)
            offset += num_bytes_of([(shape, dtype)])

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]

    @property
    def num_bytes(self) -> int:
        """Size of everything in bytes."""
        return self._block.numel() + sum(array.nbytes for array in self._on_host)

    @property
    def memory(self) -> npt.NDArray[np.uint8]:
        """A copy of everything, `[num_bytes]`."""
        return np.concatenate(
            [self._block.cpu().numpy(), *(array.reshape(-1).view(np.uint8) for array in self._on_host)]
        )

    def put_back(self, memory: npt.NDArray[np.uint8]) -> None:
        """Make everything what it was when `memory` was read."""
        first = self._block.numel()
        self._block.copy_(torch.from_numpy(memory[:first]))
        for array in self._on_host:
            array.reshape(-1).view(np.uint8)[:] = memory[first : first + array.nbytes]
            first += array.nbytes


def _torch_dtype(dtype: npt.DTypeLike) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype
