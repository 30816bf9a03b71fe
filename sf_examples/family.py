"""Owns what the two programs of a family of environments do: one trains, the other plays what was trained."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Family"]


@dataclass(frozen=True, kw_only=True)
class Family:
    """Environments with flags and defaults of their own.

    Attributes:
        register: Makes their names known.
        defaults: What they have instead of the flags' own defaults; of a command line, where it depends on that.
        extra_parts: Flags that others do not have.
    """

    register: Callable[[], None]
    defaults: Mapping[str, Any] | Callable[[Sequence[str]], Mapping[str, Any]]
    extra_parts: tuple[type, ...] = ()

    def train(self, argv: Sequence[str] | None = None) -> int:
        """Train.

        Args:
            argv: The command line without the program's name; by default that of this process.

        Returns:
            The exit status: 0 if the run ended well.
        """
        # Not above: processes that only step environments import a family, too.
        from sample_profiler.cli.train import train

        return self._start(train, argv)

    def enjoy(self, argv: Sequence[str] | None = None) -> int:
        """Play what was trained.

        Args:
            argv: The command line without the program's name; by default that of this process.

        Returns:
            The exit status: 0 if all episodes were played.
        """
        from sample_profiler.cli.enjoy import enjoy

        return self._start(enjoy, argv)

    def _start(self, program: Callable[..., int], argv: Sequence[str] | None) -> int:
        self.register()
        defaults = self.defaults
        if callable(defaults):
            defaults = defaults(sys.argv[1:] if argv is None else argv)
        return program(argv, extra_parts=self.extra_parts, defaults=defaults)
