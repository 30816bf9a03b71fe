"""Owns what is counted of episodes, agent by agent: who has a part in them, who begins late, and how far each is.

One rule for sampling and for evaluation. Agents of an environment end their episodes together, or each begins its own
(`AgentsEnv.ends_apart`); in both cases one who has no part when its episode begins, or has ended while others go on,
begins with the first step that it has a part in again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["EpisodeTracker"]


class EpisodeTracker:
    """Counts the episodes of rows, each of which is an agent of one environment, or of one of several side by side.

    Args:
        ends_apart: of each row: whether its environment's agents begin episodes of their own.

    Attributes:
        inactive: `[rows]` bool: have no part in the next step.
        returns: `[rows]`: sums of rewards of the episodes under way.
        lengths: `[rows]` int64: steps of these.
        is_partial: `[rows]` bool: began with steps that do not count, so that nobody is told of the end.
    """

    def __init__(self, ends_apart: Sequence[bool]) -> None:
        num_rows = len(ends_apart)
        self.inactive = np.zeros(num_rows, dtype=np.bool_)
        self.returns = np.zeros(num_rows)
        self.lengths = np.zeros(num_rows, dtype=np.int64)
        self.is_partial = np.zeros(num_rows, dtype=np.bool_)
        self._ends_apart = tuple(ends_apart)
        self._to_begin: set[int] = set()

    def note_active(self, first: int, infos: Sequence[Mapping[str, Any]]) -> None:
        """Take in who has a part in the next step.

        Args:
            first: row of the environment's first agent.
            infos: of all of its agents, of the step or the reset before.
        """
        self.inactive[first : first + len(infos)] = [not info.get("is_active", True) for info in infos]

    def begin(self, rows: Sequence[int] | npt.NDArray[np.intp]) -> None:
        """Count from the beginning of these rows' next episodes; an inactive one begins it late."""
        index = np.asarray(rows)
        is_late = self.inactive[index]
        self.returns[index] = 0.0
        self.lengths[index] = 0
        self.is_partial[index] = False
        if self._to_begin or is_late.any():
            self._to_begin.difference_update(index[~is_late].tolist())
            self._to_begin.update(index[is_late].tolist())

    def begin_late(self) -> list[int]:
        """Return the rows that begin late with the next step: were inactive when they were to, and are not any more.

        To be called after each step, once its lengths and rewards are counted, and it is noted who is active. Where
        agents end apart no step before is part of the episode, such as that which shows a member of a vector its first
        observation; where they end together the episode is that of all.
        """
        if not self._to_begin:
            return []
        rows = sorted(row for row in self._to_begin if not self.inactive[row])
        self._to_begin.difference_update(rows)
        if anew := [row for row in rows if self._ends_apart[row]]:
            self.returns[anew] = 0.0
            self.lengths[anew] = 0
        return rows

    def end_alone(self, first: int, terminated: Sequence[bool], truncated: Sequence[bool]) -> list[int]:
        """Take in a step that has ended episodes of agents while that of others goes on.

        Args:
            first: row of the environment's first agent.
            terminated: of each of its agents.
            truncated: of each of its agents.

        Returns:
            The rows whose episode has ended with it. Steps after that may tell it again, until the agent has a part in
            the next one.
        """
        ends = enumerate(zip(terminated, truncated, strict=True), first)
        rows = [row for row, has_ended in ends if any(has_ended) and row not in self._to_begin]
        self._to_begin.update(rows)
        return rows

    def course(self) -> dict[str, Any]:
        """Return where the episodes are, as data for `follow`."""
        return {
            "returns": self.returns.copy(),
            "lengths": self.lengths.copy(),
            "is_partial": self.is_partial.copy(),
            "inactive": self.inactive.copy(),
            "to_begin": sorted(self._to_begin),
        }

    def follow(self, course: Mapping[str, Any]) -> None:
        """Go on from a course, which may have other entries, too."""
        self.returns, self.lengths = course["returns"], course["lengths"]
        self.is_partial, self.inactive = course["is_partial"], course["inactive"]
        self._to_begin = set(course["to_begin"])
