"""Owns the place of a profiler whom the interpreter tells of every call: who is in it, how ours stays out of sight.

There is one for each thread. Whoever sets a hook takes the place, without a word to whom had it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable

from sample_profiler.errors import CaptureError
from sample_profiler.profiling.captures.interpreter.interpreter import (
    GETPROFILE,
    call_keeping_hooks,
    find_hook,
    is_any_thread_hooked,
    make_getprofile,
)
from sample_profiler.profiling.captures.interpreter.replaced import Replaced

__all__ = ["CallHook", "is_yappi_running", "lost_place", "name_any_hook", "name_hook"]

_OF_A_THREAD = "one of another thread"
_GONE = "cProfile, yappi, pyinstrument, torch.profiler with stacks or sys.setprofile"  # it has left no trace
_OF_TORCH = "TraceContext"  # what torch.profiler sets is of this class, which is in no module


class CallHook:
    """The hook of a profiler of ours, which has just been set in the current thread.

    Others do not find it there: `sys.getprofile` says to them that there is none. They would put back what it returns,
    and that may be what cannot be called.

    Args:
        is_in_all_threads: whether it was set in all of them, with objects of their own.
    """

    def __init__(self, *, is_in_all_threads: bool) -> None:
        self._own = find_hook()
        hidden = (self._own[0], 0) if self._own is not None and is_in_all_threads else self._own
        self._replaced = Replaced()
        self._replaced.replace(sys, "getprofile", lambda _: make_getprofile(hidden))

    def find_successor(self) -> str | None:
        """Return the name of a profiler that has taken the place of this one; None: it is told of every call still.

        Once another was in its place, it never is again.
        """
        return None if find_hook() == self._own else name_hook() or _GONE

    def show(self) -> None:
        """Let others see whatever hook there is."""
        self._replaced.put_back()
        make_getprofile(None)

    def end(self, stop: Callable[[], object]) -> str | None:
        """End the profiler, where that takes the hooks of others away, too: these are put back.

        Args:
            stop: ends it.

        Returns:
            The name of a profiler that has taken its place, in this thread or in another; None: it was told of all.
        """
        self.show()
        successor = self.find_successor()
        num_others = call_keeping_hooks(stop, self._own)
        return successor or (_OF_A_THREAD if num_others else None)


def lost_place(tool: str, successor: str) -> CaptureError:
    """Return the error of a capture in whose place another profiler of the process was meanwhile.

    Args:
        tool: that captured.
        successor: the name of the other one.
    """
    return CaptureError(
        f"{tool} had to give way to another profiler of this process ({successor}), so its part is not whole; "
        "--tool pyinstrument goes together with every other profiler"
    )


def name_any_hook() -> str | None:
    """Return the name of a profiler that is told of calls in some thread of this process; None: there is none."""
    return name_hook() or (_OF_A_THREAD if is_any_thread_hooked() else None)


def name_hook() -> str | None:
    """Return the name of the profiler that is told of the calls of this thread; None: there is none."""
    hook = GETPROFILE()
    if hook is None:
        return "yappi" if is_yappi_running() else None if find_hook() is None else "one that was set in C"
    if type(hook).__name__ == _OF_TORCH:
        return "torch.profiler with stacks"
    name = getattr(hook, "__qualname__", None)
    if isinstance(name, str):
        return f"{name} of {getattr(hook, '__module__', None)}, set with sys.setprofile"
    return type(hook).__module__.partition(".")[0]  # cProfile, pyinstrument


def is_yappi_running() -> bool:
    """Tell whether yappi is at work in this process, whoever has started it."""
    yappi = sys.modules.get("_yappi")
    # Asked by what is in its place while a capture of ours is on, that would give way.
    return yappi is not None and bool(inspect.unwrap(yappi.is_running)())
