"""Owns the estimates of how much better than expected actions turned out.

S trajectories of T steps. ``values`` has one column more: the value of what follows the last step. The end of an
episode cuts everything behind it off. What its last step may still expect depends on how it ended: nothing if it was
terminated; if it was truncated, cut off by a time limit, the value of its *final* observation, if that is given.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sample_profiler.profiling.ranges import profile_range

__all__ = ["gae", "vtrace"]


@torch.no_grad()
@profile_range("gae")
def gae(
    rewards: Tensor,
    values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    final_values: Tensor | None,
    gamma: float,
    gae_lambda: float,
) -> tuple[Tensor, Tensor]:
    """Estimate advantages and returns (Schulman et al. 2016, arXiv:1506.02438, equation 16).

    Args:
        rewards: ``[S, T]``.
        values: ``[S, T + 1]``, in units of returns.
        terminated: ``[S, T]`` bool, the step was the last of its episode.
        truncated: ``[S, T]`` bool, the episode was cut off after the step.
        final_values: ``[S, T]``, values of the final observations, looked at where a step is truncated and not
            terminated; ``None``: a truncated episode counts as terminated.
        gamma: Discount per step.
        gae_lambda: Decay of the sum of temporal differences.

    Returns:
        Advantages and returns (advantages + values), ``[S, T]``.
    """
    next_values, goes_on = _look_ahead(values, terminated, truncated, final_values)
    deltas = rewards + gamma * next_values - values[:, :-1]
    advantages = _discounted_sums(deltas, gamma * gae_lambda * goes_on)
    return advantages, advantages + values[:, :-1]


@torch.no_grad()
@profile_range("vtrace")
def vtrace(
    rewards: Tensor,
    values: Tensor,
    ratios: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    final_values: Tensor | None,
    gamma: float,
    rho: float,
    c: float,
) -> tuple[Tensor, Tensor]:
    """Estimate advantages and value targets of a policy from another's steps (Espeholt et al. 2018, arXiv:1802.01561).

    Equation 1 gives the targets and section 4.2 the advantages, which contain the clipped ratio. The value behind the
    last step comes from ``values``, where the paper has v_T = V(x_T).

    Args:
        rewards: ``[S, T]``.
        values: ``[S, T + 1]``, in units of returns.
        ratios: ``[S, T]``, probability of the action under the policy that learns over that under the one that acted.
        terminated: ``[S, T]`` bool, the step was the last of its episode.
        truncated: ``[S, T]`` bool, the episode was cut off after the step.
        final_values: As in :func:`gae`.
        gamma: Discount per step.
        rho: Bound on the ratios of temporal differences, which decides what the targets converge to.
        c: Bound on the ratios of the trace, which decides how fast.

    Returns:
        Advantages and value targets, ``[S, T]``.
    """
    next_values, goes_on = _look_ahead(values, terminated, truncated, final_values)
    now = values[:, :-1]
    clipped = ratios.clamp_max(rho)
    deltas = clipped * (rewards + gamma * next_values - now)
    targets = now + _discounted_sums(deltas, gamma * ratios.clamp_max(c) * goes_on)
    # At the end of an episode or of the trajectory, the next target is a value.
    next_targets = next_values.clone()
    next_targets[:, :-1] = torch.where(goes_on[:, :-1], targets[:, 1:], next_values[:, :-1])
    return clipped * (rewards + gamma * next_targets - now), targets


def _look_ahead(
    values: Tensor, terminated: Tensor, truncated: Tensor, final_values: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return what each step may expect to follow, ``[S, T]``, and whether its episode goes on, ``[S, T]`` bool."""
    terminated, truncated = terminated.bool(), truncated.bool()
    goes_on = ~(terminated | truncated)
    # where() and not a product: the value that it leaves out may be anything.
    next_values = torch.where(goes_on, values[:, 1:], 0.0)
    if final_values is not None:
        next_values = torch.where(truncated & ~terminated, final_values, next_values)
    return next_values, goes_on


def _discounted_sums(terms: Tensor, discounts: Tensor) -> Tensor:
    """Return ``sums[t] = terms[t] + discounts[t] * sums[t + 1]`` along the last axis of ``[S, T]``."""
    # Time first: a step is then one contiguous row.
    terms, discounts = terms.t().contiguous(), discounts.t().contiguous()
    sums = torch.empty_like(terms)
    following = torch.zeros_like(terms[0])
    for step in range(len(terms) - 1, -1, -1):
        following = torch.addcmul(terms[step], discounts[step], following, out=sums[step])
    return sums.t()
