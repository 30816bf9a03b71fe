"""Owns what belongs to a whole process, and what somebody else's code in it has changed of that.

In a serial run environments share the process with everything else. What the run itself depends on is put back; what
an environment may need as it is, such as the current folder, stays. Either is said once.
"""

from __future__ import annotations

import logging
import sys
import time
import weakref
from typing import Any

from sample_profiler.runtime.surroundings.settings import list_settings, list_torch_settings

__all__ = ["SETTINGS_INTERVAL_S", "ProcessSettings", "expect_changes"]

logger = logging.getLogger(__name__)

SETTINGS_INTERVAL_S = 1.0
"""How often a loop looks for changes."""


class ProcessSettings:
    """What code may change of the process that it runs in, as it is when this is made.

    Attributes:
        is_told: whether it says what is changed; else another process, in which the same happens, does.
    """

    def __init__(self, *, is_told: bool = True) -> None:
        self.is_told = is_told
        self._clock = time.monotonic
        self._settings = list_settings()
        self._urgent = [setting for setting in self._settings if setting.is_urgent]
        self._has_torch = False
        self._before: dict[str, Any] = {}
        self._told: set[str] = set()
        _watched.add(self)
        self.expect_change()

    def expect_change(self) -> None:
        """Take what is there now for what is to be: the run itself has changed something."""
        if not self._has_torch and "torch" in sys.modules:
            self._has_torch = True
            added = list_torch_settings()
            self._settings += added
            self._urgent += [setting for setting in added if setting.is_urgent]
        self._before = {setting.name: setting.read_if_possible() for setting in self._settings}

    def changes(self) -> dict[str, str]:
        """Return what differs by now, by its name, in words; all of it stays as it is."""
        differing = [
            (setting, before, now)
            for setting in self._settings
            if not setting.is_as_it_was(before := self._before[setting.name], now := setting.read_if_possible())
        ]
        return {setting.name: setting.name + setting.describe(before, now) for setting, before, now in differing}

    def is_kept_where_it_hurts(self) -> bool:
        """Tell, within a few microseconds, whether what others in this process need next is as it was."""
        if time.monotonic is not self._clock:  # no timer would be due any more
            return False
        for setting in self._urgent:
            before, now = self._before[setting.name], setting.read()
            if now != before and not setting.is_kept(before, now):
                return False
        return True

    def look(self) -> None:
        """Check, if what is needed next is not as it was."""
        if not self.is_kept_where_it_hurts():
            self.check()

    def check(self) -> None:
        """Look for changes, put back what the run depends on, and say each once."""
        put_back: list[str] = []
        left: list[str] = []
        for setting in self._settings:
            before, now = self._before[setting.name], setting.read_if_possible()
            if setting.is_as_it_was(before, now):
                continue
            is_put_back = setting.restore(before)
            if not is_put_back:
                self._before[setting.name] = now
            if setting.name not in self._told:
                self._told.add(setting.name)
                (put_back if is_put_back else left).append(setting.name + setting.describe(before, now))
        whose = "The environment, or what it imports, has changed what belongs to the whole process"
        if put_back and self.is_told:
            logger.warning("%s; as the run depends on it, it was put back: %s", whose, "; ".join(put_back))
        if left and self.is_told:
            logger.info("%s, which stays so: %s", whose, "; ".join(left))


_watched: weakref.WeakSet[ProcessSettings] = weakref.WeakSet()


def expect_changes() -> None:
    """Take what networks have just changed of this process for what is to be, before environments are made in it."""
    for settings in list(_watched):
        settings.expect_change()
