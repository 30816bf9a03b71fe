"""Owns what an episode tells of itself where Sample Factory's code writes it: of whatever it is, numbers are taken."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["tell_in_numbers"]

logger = logging.getLogger(__name__)

_EXTRA = "episode_extra_stats"
_told: set[str] = set()


def tell_in_numbers(info: Any) -> None:
    """Change what an info tells of its episode into numbers by name, as far as it is not that already.

    Entries of nested dictionaries stand under their own names, and arrays and lists for their means. Of anything else
    it is said once that it is left out.

    Args:
        info: Of one agent; it is changed.
    """
    if not isinstance(info, Mapping) or not isinstance(stats := info.get(_EXTRA), Mapping):
        return
    if not all(isinstance(value, float | int) for value in stats.values()):
        info[_EXTRA] = dict(_numbers_of(stats))  # type: ignore[index]


def _numbers_of(stats: Mapping[Any, Any]) -> Iterator[tuple[str, float]]:
    for name, value in stats.items():
        if isinstance(value, Mapping):
            yield from _numbers_of(value)
        elif (number := _mean_of(value)) is not None:
            yield str(name), number
        elif (text := str(name)) not in _told:
            _told.add(text)
            logger.warning("%s[%r] is no number, nor several: it is left out", _EXTRA, text)


def _mean_of(value: Any) -> float | None:
    """Return a number, or the mean of several; None: it is neither."""
    if isinstance(value, float | int):
        return float(value)
    try:
        values = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        is_number = values.dtype.kind in "biuf" and values.size > 0
        return float(values.mean()) if is_number else None
    except (ValueError, TypeError, RuntimeError):  # lists of different lengths
        return None
