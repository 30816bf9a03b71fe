"""Owns helpers around tensors, and the dictionary of tensors that is indexed as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sample_profiler.compat.helpers.dictionaries import list_of_dicts_to_dict_of_lists

__all__ = [
    *("TensorDict", "cat_tensordicts", "cat_tensors", "clone_tensor", "clone_tensordict", "dict_of_lists_cat"),
    *("ensure_numpy_array", "ensure_torch_tensor", "shallow_recursive_copy", "tensor_dict_to_numpy", "to_numpy"),
    *("inference_context", "init_torch_runtime", "masked_select", "synchronize", "to_scalar", "to_torch_dtype"),
    "unsqueeze_tensor",
]


class TensorDict(dict[Any, Any]):
    """A dictionary of tensors or arrays, and of further such ones: what is no text indexes all of them."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else _mapped(self, lambda values: values[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, str):
            super().__setitem__(key, value)
        else:
            _write(self, key, value)


def _write(entries: Mapping[str, Any], index: Any, new: Mapping[str, Any]) -> None:
    """Write at an index of all tensors and arrays what those of the same names have."""
    for name, values in new.items():
        target = entries[name]
        if isinstance(values, Mapping):
            _write(target, index, values)
        else:
            target[index] = torch.as_tensor(values) if isinstance(target, Tensor) else np.asarray(values)


def _mapped(values: Mapping[str, Any], change: Any) -> TensorDict:
    return TensorDict(
        {
            name: _mapped(value, change) if isinstance(value, Mapping) else change(value)
            for name, value in values.items()
        }
    )


def clone_tensordict(d: Mapping[str, Any]) -> TensorDict:
    """Return a copy of all tensors."""
    return _mapped(d, clone_tensor)


def shallow_recursive_copy(d: Mapping[str, Any]) -> TensorDict:
    """Return other dictionaries of the same tensors."""
    return _mapped(d, lambda value: value)


def tensor_dict_to_numpy(d: Mapping[str, Any]) -> TensorDict:
    """Return the tensors as arrays, which share their memory."""
    return _mapped(d, ensure_numpy_array)


def to_numpy(t: Any) -> Any:
    """Return a tensor, or each of a dictionary, as an array."""
    return tensor_dict_to_numpy(t) if isinstance(t, Mapping) else ensure_numpy_array(t)


def cat_tensordicts(lst: Sequence[Mapping[str, Any]]) -> TensorDict:
    """Return dictionaries joined along the first dimension of their tensors."""
    return _joined(list_of_dicts_to_dict_of_lists(lst))


def _joined(lists: Mapping[str, Any]) -> TensorDict:
    return TensorDict(
        {name: _joined(each) if isinstance(each, Mapping) else cat_tensors(each) for name, each in lists.items()}
    )


def cat_tensors(lt: Sequence[Any]) -> Any:
    """Join tensors or arrays along their first dimension."""
    return torch.cat(list(lt)) if isinstance(lt[0], Tensor) else np.concatenate(lt)


def dict_of_lists_cat(d: dict[Any, Any]) -> None:
    """Join the tensors or arrays of each list, in place."""
    for key, values in d.items():
        d[key] = cat_tensors(values)


def clone_tensor(t: Any) -> Any:
    """Return a copy of a tensor or an array."""
    return t.detach().clone() if isinstance(t, Tensor) else np.copy(t)


def unsqueeze_tensor(t: Any, dim: int) -> Any:
    """Return a tensor or an array with another dimension, of 1."""
    return t.unsqueeze(dim) if isinstance(t, Tensor) else np.expand_dims(t, dim)


def ensure_torch_tensor(t: Any) -> Tensor:
    """Return a tensor, or an array as one."""
    return t if isinstance(t, Tensor) else torch.as_tensor(np.asarray(t))


def ensure_numpy_array(t: Any) -> Any:
    """Return an array, or a tensor as one."""
    return t.detach().cpu().numpy() if isinstance(t, Tensor) else t


def to_scalar(value: Any) -> Any:
    """Return the number of a tensor of one; anything else as it is."""
    return value.item() if isinstance(value, Tensor) else value


def masked_select(x: Tensor, mask: Tensor, num_non_mask: int) -> Tensor:
    """Return the entries where a mask is True, as one row; the tensor as it is if none is to be left out.

    Args:
        x: Any tensor.
        mask: Bool, of its shape.
        num_non_mask: Entries of the mask that are False.
    """
    return x if num_non_mask == 0 else x.masked_select(mask)


def to_torch_dtype(numpy_dtype: Any) -> torch.dtype:
    """Return the type that tensors of arrays of a type have."""
    return torch.from_numpy(np.zeros(1, numpy_dtype)).dtype


def inference_context(is_serial: bool) -> Any:
    """Return a context without gradients, in which tensors may be written that training reads if `is_serial`."""
    return torch.no_grad() if is_serial else torch.inference_mode()


def synchronize(cfg: Any, device: torch.device | str) -> None:
    """Wait until a GPU has done what it was given, unless all is done by one process."""
    if not cfg.serial_mode and torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def init_torch_runtime(cfg: Any, max_num_threads: int | None = 1) -> None:  # noqa: ARG001
    """Let PyTorch use so many threads in a process of one's own; None: as many as it likes."""
    if max_num_threads is not None:
        torch.set_num_threads(max_num_threads)
