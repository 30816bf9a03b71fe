"""Owns what captures need of the interpreter and cannot have unseen from Python: looks at stacks, others' hooks.

Compiled (``_interpreter.c``) where there was a compiler at installation. In pure Python the looks are those of a thread
with Python code in it, which profilers of somebody else may see, and of hooks only those that `sys.getprofile` shows.
"""

from __future__ import annotations

import _thread
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

__all__ = [
    *("GETPROFILE", "Hook", "Looks", "Stack", "ThreadCallback"),
    *("call_keeping_hooks", "find_hook", "is_any_thread_hooked", "make_getprofile", "stack_of"),
]

_VERSION = 1  # of what is expected of _interpreter.c

try:
    from sample_profiler.profiling.captures.interpreter import _interpreter

    _IS_COMPILED = getattr(_interpreter, "INTERPRETER_VERSION", None) == _VERSION
except ImportError:
    _IS_COMPILED = False

GETPROFILE = sys.getprofile
"""The interpreter's own, also while something else is in its place."""

Hook = tuple[int, int]
"""The addresses of the function and the object that the interpreter tells of calls."""

Stack = tuple[CodeType, ...]
"""Functions that are being executed, the outermost first."""


class _ThreadCallback:
    """Calls a callback in the thread that has made this, and does nothing in others.

    Args:
        callback: is called with whatever this is called with.
        is_for_all: it is called in all threads.

    Attributes:
        is_on: whether the callback is called at all.
    """

    def __init__(self, callback: Callable[..., Any], *, is_for_all: bool = False) -> None:
        self.is_on = True
        self._is_for_all = is_for_all
        self._callback = callback
        self._thread = _thread.get_ident()

    def __call__(self, *arguments: Any) -> None:
        if self.is_on and (self._is_for_all or _thread.get_ident() == self._thread):
            self._callback(*arguments)


ThreadCallback: Any = _interpreter.ThreadCallback if _IS_COMPILED else _ThreadCallback


class Looks:
    """Looks at the stack of the current thread at intervals.

    Nobody is told of calls for it, so it goes together with every other profiler. Compiled, and for the main thread, no
    Python code runs for it either. The time since the last look is that of the stack that is found.

    Args:
        interval_s: between two of them.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._thread = _thread.get_ident()
        is_main = threading.current_thread() is threading.main_thread()
        self._is_compiled = _IS_COMPILED and is_main
        self._looks: list[tuple[int, Stack]] = []
        self._is_over = False
        self._has_ended = _thread.allocate_lock()

    def start(self) -> None:
        """Begin.

        Raises:
            RuntimeError: somebody looks at the main thread already, or there is no room for a thread.
        """
        if self._is_compiled:
            _interpreter.start_looking(self._interval_s)
            return
        self._has_ended.acquire()
        # Not `threading`: the thread belongs into nobody's list, and gets nobody's hooks.
        _thread.start_new_thread(self._look_until_the_end, ())

    def stop(self) -> list[tuple[int, Stack]]:
        """End, and return what was seen in its order: for how many nanoseconds, which stack."""
        if self._is_compiled:
            return _interpreter.stop_looking()
        self._is_over = True
        with self._has_ended:
            return self._looks

    def _look_until_the_end(self) -> None:
        looked_ns = time.perf_counter_ns()
        while not self._is_over:
            time.sleep(self._interval_s)
            frame = sys._current_frames().get(self._thread)
            now_ns = time.perf_counter_ns()
            if frame is not None:
                self._looks.append((now_ns - looked_ns, stack_of(frame)))
            looked_ns = now_ns
            del frame
        self._has_ended.release()


def stack_of(frame: FrameType | None) -> Stack:
    """Return the functions that are being executed down to this frame."""
    codes = []
    while frame is not None:
        codes.append(frame.f_code)
        frame = frame.f_back
    return tuple(reversed(codes))


def find_hook() -> Hook | None:
    """Return which hook this thread has for calls, or None: the addresses of its function and of its object."""
    if _IS_COMPILED:
        return _interpreter.call_hook()
    hook = GETPROFILE()
    return None if hook is None else (0, id(hook))


def make_getprofile(hidden: Hook | None) -> Callable[[], Any]:
    """Return what does what `sys.getprofile` does, but says that there is none where there is this hook.

    The latest one alone does so.

    Args:
        hidden: a hook, the object 0: with any; None: nothing is hidden.
    """
    if _IS_COMPILED:
        _interpreter.hide_hook(*(hidden or ()))
        if hidden is not None:
            _interpreter.make_callable()  # for those who have had the interpreter's own since before
        return _interpreter.getprofile

    own = find_hook()

    def getprofile() -> Any:
        return None if hidden is not None and find_hook() == own else GETPROFILE()

    return getprofile


def is_any_thread_hooked() -> bool:
    """Tell whether the interpreter tells a profiler of calls in some thread of this process."""
    return _interpreter.is_any_thread_hooked() if _IS_COMPILED else GETPROFILE() is not None


def call_keeping_hooks(call: Callable[[], object], own: Hook | None) -> int:
    """Call what takes the hooks away from all threads, and put those of others back.

    Args:
        call: is called; these hooks are away meanwhile.
        own: the hook that is not kept, in no thread.

    Returns:
        How many others there are.
    """
    if _IS_COMPILED:
        return _interpreter.call_keeping_hooks(call, 0 if own is None else own[0])
    hook = GETPROFILE()
    if hook is None or find_hook() == own:
        call()
        return 0
    sys.setprofile(None)
    call()
    if callable(hook):  # else it was set in C, and can be set there alone
        sys.setprofile(hook)
    return 1
