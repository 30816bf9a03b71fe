"""Owns the niceness of a component's process, and of the session that it leads."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

__all__ = ["add_niceness"]

_AUTOGROUP = Path("/proc/self/autogroup")
_RETRY_S = 0.15  # Linux takes one change in 0.1 s, from whichever process, unless it is privileged
_MOST_RETRIES = 400


def add_niceness(niceness: int) -> None:
    """Add to the niceness of this process, which leads a session, and of all that it will start in it.

    Where Linux shares the processors among sessions first ("autogroups", sched(7)), niceness counts only within one.
    Each component is a session of its own: without its group's niceness, that of its processes would change nothing.

    Raises:
        PermissionError: it is below 0, which needs privileges.
    """
    total = os.nice(niceness)
    if not _is_group_settled(total):
        threading.Thread(target=_change_group, args=(total,), daemon=True, name="niceness").start()


def _change_group(niceness: int) -> None:
    for _ in range(_MOST_RETRIES):
        time.sleep(_RETRY_S)
        if _is_group_settled(niceness):
            return


def _is_group_settled(niceness: int) -> bool:
    """Try to set the group's niceness, and tell whether that was done or cannot be; otherwise it may be later."""
    try:
        _AUTOGROUP.write_text(str(niceness))
    except OSError as error:
        return error.errno != errno.EAGAIN
    return True
