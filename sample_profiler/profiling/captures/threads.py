"""Owns captures of every call of a function, of all threads: with yappi, or without where yappi would harm others."""

from __future__ import annotations

import contextlib
import cProfile
import functools
import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sample_profiler.errors import CaptureError
from sample_profiler.profiling.captures.functions import CALLBACKS
from sample_profiler.profiling.captures.interpreter.call_hook import (
    CallHook,
    is_yappi_running,
    lost_place,
    name_any_hook,
)
from sample_profiler.profiling.captures.interpreter.monitoring_place import MonitoringPlace
from sample_profiler.profiling.captures.interpreter.replaced import Replaced

__all__ = ["AllThreads", "Yappi"]

_CALLED_BY_YAPPI = "_profile_event"  # itself, in new threads; all others are called for somebody who uses it


class AllThreads:
    """Every call of every thread, by the wall's clock, since Python 3.12: a profile for each of them.

    There yappi takes the place of whatever profiler any thread has, with each thread that it sees first.
    """

    def __init__(self) -> None:
        self._profiles: list[cProfile.Profile] = []
        self._threads = threading.local()
        callbacks = {event: self._make_callback(name) for event, name in CALLBACKS.items()}
        self._place = MonitoringPlace(callbacks, self._begin_anew)

    def start(self) -> None:
        """Begin.

        Raises:
            ValueError: another profiler is in its way.
        """
        self._place.take()

    def stop(self) -> None:
        """End.

        Raises:
            CaptureError: another profiler has taken its place meanwhile.
        """
        self._place.leave()
        if self._place.lost_to is not None:
            raise lost_place("yappi", self._place.lost_to)

    def write(self, path: Path) -> bool:
        """Write what was seen; return whether there is anything."""
        seen = [profile for profile in self._profiles if profile.getstats()]
        if not seen:
            cProfile.Profile().dump_stats(path)
            return False
        import pstats  # takes long for every process of a run, and is needed here alone

        pstats.Stats(*seen).dump_stats(path)
        return True

    def _make_callback(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                callbacks = self._threads.callbacks
            except AttributeError:
                callbacks = self._add_thread()
            return callbacks[name](*arguments)

        return call

    def _add_thread(self) -> dict[str, Callable[..., Any]]:
        profile = cProfile.Profile()
        self._profiles.append(profile)
        callbacks = {name: getattr(profile, name) for name in CALLBACKS.values()}
        self._threads.callbacks = callbacks
        return callbacks

    def _begin_anew(self) -> None:
        """Give other threads other profiles: in theirs, ends of calls may be missing, and all later ones be wrong."""
        own = getattr(self._threads, "callbacks", None)
        self._threads = threading.local()
        if own is not None:
            self._threads.callbacks = own


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
