"""Time that passes when a test says so, for whoever takes a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")


class Clock:
    """Returns seconds when called; they pass by `now_s`, or by `sleep`."""

    def __init__(self, now_s: float = 100.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def ns(self) -> int:
        return round(self.now_s * 1e9)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def pass_time(self, seconds: int, look: Callable[[], Seen]) -> list[Seen]:
        """Let time pass second by second, and look each time; return what was found."""
        found = []
        for _ in range(seconds):
            self.now_s += 1
            found.append(look())
        return found
