"""Owns an action space of numbers that are chosen from a few."""

from __future__ import annotations

from gymnasium import spaces

__all__ = ["Discretized"]


class Discretized(spaces.Discrete):
    """One of n numbers, evenly spread from the smallest to the largest.

    Attributes:
        min_action: The smallest.
        max_action: The largest.
    """

    def __init__(self, n: int, min_action: float, max_action: float) -> None:
        super().__init__(n)
        self.min_action = min_action
        self.max_action = max_action

    def to_continuous(self, discrete_action: int) -> float:
        """Return the number that an action stands for."""
        return self.min_action + int(discrete_action) * (self.max_action - self.min_action) / (int(self.n) - 1)
