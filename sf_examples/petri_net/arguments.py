"""Numbers on the command lines of scripts about the cluster tool: what cannot be used is refused at once."""

from __future__ import annotations

from argparse import ArgumentTypeError

__all__ = ["MOST_WAFERS", "at_least_one", "seed", "wafers"]

MOST_WAFERS = 100
_LARGEST_SEED = 2**63 - 1  # that PyTorch takes


def at_least_one(text: str) -> int:
    """Return a number from 1 on.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r}: give a number from 1 on")
    return int(text)


def wafers(text: str) -> int:
    """Return a number of wafers.

    Raises:
        ArgumentTypeError: it is none from 1 to 100.
    """
    if not text.isdecimal() or not 1 <= int(text) <= MOST_WAFERS:
        raise ArgumentTypeError(f"{text!r}: give a number of wafers from 1 to {MOST_WAFERS}")
    return int(text)


def seed(text: str) -> int:
    """Return a seed.

    Raises:
        ArgumentTypeError: it is none from 0 on.
    """
    if not text.isdecimal() or int(text) > _LARGEST_SEED:
        raise ArgumentTypeError(f"{text!r}: give a seed from 0 to 2^63 - 1")
    return int(text)
