"""Owns plain data in a checkpoint that is whole, or is not taken at all: nested values as bytes and their checksum."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import numpy as np

__all__ = ["SEAL_FORMAT", "open_sealed", "seal"]

SEAL_FORMAT = 2
"""Of what is sealed: the first, which had dicts as they were, does not say so."""

_ARRAY_KINDS = "biufcSU"  # numbers and text
_ARRAY, _DICT = "array", "dict"  # every dict in packed data is one of ours, and has one of these keys
_PLAIN = (type(None), bool, int, float, str)


def seal(course: dict[str, Any]) -> dict[str, Any]:
    """Return data as bytes and their checksum: it is taken up as a whole, or not at all.

    Raises:
        TypeError: something in it is no plain data.
    """
    import torch  # only now: the Runner of a parallel run reads this module

    file = io.BytesIO()
    torch.save(_pack(course), file)
    data = file.getvalue()
    return {
        "format": SEAL_FORMAT,
        "data": torch.frombuffer(bytearray(data), dtype=torch.uint8),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def open_sealed(sealed: Any) -> dict[str, Any] | None:
    """Return what was sealed; None if it is not whole, or nothing of ours."""
    import torch

    from sample_profiler.storage.archives import check_archive
    from sample_profiler.storage.size_limits import check_size

    try:
        data = sealed["data"].numpy().tobytes()
        if hashlib.sha256(data).hexdigest() != sealed["sha256"]:
            return None
        check_archive(io.BytesIO(data))
        packed = torch.load(io.BytesIO(data), weights_only=True)
        check_size(packed, len(data))
        course = _unpack(packed)
    except Exception:  # a file that others have made can raise anything
        return None
    return course if isinstance(course, dict) else None


def _pack(value: Any) -> Any:
    """Return data as checkpoints hold it, with arrays as their bytes, and dicts as pairs.

    Raises:
        TypeError: something in it is no plain data, or would come back as another type.
    """
    import torch

    if isinstance(value, np.generic) or type(value) is np.ndarray:
        if value.dtype.kind in _ARRAY_KINDS:
            data = torch.frombuffer(bytearray(value.tobytes()) or bytearray(1), dtype=torch.uint8)
            is_scalar = isinstance(value, np.generic)
            return {_ARRAY: data, "dtype": value.dtype.str, "shape": value.shape, "is_scalar": is_scalar}
    elif type(value) in _PLAIN or isinstance(value, torch.Tensor):
        return value
    elif type(value) is dict:
        return {_DICT: [(_pack_key(key), _pack(item)) for key, item in value.items()]}
    elif type(value) is list:
        return list(map(_pack, value))
    elif type(value) is tuple:
        return tuple(map(_pack, value))
    raise TypeError(
        f"a {type(value).__name__} in it, which is neither a number, text, array nor a plain dict, list or tuple of "
        "them"
    )


def _pack_key(key: Any) -> Any:
    if type(key) is tuple:
        return tuple(map(_pack_key, key))
    if type(key) in _PLAIN or isinstance(key, np.generic):
        return _pack(key)
    raise TypeError(f"a {type(key).__name__} as a key in it, which is neither a number, text nor a tuple of them")


def _unpack(value: Any) -> Any:
    if isinstance(value, dict):
        if _DICT in value:
            return {_unpack(key): _unpack(item) for key, item in value[_DICT]}
        data, dtype = value[_ARRAY].numpy().tobytes(), np.dtype(value["dtype"])
        if dtype.kind not in _ARRAY_KINDS:  # of others, such as objects, the bytes would be taken for pointers
            raise ValueError(f"an array of {value['dtype']!r:.80} in it")
        array: Any = np.ndarray(tuple(value["shape"]), dtype, data).copy()
        return array[()] if value["is_scalar"] else array
    if isinstance(value, list):
        return list(map(_unpack, value))
    return tuple(map(_unpack, value)) if isinstance(value, tuple) else value
