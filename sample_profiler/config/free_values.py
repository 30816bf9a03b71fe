"""Values of free form: data of an environment's own, nested as it likes, which a file of options can hold."""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["FREE_VALUES", "NotDataError", "plain_data", "read_data"]

FREE_VALUES = "a dictionary of numbers, texts, True, False, None, and lists and dictionaries of them"
"""What such a value may be."""

_MOST_LEVELS = 100
_SHOWN_LETTERS = 60


class NotDataError(ValueError):
    """A value that no file of options can hold; the message completes "--flag=value …"."""


def read_data(word: str) -> dict[str, Any]:
    """Read the value from a word of the command line, which is JSON.

    Raises:
        NotDataError: It is not, or no dictionary.
    """
    try:
        value = json.loads(word)
    except (ValueError, RecursionError) as error:
        raise NotDataError(f"is not JSON ({error})") from None
    return plain_data(value)


def plain_data(value: object) -> dict[str, Any]:
    """Return a copy of a value as a file of options gives it back: with lists in the place of tuples.

    Raises:
        NotDataError: It is no dictionary, or has something in it that such a file cannot hold; it says what, and where.
    """
    if not isinstance(value, dict):
        raise NotDataError("is no dictionary")
    copied: dict[str, Any] = _copy(value, "")
    return copied


def _copy(value: object, place: str) -> Any:
    if place.count("[") > _MOST_LEVELS:
        raise NotDataError(f"is nested more than {_MOST_LEVELS} levels deep, or contains itself")
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise NotDataError(f"has the key {key!r:.{_SHOWN_LETTERS}}{_at(place)}, and keys are texts in JSON")
        return {key: _copy(item, f"{place}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item, f"{place}[{index}]") for index, item in enumerate(value)]
    is_number = isinstance(value, int | float) and math.isfinite(value)
    if value is None or isinstance(value, str) or is_number:
        return value
    shown = f"{value!r:.{_SHOWN_LETTERS}} of type {type(value).__name__}"
    raise NotDataError(f"holds {shown}{_at(place)}, which cannot be written as JSON")


def _at(place: str) -> str:
    return f" at {place}" if place else ""
