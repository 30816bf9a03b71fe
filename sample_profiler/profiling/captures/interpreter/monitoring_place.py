"""Owns our place in `sys.monitoring` (Python 3.12 and newer), which nobody else ever finds taken.

There are six, and tools insist on theirs: cProfile raises if somebody else has its place. So whoever asks for ours gets
it, and our callbacks move to another one before they answer.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from sample_profiler.profiling.captures.interpreter.interpreter import ThreadCallback
from sample_profiler.profiling.captures.interpreter.replaced import Replaced

__all__ = ["MonitoringPlace"]

_NUM_PLACES = 6
_NAME = "sample_profiler"


class MonitoringPlace:
    """Callbacks that the interpreter calls for events of the current thread, or of all threads.

    Args:
        callbacks: by the names of their events, as in `sys.monitoring.events`.
        on_move: is called after events of other threads may have been missed; None: they are not called for those.

    Attributes:
        lost_to: the name of the tool that left them no place since they were first called; None: they are whole.
    """

    def __init__(self, callbacks: Mapping[str, Callable[..., Any]], on_move: Callable[[], None] | None = None) -> None:
        self.lost_to: str | None = None
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # since Python 3.12
        events = self._monitoring.events
        self._on_move = on_move
        self._callbacks = {
            getattr(events, name): ThreadCallback(callback, is_for_all=on_move is not None)
            for name, callback in callbacks.items()
        }
        self._place: int | None = None
        self._replaced = Replaced()
        self._get_tool = self._monitoring.get_tool
        self._use_tool_id = self._monitoring.use_tool_id

    def take(self) -> None:
        """Have the callbacks called from now on.

        Raises:
            ValueError: all places are taken.
        """
        if not self._take_free():
            names = ", ".join(sorted({self._get_tool(place) or "" for place in range(_NUM_PLACES)}))
            raise ValueError(f"another profiler runs in this process ({names}), in all places of sys.monitoring")
        self._replaced.replace(self._monitoring, "get_tool", self._make_get_tool)
        self._replaced.replace(self._monitoring, "use_tool_id", self._make_use_tool_id)

    def leave(self) -> None:
        """Have them called no more."""
        self._set_on(False)
        self._replaced.put_back()
        self._free()

    def _take_free(self, but: int | None = None) -> bool:
        """Take the last place that is free, or none; tools that insist on one, insist on one of the first."""
        places = [place for place in reversed(range(_NUM_PLACES)) if place != but and self._get_tool(place) is None]
        if not places:
            return False
        self._place = places[0]
        self._use_tool_id(self._place, _NAME)
        for event, callback in self._callbacks.items():
            self._monitoring.register_callback(self._place, event, callback)
        self._monitoring.set_events(self._place, sum(self._callbacks))
        return True

    def _free(self) -> None:
        place, self._place = self._place, None
        if place is None:
            return
        if self._get_tool(place) != _NAME:  # somebody has freed what was not theirs
            self.lost_to = self._get_tool(place) or "somebody"
            return
        self._monitoring.set_events(place, 0)
        for event in self._callbacks:
            self._monitoring.register_callback(place, event, None)
        self._monitoring.free_tool_id(place)

    def _move(self, place: int, tool: str) -> None:
        """Leave a place to a tool, for another one if there is one."""
        try:
            self._free()
            if not self._take_free(but=place):
                self.lost_to = tool
            if self._on_move is not None:
                self._on_move()
        except Exception:  # nobody else is to hear of it
            self.lost_to = tool

    def _set_on(self, is_on: bool) -> None:
        for callback in self._callbacks.values():
            callback.is_on = is_on

    def _make_get_tool(self, get_tool: Callable[[int], str | None]) -> Callable[..., str | None]:
        @functools.wraps(get_tool)
        def get_tool_of_others(tool_id: int, /) -> str | None:
            return None if tool_id == self._place and self._place is not None else get_tool(tool_id)

        return get_tool_of_others

    def _make_use_tool_id(self, use_tool_id: Callable[[int, str], None]) -> Callable[..., None]:
        @functools.wraps(use_tool_id)
        def make_room(tool_id: int, name: str, /) -> None:
            if self._place is not None and tool_id == self._place:
                self._set_on(False)  # else they were called for one end of the calls below, and not for the other
                self._move(tool_id, name)
                self._set_on(True)
            return use_tool_id(tool_id, name)

        return make_room
