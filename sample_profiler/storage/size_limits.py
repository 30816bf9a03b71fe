"""Owns what is looked at in a loaded file before it is used: that it is not far more than the file itself.

A pickle may refer to the same list twice in each of sixty levels, or to one number as a tensor of a million million:
loading that costs nothing, and walking or copying it takes all memory or goes on for ever.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from sample_profiler.errors import CheckpointError

__all__ = ["check_size"]

_SPARE_VALUES = 1 << 20
_MOST_COPIES = 16  # modules that share weights have them in their state once for each
_SPARE_BYTES = 64 << 20  # a buffer may be a small tensor expanded


def check_size(state: object, num_bytes: int) -> None:
    """Refuse plain data and tensors that their file can only hold by referring to the same ones again and again.

    Args:
        state: what was loaded.
        num_bytes: of the file: where everything stands once, each value takes one at least.

    Raises:
        CheckpointError: it unfolds to far more; or it has tensors that no checkpoint of this package has.
    """
    num_values = num_tensor_bytes = 0
    rest: list[Any] = [state]
    while rest:
        value = rest.pop()
        inner = _values_in(value)
        # Counted before it is all put there: a long list may hold nothing but itself.
        num_values += len(inner)
        if isinstance(value, torch.Tensor):
            num_tensor_bytes += _count_bytes(value)
        if num_values > num_bytes + _SPARE_VALUES or num_tensor_bytes > _MOST_COPIES * num_bytes + _SPARE_BYTES:
            raise CheckpointError(f"its {num_bytes:,} bytes unfold to far more, as no checkpoint of this package does")
        rest.extend(inner)


def _values_in(value: object) -> Collection[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list | tuple | set | frozenset) else ()


def _count_bytes(tensor: torch.Tensor) -> int:
    if tensor.layout is not torch.strided or tensor.is_meta:
        raise CheckpointError("it has tensors without memory of their own, as no checkpoint of this package has")
    return tensor.numel() * tensor.element_size()
