"""Owns the terms of the PPO objective (Schulman et al. 2017, arXiv:1707.06347), to be minimized.

Each function returns a *sum* over valid steps, and the caller divides by the number of valid steps of the whole
minibatch. So a minibatch may go through the network in pieces of any size, and their gradients add up to its gradient.
Coefficients are the caller's, too.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sample_profiler.model import ActionDistribution
from sample_profiler.profiling.ranges import profile_range

__all__ = [
    *("MAX_RATIO", "MIN_RATIO"),
    *("exploration_loss", "kl_loss", "policy_loss", "probability_ratio", "value_loss"),
]

MIN_RATIO = 0.05
MAX_RATIO = 20.0
"""Ratios beyond these are noise rather than information, and overflow."""

# Beyond this divergence from the uniform policy a step has no say any more, instead of all of it.
_MAX_SYMMETRIC_KL = 30.0


def probability_ratio(log_probabilities: Tensor, old_log_probabilities: Tensor) -> Tensor:
    """Return how much more probable actions ``[N]`` have become, kept within 1/20 and 20.

    Args:
        log_probabilities: ``[N]``, of the policy that learns.
        old_log_probabilities: ``[N]``, of the policy that acted.
    """
    # Before exp(), whose gradient at infinity is NaN even if nothing follows from it.
    log_ratio = (log_probabilities - old_log_probabilities).clamp(math.log(MIN_RATIO), math.log(MAX_RATIO))
    return log_ratio.exp()


@profile_range("policy_loss")
def policy_loss(ratio: Tensor, advantages: Tensor, valid: Tensor, clip_ratio: float) -> Tensor:
    """Return the negative clipped surrogate objective (equation 7), a sum over valid steps.

    Args:
        ratio: ``[N]``, from :func:`probability_ratio`.
        advantages: ``[N]``, normalized over the whole minibatch.
        valid: ``[N]``, 0 for steps that do not count.
        clip_ratio: ``e`` in the bounds 1 / (1 + e) and 1 + e. The lower one is not 1 - e: it stays positive for any e,
            and halving a probability counts as much as doubling it.
    """
    clipped_ratio = ratio.clamp(1 / (1 + clip_ratio), 1 + clip_ratio)
    return -_sum_of_valid(torch.minimum(ratio * advantages, clipped_ratio * advantages), valid)


@profile_range("value_loss")
def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, valid: Tensor, clip_value: float) -> Tensor:
    """Return the squared error of values, a sum over valid steps.

    A value gains nothing from moving further than ``clip_value`` from what it was.

    Args:
        values: ``[N]``, of the network that learns.
        old_values: ``[N]``, of the network that acted, in the same units.
        returns: ``[N]``, what the values should be, in the same units.
        valid: ``[N]``, 0 for steps that do not count.
        clip_value: Bound on the change, in those units.
    """
    clipped_values = old_values + (values - old_values).clamp(-clip_value, clip_value)
    return _sum_of_valid(torch.maximum((values - returns).square(), (clipped_values - returns).square()), valid)


@profile_range("exploration_loss")
def exploration_loss(distribution: ActionDistribution, valid: Tensor, exploration_loss: str) -> Tensor:
    """Return how far the policy is from exploring, a sum over valid steps.

    Args:
        distribution: Of N actions, of the policy that learns.
        valid: ``[N]``, 0 for steps that do not count.
        exploration_loss: ``entropy``: the negative entropy; ``symmetric_kl``: the symmetric KL divergence from the
            uniform policy.

    Raises:
        ConfigError: ``symmetric_kl`` for continuous actions.
    """
    if exploration_loss == "symmetric_kl":
        return _sum_of_valid(distribution.symmetric_kl_with_uniform().clamp_max(_MAX_SYMMETRIC_KL), valid)
    return -_sum_of_valid(distribution.entropy(), valid)


@profile_range("kl_loss")
def kl_loss(old: ActionDistribution, new: ActionDistribution, valid: Tensor) -> Tensor:
    """Return the KL divergence KL(new ‖ old), a sum over valid steps.

    Args:
        old: N distributions of the policy that acted.
        new: The same of the policy that learns.
        valid: ``[N]``, 0 for steps that do not count.
    """
    return _sum_of_valid(new.kl(old), valid)


def _sum_of_valid(terms: Tensor, valid: Tensor) -> Tensor:
    # Not a product: what does not count may have overflowed.
    return terms.masked_fill(valid == 0, 0.0).sum()
