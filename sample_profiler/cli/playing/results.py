"""What a program that has played returns: its exit status, and the episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sample_profiler.components.evaluation import PlayedEpisode

__all__ = ["PlayResult"]


class PlayResult(int):
    """Exit status of a program that has played, for `sys.exit`, which also has the episodes.

    Attributes:
        episodes: that were played to their end: each has `reward` (a mean over its agents), `rewards`, `num_frames` and
            `extra`, what the environment said of it.
    """

    episodes: tuple[PlayedEpisode, ...]

    def __new__(cls, status: int, episodes: Sequence[PlayedEpisode] = ()) -> PlayResult:
        """Put both together.

        Args:
            status: the exit status.
            episodes: that were played.
        """
        result = super().__new__(cls, status)
        result.episodes = tuple(episodes)
        return result

    @property
    def mean_reward(self) -> float:
        """Mean reward of an episode; NaN: none was played to its end."""
        return float(np.mean([episode.reward for episode in self.episodes])) if self.episodes else float("nan")
