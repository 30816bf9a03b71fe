"""A training script in which a component fails when it is told to; run by the fault matrix.

Told by a file in the folder that INJECT names: `{component}` with the fault in it. Every loop looks for it in every
turn, in child processes, too, since those import this module.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sample_profiler.runtime.loop.event_loop import EventLoop

FOLDER = Path(os.environ["INJECT"])
GROWN: list[bytes] = []


def fail_when_told(loop: EventLoop, turn: Callable[[EventLoop], None] = EventLoop._turn) -> None:
    """Take a turn of a loop, unless one of its components is to fail."""
    for component in loop._components:
        order = FOLDER / component.name
        if order.exists():
            fault = order.read_text()
            order.unlink()
            fail(fault)
    turn(loop)


def fail(fault: str) -> None:
    """Let a component fail in one of the ways that are injected from inside."""
    if fault == "exception":
        raise ValueError("injected on purpose")
    if fault == "hang":
        while True:
            time.sleep(60)
    if fault == "memory":
        # As the kernel does where memory is used up: the process has grown, and gets SIGKILL. Having the kernel do it
        # takes a control group with a limit of its own, which not everybody may make.
        GROWN.extend(b"x" * 2**25 for _ in range(16))
        os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(f"unknown fault {fault!r}")


setattr(EventLoop, "_turn", fail_when_told)  # noqa: B010 (a method, which types do not let anybody assign)

if __name__ == "__main__":
    if sys.argv[1] == "doom":
        from sf_examples.vizdoom.train_vizdoom import main
    else:
        from sf_examples.gym.train_gym import main
    del sys.argv[1]
    sys.exit(main())
