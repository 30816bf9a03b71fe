"""Options of the loss: rewards, returns, advantages and the terms of the PPO objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sample_profiler.config.limits import option


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """Loss."""

    gamma: float = option(0.99, minimum=0, maximum=1)
    """Discount of future rewards per agent step."""

    reward_scale: float = option(1.0, above=0)
    """Factor applied to every reward before training."""

    reward_clip: float = option(1000.0, above=0)
    """Bound on the absolute value of a reward, after scaling."""

    value_bootstrap: bool = False
    """When an episode is cut off by a time limit, add the estimated value of its final observation."""

    normalize_returns: bool = True
    """Train the value function on returns shifted and scaled by their running mean and deviation."""

    exploration_loss_coeff: float = option(0.003, minimum=0)
    """Weight of the exploration loss."""

    value_loss_coeff: float = option(0.5, minimum=0)
    """Weight of the value loss."""

    kl_loss_coeff: float = option(0.0, minimum=0)
    """Weight of the KL divergence from the policy that collected the experience."""

    exploration_loss: Literal["entropy", "symmetric_kl"] = "entropy"
    """Reward for exploring: the policy's entropy, or its symmetric KL divergence from the uniform policy (discrete
    actions only)."""

    gae_lambda: float = option(0.95, minimum=0, maximum=1)
    """Decay of generalized advantage estimation (Schulman et al. 2016); V-trace does not use it."""

    ppo_clip_ratio: float = option(0.1, above=0)
    """Clipping of the policy ratio: with e for this value it is kept between 1 / (1 + e) and 1 + e."""

    ppo_clip_value: float = option(1.0, above=0)
    """Largest change of a value estimate in one update, in the units the value function is trained on."""

    with_vtrace: bool = False
    """Correct for policy lag with V-trace (Espeholt et al. 2018) instead of estimating advantages with GAE."""

    vtrace_rho: float = option(1.0, above=0)
    """Bound on V-trace's importance weights of the temporal differences."""

    vtrace_c: float = option(1.0, above=0)
    """Bound on V-trace's importance weights of the trace."""
