"""Owns how values of an environment are told apart: fingerprints, and the arrays in them."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["arrays_in", "fingerprint", "size_of"]


def fingerprint(*values: Any) -> bytes:
    """Return what is the same for values that are the same, however deep in lists and dictionaries they lie."""
    digest = hashlib.blake2b(digest_size=12)
    for value in values:
        _feed(digest, value)
    return digest.digest()


def _feed(digest: hashlib.blake2b, value: Any) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, Mapping):
        digest.update(b"{")
        for key, item in value.items():
            digest.update(repr(key).encode())
            _feed(digest, item)
        digest.update(b"}")
    elif isinstance(value, list | tuple):
        digest.update(b"[")
        for item in value:
            _feed(digest, item)
        digest.update(b"]")
    elif hasattr(value, "__array__") and not isinstance(value, np.generic):
        _feed(digest, np.asarray(value))
    else:
        digest.update(repr(value).encode())


def arrays_in(value: Any) -> Iterator[npt.NDArray[Any]]:
    """Yield the arrays of numpy in a value, however deep they lie."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from arrays_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from arrays_in(item)


def size_of(value: Any) -> int:
    """Return how many bytes a value is, written down."""
    try:
        return len(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:  # whatever an object's own code may raise
        return len(repr(value))
