"""Owns the profilers that are told of every call of a function: cProfile and yappi."""

from __future__ import annotations

import contextlib
import cProfile
import functools
import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from sample_profiler.errors import CaptureError
from sample_profiler.profiling.call_hook import CallHook, is_yappi_running, lost_place, name_any_hook, name_hook
from sample_profiler.profiling.monitoring_place import MonitoringPlace
from sample_profiler.profiling.replaced import Replaced

__all__ = ["CProfile", "Yappi"]

_CALLBACKS = {
    "PY_START": "_pystart_callback",
    "PY_RESUME": "_pystart_callback",
    "PY_THROW": "_pystart_callback",
    "PY_RETURN": "_pyreturn_callback",
    "PY_YIELD": "_pyreturn_callback",
    "PY_UNWIND": "_pyreturn_callback",
    "CALL": "_ccall_callback",
    "C_RETURN": "_creturn_callback",
    "C_RAISE": "_creturn_callback",
}
"""What cProfile has the interpreter call for which event, since Python 3.12."""

_CALLED_BY_YAPPI = "_profile_event"  # itself, in new threads; all others are called for somebody who uses it

_lost_profiles: list[cProfile.Profile] = []  # their end, also by being forgotten, would take away another one's hook


class CProfile:
    """The profiler of the standard library: every call of the current thread."""

    def __init__(self) -> None:
        self._profile = _QuietProfile()
        self._way: _Way = _Monitored(self._profile) if hasattr(sys, "monitoring") else _Hooked(self._profile)

    def start(self) -> None:
        """Begin.

        Raises:
            ValueError: another profiler is in its way.
        """
        self._way.start()

    def stop(self) -> None:
        """End.

        Raises:
            CaptureError: another profiler has taken its place meanwhile.
        """
        successor = self._way.stop()
        if successor is not None:
            raise lost_place("cprofile", successor)

    def write(self, path: Path) -> bool:
        """Write what was seen; return whether there is anything."""
        self._profile.dump_stats(path)
        return bool(self._profile.getstats())


class _Way(Protocol):
    """How the interpreter is asked to tell a profile of calls."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> str | None:
        """End; return the name of a profiler that has taken the place of this one; None: it was told of all."""


class _QuietProfile(cProfile.Profile):
    """A profile that somebody may set as a hook again, who found it in `sys.getprofile`."""

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG002 (it has lost its place)
        sys.setprofile(None)


class _Hooked:
    """By the hook of the thread, of which there is one."""

    def __init__(self, profile: cProfile.Profile) -> None:
        self._profile = profile
        self._hook: CallHook | None = None

    def start(self) -> None:
        other = name_hook()
        if other is not None:
            raise ValueError(f"another profiler runs in this process ({other})")
        self._profile.enable()
        self._hook = CallHook(is_in_all_threads=False)

    def stop(self) -> str | None:
        assert self._hook is not None
        self._hook.show()
        successor = self._hook.find_successor()
        if successor is None:
            self._profile.disable()
        else:
            _lost_profiles.append(self._profile)
        return successor


class _Monitored:
    """By a place in `sys.monitoring` that nobody wants, beside any other profiler."""

    def __init__(self, profile: cProfile.Profile) -> None:
        self._place = MonitoringPlace({event: getattr(profile, name) for event, name in _CALLBACKS.items()})

    def start(self) -> None:
        self._place.take()

    def stop(self) -> str | None:
        self._place.leave()
        return self._place.lost_to


class Yappi:
    """Every call of every thread, by the wall's clock. There is one yappi in a process: ours while nobody else's."""

    def __init__(self) -> None:
        try:
            import yappi
        except ImportError as error:
            raise CaptureError("yappi is not installed: pip install 'sample_profiler[profilers]'") from error
        self._yappi: Any = yappi
        self._hook: CallHook | None = None
        self._threads_hook: Any = None
        self._clock = ""
        self._replaced = Replaced()
        self._statistics: Any = None
        self._lost_to: str | None = None

    def start(self) -> None:
        """Begin.

        Raises:
            ValueError: somebody else uses yappi, or another profiler is in its way.
        """
        if is_yappi_running():
            raise ValueError("yappi is running already")
        other = name_any_hook() or ("threading.setprofile" if threading.getprofile() else None)
        if other is not None:
            raise ValueError(f"another profiler runs in this process ({other})")
        if not self._yappi.get_func_stats().empty() or not self._yappi.get_thread_stats().empty():
            raise ValueError("somebody else uses yappi in this process, and has not cleared its statistics")
        self._clock = self._yappi.get_clock_type()
        self._yappi.set_clock_type("wall")
        self._yappi.start(builtins=True)
        self._hook = CallHook(is_in_all_threads=True)
        self._threads_hook = threading.getprofile()
        self._replaced.replace(threading, "getprofile", self._hide)
        core = self._yappi._yappi  # by which all others work, also those that somebody has since before
        for name, _ in inspect.getmembers(core, inspect.isbuiltin):
            if name != _CALLED_BY_YAPPI:
                self._replaced.replace(core, name, self._after_giving_way)

    def stop(self) -> None:
        """End.

        Raises:
            CaptureError: somebody else has used yappi meanwhile, or another profiler has taken its place.
        """
        if self._hook is not None:
            self._lost_to = self._end(self._hook)
        if self._lost_to is not None:
            raise lost_place("yappi", self._lost_to)

    def write(self, path: Path) -> bool:
        """Write what was seen; return whether there is anything."""
        if self._statistics.empty():
            cProfile.Profile().dump_stats(path)
            return False
        self._statistics.save(str(path), type="pstat")
        return True

    def _end(self, hook: CallHook) -> str | None:
        """End it, and leave everything as it was found or as others have set it; return who has taken its place."""
        self._hook = None
        self._replaced.put_back()
        threads_hook = threading.getprofile()
        successor = hook.end(self._yappi.stop)
        if threads_hook is not self._threads_hook:
            threading.setprofile(threads_hook)
            successor = successor or "threading.setprofile"
        self._statistics = self._yappi.get_func_stats()
        self._yappi.clear_stats()
        self._yappi.set_clock_type(self._clock)
        return successor

    def _hide(self, getprofile: Callable[[], Any]) -> Callable[[], Any]:
        @functools.wraps(getprofile)
        def show_those_of_others() -> Any:
            hook = getprofile()
            return None if hook is self._threads_hook else hook

        return show_those_of_others

    def _after_giving_way(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def give_way(*arguments: Any, **options: Any) -> Any:
            if self._hook is not None:
                self._lost_to = "somebody else's yappi"
                with contextlib.suppress(Exception):  # nobody else is to hear of it
                    self._end(self._hook)
            return function(*arguments, **options)

        return give_way
