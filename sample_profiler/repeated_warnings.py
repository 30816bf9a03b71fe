"""Owns which of many warnings alike are logged, so that they do not flood the log."""

from __future__ import annotations

__all__ = ["is_logged"]


def is_logged(number: int) -> bool:
    """Tell whether a warning is logged: the 1st, 10th, 100th, … are.

    Args:
        number: how many of its kind there have been, itself included; from 1.
    """
    return str(number).rstrip("0") == "1"
