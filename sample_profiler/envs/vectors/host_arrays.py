"""Owns what arrays a vector speaks in: numpy's, tensors of PyTorch, or anything with ``__dlpack__``, such as JAX's.

What is in the memory of the host is looked at where it is; only what lives on a device is copied. Nobody may write to
it: it is the simulator's. PyTorch is not imported for vectors that have no tensors.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["as_host_array", "as_host_arrays", "find_foreign", "find_tensor", "like_tensor"]

_HOST_DEVICES = (1, 3)  # of DLPack: the processor's memory, and the part of it that a GPU reads


def as_host_array(values: Any) -> npt.NDArray[Any]:
    """Return values as an array of numpy: over the same memory if they are in the host's, else a copy.

    Args:
        values: An array of any kind, a number, or a list of them.
    """
    if isinstance(values, np.ndarray):
        return values
    if _is_tensor(values):
        tensor = values.detach().cpu()
        array: npt.NDArray[Any] = (tensor.float() if tensor.dtype == sys.modules["torch"].bfloat16 else tensor).numpy()
        return array
    place = getattr(values, "__dlpack_device__", None)
    if place is None:
        return np.asarray(values)
    if place()[0] in _HOST_DEVICES:
        return np.from_dlpack(values)
    from torch.utils.dlpack import from_dlpack  # only for what lives on a device: PyTorch knows them all

    return as_host_array(from_dlpack(values))


def as_host_arrays(values: Any) -> Any:
    """Return arrays as :func:`as_host_array` does, in dictionaries and lists as well; what is none stays as it is."""
    if isinstance(values, Mapping):
        return {key: as_host_arrays(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        arrays = map(as_host_arrays, values)
        return tuple(arrays) if isinstance(values, tuple) else list(arrays)
    return as_host_array(values) if hasattr(values, "__dlpack__") else values


def find_tensor(values: Any) -> Any:
    """Return a tensor of PyTorch that is among values, in dictionaries and lists as well; ``None`` if there is none."""
    if isinstance(values, Mapping):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return next((tensor for tensor in map(find_tensor, values) if tensor is not None), None)
    return values if _is_tensor(values) else None


def find_foreign(values: Any) -> Any:
    """Return an array among values that is not of numpy and can be had as a tensor of PyTorch; ``None``: there is none.

    Args:
        values: As of `find_tensor`.
    """
    if isinstance(values, Mapping):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return next((array for array in map(find_foreign, values) if array is not None), None)
    return values if hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray | np.generic) else None


def like_tensor(actions: Any, tensor: Any) -> Any:
    """Return actions as tensors on the device of a tensor: over their own memory if that is the host's.

    Args:
        actions: An array, or a tuple or dictionary of them; a list, of one for each member, stays what it is.
        tensor: Says where to; ``None``: actions stay what they are.
    """
    if tensor is None or isinstance(actions, list):
        return actions
    import torch

    if isinstance(actions, Mapping):
        return {key: like_tensor(part, tensor) for key, part in actions.items()}
    if isinstance(actions, tuple):
        return tuple(like_tensor(part, tensor) for part in actions)
    return torch.from_numpy(actions).to(tensor.device, non_blocking=True)


def _is_tensor(values: Any) -> bool:
    torch = sys.modules.get("torch")  # who has a tensor has imported it
    return torch is not None and isinstance(values, torch.Tensor)
