"""Owns our part of `torch.profiler`, of which a process can have one at a time: ours gives way to that of others.

Whoever starts theirs while ours is on would get an error, or a process that crashes when the two end. So ours ends
before theirs begins. PyTorch is imported when a profile is made, not before.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from sample_profiler.profiling.captures.interpreter.call_hook import CallHook, lost_place, name_any_hook
from sample_profiler.profiling.captures.interpreter.replaced import Replaced
from sample_profiler.profiling.captures.torch_state import is_torch_capturing, is_torch_prepared, is_torch_session_on

__all__ = ["TorchProfile", "check_none_is_prepared", "is_call_hook_taken", "name_rival_of_stacks"]

_ENTRANCES = ("_prepare_profiler", "_enable_profiler", "_enable_profiler_legacy")
"""What every profiler of PyTorch's calls before it begins."""

_PLACE_OF_STACKS = 2
"""Of `sys.monitoring`, which PyTorch takes for stacks with some versions of Python, and which is also cProfile's."""


def check_none_is_prepared() -> None:
    """See to it that nobody else's profiler is about to begin; it takes 30 ms and more, so this is for the door.

    Raises:
        ValueError: one is.
    """
    if not is_torch_capturing() and is_torch_prepared():
        raise ValueError("a torch.profiler of this process is about to begin")


class TorchProfile:
    """A `torch.profiler.profile` that others need not know of.

    Args:
        on_giving_way: is called when it does so.
        options: its arguments.

    Attributes:
        profile: itself.
        lost_to: the name of the profiler that it has given way to, or that has taken the place of its stacks.
        is_any_on: whether one of this class is at work in this process.
    """

    is_any_on = False

    def __init__(self, on_giving_way: Callable[[], None] = lambda: None, **options: Any) -> None:
        import torch.profiler

        self.profile: Any = torch.profiler.profile(**options)
        self.lost_to: str | None = None
        self._on_giving_way = on_giving_way
        self._has_stacks = bool(options.get("with_stack"))
        self._hook: CallHook | None = None
        self._thread = threading.get_ident()
        self._is_on = False
        self._lost_session = False
        self._replaced = Replaced()

    def start(self) -> None:
        """Begin.

        Raises:
            ValueError: another profiler is in its way.
        """
        if is_torch_capturing():  # its profiler would end that one, and lose what it has
            raise ValueError("torch.profiler captures in this process already, as after enable_profile")
        rival = name_rival_of_stacks() if self._has_stacks else None
        if rival is not None:
            raise ValueError(f"another profiler runs in this process ({rival})")
        self.profile.start()
        self._is_on = TorchProfile.is_any_on = True
        self._hook = CallHook(is_in_all_threads=True) if self._has_stacks else None
        self._watch_entrances()

    def stop(self) -> None:
        """End.

        Raises:
            CaptureError: it has given way to somebody else's, or another profiler has taken the place of its stacks.
        """
        if self._is_on:
            self._end()
        if self.lost_to is not None:
            raise lost_place("torch", self.lost_to)

    def _watch_entrances(self) -> None:
        import torch

        modules = (torch.autograd, torch.autograd.profiler, sys.modules.get("torch.autograd.profiler_legacy"))
        for module in modules:
            for name in _ENTRANCES:
                if hasattr(module, name):
                    self._replaced.replace(module, name, self._after_giving_way)
        monitoring: Any = getattr(sys, "monitoring", None)
        if self._has_stacks and monitoring is not None and monitoring.get_tool(_PLACE_OF_STACKS) is not None:
            for name in ("get_tool", "use_tool_id"):
                self._replaced.replace(monitoring, name, self._after_leaving_place)

    def _after_giving_way(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def give_way(*arguments: Any, **options: Any) -> Any:
            self._give_way("torch.profiler", takes_session=True)
            return function(*arguments, **options)

        return give_way

    def _after_leaving_place(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def leave_place(tool_id: int, *arguments: Any) -> Any:
            if tool_id == _PLACE_OF_STACKS:
                self._give_way("cProfile, or another in its place of sys.monitoring", takes_session=False)
            return function(tool_id, *arguments)

        return leave_place

    def _give_way(self, successor: str, takes_session: bool) -> None:
        """End, unless that has been; another thread than its own cannot end it."""
        if not self._is_on:
            return
        self.lost_to = successor
        self._on_giving_way()
        if threading.get_ident() == self._thread:
            with contextlib.suppress(Exception):  # nobody else is to hear of it
                self._end()
        elif takes_session:
            self._lost_session = True

    def _end(self) -> None:
        self._is_on = TorchProfile.is_any_on = False
        self._replaced.put_back()
        if self._hook is not None:
            self._hook.show()
        if self._lost_session and not self._make_session():
            return
        if self._hook is None:
            self.profile.stop()
        else:
            successor = self._hook.end(self.profile.stop)
            self.lost_to = self.lost_to or successor

    def _make_session(self) -> bool:
        """Make a session that this profile can end in the place of its own; return whether there is room for one.

        Its own was gone when a profiler of another thread began, and PyTorch crashes when it ends what is not there.
        """
        if is_torch_session_on():
            _never_ended.append(self)
            return False
        stand_in = type(self.profile)(activities=self.profile.activities)
        thread = threading.Thread(target=stand_in.start, daemon=True)
        thread.start()
        thread.join()
        stand_in.profiler.entered = False  # it is not about to do anything
        return True


_never_ended: list[TorchProfile] = []
"""Those whose end would be the end of somebody else's."""


def name_rival_of_stacks() -> str | None:
    """Return the name of a profiler of this process that stacks would take the place of, or None."""
    monitoring: Any = getattr(sys, "monitoring", None)
    return name_any_hook() or (None if monitoring is None else monitoring.get_tool(_PLACE_OF_STACKS))


def is_call_hook_taken() -> bool:
    """Tell whether stacks would take the place of another profiler."""
    return name_rival_of_stacks() is not None
