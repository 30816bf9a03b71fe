"""Owns the published weights of one policy: the Learner writes them, inference copies them, nobody locks.

A writer that dies in the middle, or a reader that is slow, blocks nobody: writes alternate between two copies, and
counters of begun and finished writes tell a reader whether the copy that it read was being overwritten meanwhile (a
sequence lock). The counters are aligned 8-byte words; x86 keeps the order of stores, and elsewhere the many calls that
the interpreter makes between two of these stores contain barriers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sample_profiler.profiling.ranges import profile_range
from sample_profiler.runtime.messages.shared_memory import SharedArrays, SharedBlock

if TYPE_CHECKING:
    import torch

__all__ = ["PolicyWeights"]

_NUM_COPIES = 2
_BEGUN, _FINISHED, _NUM_BYTES = range(3)


class PolicyWeights:
    """Two copies of a state dict in shared memory, and which of them is the newest whole one.

    The process that makes this object need not know the network: the Learner gives the memory its size when it
    publishes for the first time.
    """

    def __init__(self) -> None:
        self._header = SharedArrays({"counters": ((3,), np.int64), "versions": ((_NUM_COPIES,), np.int64)})
        self._block = SharedBlock(0)

    @property
    def version(self) -> int:
        """Number of optimizer steps behind the newest weights; -1 while none have been published."""
        finished = int(self._counters[_FINISHED])
        return int(self._header["versions"][finished % _NUM_COPIES]) if finished else -1

    @property
    def num_bytes(self) -> int:
        """Bytes of a copy; 0 while none have been published."""
        return int(self._counters[_NUM_BYTES])

    @profile_range("PolicyWeights.publish")
    def publish(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """Make `state` what inference uses from now on. Only the Learner of this policy calls this.

        Args:
            state: the network's state dict, always the same names, shapes and dtypes.
            version: number of optimizer steps behind it.
        """
        num_bytes = sum(_padded_bytes(tensor) for tensor in state.values())
        self._fit(num_bytes)
        write = int(self._counters[_BEGUN]) + 1
        self._counters[_BEGUN] = write
        copy = write % _NUM_COPIES
        shared = self._copy(copy, num_bytes)
        device = _device_of(state)
        # What is on a device is put together there, and comes here in one piece.
        whole = shared if device.type == "cpu" else shared.new_empty((num_bytes,), device=device)
        for tensor, view in zip(state.values(), _views(whole, state), strict=True):
            view.copy_(tensor.detach())
        if whole is not shared:
            shared.copy_(whole)
        self._header["versions"][copy] = version
        self._counters[_NUM_BYTES] = num_bytes
        self._counters[_FINISHED] = write

    @profile_range("PolicyWeights.load_into")
    def load_into(self, state: Mapping[str, torch.Tensor]) -> int:
        """Copy the newest weights into the tensors of `state` and return their version.

        Args:
            state: the state dict of a network like the Learner's; its tensors are overwritten. They stay as they are,
                and the version is -1, while no weights have been published.
        """
        while True:
            write = int(self._counters[_FINISHED])
            if not write:
                return -1
            num_bytes = int(self._counters[_NUM_BYTES])
            self._fit(num_bytes)
            copy = write % _NUM_COPIES
            version = int(self._header["versions"][copy])
            device = _device_of(state)
            whole = self._copy(copy, num_bytes).to(device, non_blocking=True)
            for tensor, view in zip(state.values(), _views(whole, state), strict=True):
                tensor.copy_(view)
            # The copy that was read is overwritten by the write after next.
            if int(self._counters[_BEGUN]) < write + _NUM_COPIES:
                return version

    @property
    def _counters(self) -> npt.NDArray[np.int64]:
        counters: npt.NDArray[Any] = self._header["counters"]
        return counters

    def _fit(self, num_bytes: int) -> None:
        if self._block.num_bytes != num_bytes * _NUM_COPIES:
            self._block.resize(num_bytes * _NUM_COPIES)

    def _copy(self, copy: int, num_bytes: int) -> torch.Tensor:
        """Return one of the copies, `[num_bytes]` uint8."""
        import torch  # not at the top: every process holds a PolicyWeights, and most do without torch

        return torch.frombuffer(self._block.memory, dtype=torch.uint8, count=num_bytes, offset=copy * num_bytes)


def _views(whole: torch.Tensor, state: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """Return where each tensor of a state is in all of it, `[num_bytes]` uint8."""
    views = []
    offset = 0
    for tensor in state.values():
        num_bytes = tensor.numel() * tensor.element_size()
        views.append(whole[offset : offset + num_bytes].view(tensor.dtype).view(tensor.shape))
        offset += _padded_bytes(tensor)
    return views


def _device_of(state: Mapping[str, torch.Tensor]) -> torch.device:
    return next(iter(state.values())).device


def _padded_bytes(tensor: torch.Tensor) -> int:
    return -(-tensor.numel() * tensor.element_size() // 64) * 64
