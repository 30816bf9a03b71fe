"""Sends a signal to a process and to everything that it has started."""

from __future__ import annotations

import contextlib
import signal

import psutil

__all__ = ["signal_tree"]


def signal_tree(root: psutil.Process, number: signal.Signals) -> None:
    """Send a signal to a process and its descendants, itself first: it does not wonder at what befalls the others."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
