"""Owns what trajectories are without the steps in which their agent has no part: as if there had been none.

An agent's time is counted in its own steps, as it is with a frameskip. What follows one of them is the next one,
however many others lie between: discounted once, and with no value in between. What the others brought is the reward of
the step before them, undiscounted, since that was the latest action that could have led to it; and where the episode
ended meanwhile, it ended with that step. What comes after the end of its episode, and before the agent has a part in
the next one, is nobody's.

Where an agent has no part at the end of a trajectory, the value of what it observes there stands for all that follows,
as at the end of any trajectory, so what the next one begins with is nobody's either.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Outcomes", "OwnSteps"]


@dataclass(frozen=True)
class Outcomes:
    """What advantages are estimated from: S trajectories of T steps.

    Attributes:
        rewards: ``[S, T]``.
        values: ``[S, T + 1]``, the last of what follows the last step.
        ratios: ``[S, T]``, of probabilities of actions; ``None``: not needed.
        terminated: ``[S, T]`` bool, the step was the last of its episode.
        truncated: ``[S, T]`` bool, the episode was cut off after the step.
        final_values: ``[S, T]``, values of final observations where episodes were cut off.
    """

    rewards: Tensor
    values: Tensor
    ratios: Tensor | None
    terminated: Tensor
    truncated: Tensor
    final_values: Tensor


class OwnSteps:
    """Goes from all steps to those in which agents have a part, and back."""

    def __init__(self, absent: Tensor, *, has_absent: bool) -> None:
        """Look for them.

        Args:
            absent: ``[S, T]`` bool, the agent had no part in the step.
            has_absent: Whether there is such a step.
        """
        self._absent = absent
        # Own steps last, so that what follows the last step follows the last of them; those before them are ignored.
        self._order = torch.argsort((~absent).byte(), dim=1, stable=True) if has_absent else None

    def of(self, outcomes: Outcomes) -> Outcomes:
        """Return the outcomes of own steps, in the last places of their trajectory; what is in others is unspecified.

        Args:
            outcomes: Of all steps.
        """
        if self._order is None:
            return outcomes
        carried = _carry_back(self._absent, outcomes)
        return Outcomes(
            rewards=self._pick(carried.rewards),
            values=torch.cat([self._pick(carried.values[:, :-1]), carried.values[:, -1:]], dim=1),
            ratios=None if carried.ratios is None else self._pick(carried.ratios),
            terminated=self._pick(carried.terminated),
            truncated=self._pick(carried.truncated),
            final_values=self._pick(carried.final_values),
        )

    def put_back(self, results: Tensor) -> Tensor:
        """Return what came of own steps where these are among all, with 0 for the others, ``[S, T]``.

        Args:
            results: ``[S, T]``, in the order of :meth:`of`.
        """
        if self._order is None:
            return results
        return torch.zeros_like(results).scatter(1, self._order, results).masked_fill(self._absent, 0.0)

    def _pick(self, values: Tensor) -> Tensor:
        assert self._order is not None
        return values.gather(1, self._order)


def _carry_back(absent: Tensor, outcomes: Outcomes) -> Outcomes:
    """Let rewards and ends of steps without the agent be those of its step before them."""
    rewards, finals = outcomes.rewards.clone(), outcomes.final_values.clone()
    terminated, truncated = outcomes.terminated.clone(), outcomes.truncated.clone()
    for step in range(rewards.shape[1] - 2, -1, -1):
        behind = step + 1
        # What follows the end of an episode is not of it.
        goes_on = absent[:, behind] & ~(terminated[:, step] | truncated[:, step])
        rewards[:, step] += torch.where(goes_on, rewards[:, behind], 0.0)
        terminated[:, step] |= goes_on & terminated[:, behind]
        truncated[:, step] |= goes_on & truncated[:, behind]
        finals[:, step] = torch.where(goes_on, finals[:, behind], finals[:, step])
    return Outcomes(rewards, outcomes.values, outcomes.ratios, terminated, truncated, finals)
