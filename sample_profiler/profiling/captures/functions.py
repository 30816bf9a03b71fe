"""Owns captures with cProfile, which is told of every call of a function of its thread."""

from __future__ import annotations

import cProfile
import sys
from pathlib import Path
from types import FrameType
from typing import Protocol

from sample_profiler.profiling.captures.interpreter.call_hook import CallHook, lost_place, name_hook
from sample_profiler.profiling.captures.interpreter.monitoring_place import MonitoringPlace

__all__ = ["CALLBACKS", "CProfile"]

CALLBACKS = {
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
        self._place = MonitoringPlace({event: getattr(profile, name) for event, name in CALLBACKS.items()})

    def start(self) -> None:
        self._place.take()

    def stop(self) -> str | None:
        self._place.leave()
        return self._place.lost_to
