"""Owns what a component is that nobody asks for anything: it works while it is made, or from time to time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sample_profiler.runtime.loop.event_loop import Input, Timer

__all__ = ["UnaskedComponent"]


class UnaskedComponent:
    """The part of a component that such a one has no use for."""

    def inputs(self) -> Sequence[Input]:
        """Listen to nobody."""
        return ()

    def timers(self) -> Sequence[Timer]:
        """Do nothing from time to time."""
        return ()

    def gauges(self) -> dict[str, float]:
        """Measure nothing."""
        return {}

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Offer nothing."""
        return {}

    def start(self) -> None:
        """Begin nothing more."""

    def wait_block(self) -> str:
        """Wait for the Runner alone."""
        return "wait_runner"

    def finish(self) -> None:
        """Leave nothing behind."""
