"""Owns the adapter around PettingZoo's parallel environments that Sample Factory has: agents that reset themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sample_profiler.envs.pettingzoo import ParallelAgents

__all__ = ["PettingZooParallelEnv"]


class PettingZooParallelEnv(ParallelAgents):
    """Several agents that begin the next episode within the step that ends one; who is not to move is inactive."""

    is_multiagent = True
    _absent_end = False

    def step(self, actions: Sequence[Any]) -> Any:
        """Take a step; where it ends the episode, return the first observations of the next."""
        observations, *outcomes, infos = super().step(actions)
        if not self.env.agents:
            observations, begun = self.reset()
            # Who has a part in the next step is said by what it begins with.
            infos = [{**info, "is_active": told["is_active"]} for info, told in zip(infos, begun, strict=True)]
        return observations, *outcomes, infos
