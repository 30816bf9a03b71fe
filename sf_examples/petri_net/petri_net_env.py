"""The cluster tool as a gymnasium environment, with an action mask; turbo or not, it is the same one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler.config import option
from sf_examples.petri_net.arguments import MOST_WAFERS
from sf_examples.petri_net.cluster_tool import END_TIME, NUM_ACTIONS, Rewards
from sf_examples.petri_net.plain_simulation import PlainSimulation
from sf_examples.petri_net.turbo_simulation import TurboSimulation

__all__ = ["PetriNetEnv", "PetriNetOptions", "make_petri_net_env"]


@dataclass(frozen=True, kw_only=True)
class PetriNetOptions:
    """Cluster tool."""

    turbo: bool = True
    """Simulate the net with the faster code; what it does is the same step by step."""

    num_wafers: int = option(5, minimum=1, maximum=MOST_WAFERS)
    """Number of wafers to finish."""


class PetriNetEnv(gymnasium.Env[Any, Any]):
    """One wafer cluster tool.

    Observations: `obs` has place, kind, stay and time left to scrap of each wafer, scaled to about 1, `[4 num_wafers]`
    float32; `action_mask` is 1 for each of the 13 actions that is legal. Actions: picking up and putting down of each
    of the six moves, and waiting, which is always legal.

    An episode is *terminated* when all wafers are finished or one is scrap (`info["is_scrapped"]`), and *truncated* at
    50,000 units of time. The net is deterministic: seeds change nothing.
    """

    def __init__(self, num_wafers: int = 5, *, turbo: bool = True, rewards: Rewards | None = None) -> None:
        simulation = TurboSimulation if turbo else PlainSimulation
        self.simulation = simulation(num_wafers, rewards or Rewards())
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self.observation_space = spaces.Dict(
            {
                "obs": spaces.Box(-np.inf, np.inf, (4 * num_wafers,), np.float32),
                "action_mask": spaces.Box(0, 1, (NUM_ACTIONS,), np.int8),
            }
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Put all wafers into the load port."""
        super().reset(seed=seed, options=options)
        self.simulation.reset()
        return self._observe(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Fire a transition, or wait.

        Raises:
            ValueError: the action is not legal.
        """
        simulation = self.simulation
        reward = simulation.step(int(action))
        is_over = simulation.is_scrapped or simulation.is_finished
        is_late = not is_over and simulation.time >= END_TIME
        info: dict[str, Any] = {}
        if is_over or is_late:
            info["is_scrapped"] = simulation.is_scrapped
            info["episode_extra_stats"] = {
                "finished": float(simulation.num_finished),
                "scrapped": float(simulation.is_scrapped),
            }
        return self._observe(), reward, is_over, is_late, info

    def _observe(self) -> dict[str, Any]:
        return {"obs": self.simulation.observation(), "action_mask": self.simulation.mask()}


def make_petri_net_env(_name: str, cfg: Any, _placement: Any, render_mode: str | None = None) -> PetriNetEnv:
    """Make the environment, for `sample_profiler.register_env`."""
    del render_mode
    options = cfg.part(PetriNetOptions)
    return PetriNetEnv(options.num_wafers, turbo=options.turbo)
