"""Owns where `sample_factory` is found: before any other of the name, in all processes of a run."""

from __future__ import annotations

import os
import sys

__all__ = ["SITE", "come_first"]

SITE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "site")
"""Where `sample_factory` is found; first on `sys.path` of who asked for it, and of the processes that it starts."""


def come_first() -> None:
    """Have it found here by this process and those that it starts from now on, if it was found here once.

    A program may have put other folders first since then, such as a checkout with a package of the name, as pytest
    does. The process that began has imported it by then; others get the path as it is, and import the program again.
    """
    if SITE in sys.path:
        sys.path.remove(SITE)
        sys.path.insert(0, SITE)
