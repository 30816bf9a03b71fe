"""Actor-critic networks, encoders, cores, action distributions, normalization. Knows no losses and no processes."""

from __future__ import annotations

from sample_profiler.model.actor_critic import ActorCritic, make_actor_critic
from sample_profiler.model.distributions import ActionDistribution
from sample_profiler.model.normalization import RunningMeanStd

__all__ = ["ActionDistribution", "ActorCritic", "RunningMeanStd", "make_actor_critic"]
