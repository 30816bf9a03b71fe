"""Owns anonymous shared memory: blocks that children receive by descriptor and that vanish with their last user.

`multiprocessing.shared_memory` is not used: its blocks have names that outlive a killed run, and the resource tracker
of Python 3.11 unlinks them as soon as any attached process ends.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from multiprocessing import reduction
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ArraySpec", "SharedArrays", "SharedBlock", "make_anonymous_file", "num_bytes_of"]

ArraySpec = tuple[tuple[int, ...], npt.DTypeLike]
"""Shape and dtype of one shared array."""

_ALIGNMENT_BYTES = 64


class SharedBlock:
    """A block of zeroed memory shared with every process that receives this object while it is being spawned.

    The block has no name in any file system. It can only be pickled for a process that is being spawned.
    """

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = max(1, num_bytes)
        self._descriptor = make_anonymous_file()
        os.ftruncate(self._descriptor, self.num_bytes)
        self.memory = mmap.mmap(self._descriptor, self.num_bytes)

    def resize(self, num_bytes: int) -> None:
        """Give the block another size and map it anew in this process; others call this too to see the new size.

        What was there stays there. Views of the old mapping stay valid for the bytes they cover.
        """
        os.ftruncate(self._descriptor, num_bytes)
        self.num_bytes = num_bytes
        self.memory = mmap.mmap(self._descriptor, num_bytes)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):  # an environment may have closed all files of the process
            os.close(self._descriptor)  # the mapping, and views of it, live on

    def __reduce__(self) -> tuple[Callable[..., SharedBlock], tuple[Any, int]]:
        """Travel as a descriptor that the spawned process inherits."""
        return _attach, (reduction.DupFd(self._descriptor), self.num_bytes)


def _attach(descriptor: Any, num_bytes: int) -> SharedBlock:
    block = SharedBlock.__new__(SharedBlock)
    block.num_bytes = num_bytes
    block._descriptor = descriptor.detach()
    # What a spawned process is handed would otherwise pass on to every game that it starts.
    os.set_inheritable(block._descriptor, False)
    block.memory = mmap.mmap(block._descriptor, num_bytes)
    return block


def make_anonymous_file() -> int:
    """Make a file that has no name in any file system, and return its descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("sample_profiler", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class SharedArrays:
    """Named numpy arrays laid out one after the other in one shared block, each on a cache line of its own.

    Reading `arrays["name"]` gives the same memory in every process. The block starts zeroed.
    """

    def __init__(self, specs: Mapping[str, ArraySpec]) -> None:
        self._specs = dict(specs)
        self._block = SharedBlock(num_bytes_of(self._specs.values()))
        self._arrays = self._make_views()

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name]

    @property
    def num_bytes(self) -> int:
        """Size of the block in bytes."""
        return self._block.num_bytes

    @property
    def memory(self) -> npt.NDArray[np.uint8]:
        """All arrays as they lie in memory, `[num_bytes]`; may be written to."""
        return np.frombuffer(self._block.memory, dtype=np.uint8)

    def put_back(self, memory: npt.NDArray[np.uint8]) -> None:
        """Make all arrays what they were when `memory` was copied."""
        self.memory[:] = memory

    def __getstate__(self) -> dict[str, Any]:
        return {"specs": self._specs, "block": self._block}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._specs = state["specs"]
        self._block = state["block"]
        self._arrays = self._make_views()

    def _make_views(self) -> dict[str, npt.NDArray[Any]]:
        views = {}
        offset = 0
        for name, spec in self._specs.items():
            shape, dtype = spec
            views[name] = np.ndarray(shape, dtype=dtype, buffer=self._block.memory, offset=offset)
            offset += _padded_size(spec)
        return views


def num_bytes_of(specs: Iterable[ArraySpec]) -> int:
    """Return how large a block for such arrays is."""
    return sum(map(_padded_size, specs))


def _padded_size(spec: ArraySpec) -> int:
    shape, dtype = spec
    size = math.prod(map(int, shape)) * np.dtype(dtype).itemsize
    return -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
