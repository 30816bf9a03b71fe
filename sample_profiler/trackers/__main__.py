"""The process beside a run that tells a tracker of it: `python -m sample_profiler.trackers TRACKER RUN_FOLDER`.

It ends when its standard input does, which whoever has started it holds open as long as the run goes on. On standard
output are lines for that one: `I` and where the run can be seen, `W` and what is in the way, `D` when all is told. What
libraries print goes to standard error.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.surroundings.folder_lock import lock_until_exit
from sample_profiler.trackers.following import Follower
from sample_profiler.trackers.making import make_tracker

_NICENESS = 10
_LOOK_INTERVAL_S = 0.1
_ALONE_S = 60.0
"""Without whoever has started it, for what there is to tell."""
_LOCK_S = 1.0
_LONGEST_LINE = 2000


class _RunWatch:
    """Tells when the run is over, from a thread of its own: this process may be stuck in somebody's library."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._is_over = threading.Event()
        os.set_blocking(0, False)
        threading.Thread(target=self._watch, daemon=True).start()

    def is_over(self, patience_s: float) -> bool:
        """Wait for the end of the run for so long, and tell whether it is over."""
        return self._is_over.wait(patience_s)

    def _watch(self) -> None:
        # Somebody who has forked may hold the pipe open when whoever has started this is gone.
        while not self._has_ended() and self._has_parent():
            time.sleep(_LOOK_INTERVAL_S)
        self._is_over.set()
        while self._has_parent():  # who is as patient as he likes
            time.sleep(_LOOK_INTERVAL_S)
        time.sleep(_ALONE_S)
        os._exit(1)

    def _has_ended(self) -> bool:
        try:
            return os.read(0, 1) == b""
        except BlockingIOError:
            return False

    def _has_parent(self) -> bool:
        return os.getppid() == self._parent


def main(argv: Sequence[str]) -> int:
    """Tell a tracker of a run until that is over.

    Args:
        argv: the tracker's name, and the run's folder.

    Returns:
        Exit status: 0: all is told.
    """
    name, folder = argv[0], RunFolder(Path(argv[1]))
    watch = _RunWatch()
    # Orders to all processes of a job are for the run, whose last words are to be told.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    os.nice(_NICENESS)
    answers = os.dup(1)
    os.dup2(2, 1)
    tell = partial(_tell, answers)
    if not lock_until_exit(folder.tracking(name), _LOCK_S):
        tell("W", "another process tells it of this run: waiting for it")
        while not lock_until_exit(folder.tracking(name), _LOCK_S):
            if watch.is_over(0.0):
                return 1
    follower = Follower(folder, name, partial(make_tracker, name), partial(tell, "I"), partial(tell, "W"))
    if not follower.follow(watch.is_over):
        return 1
    tell("D", "")
    return 0


def _tell(answers: int, kind: str, text: str) -> None:
    line = f"{kind}{' '.join(text.split())[:_LONGEST_LINE]}\n"
    with contextlib.suppress(OSError):  # whoever has started this is gone
        os.write(answers, line.encode(errors="backslashreplace"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
