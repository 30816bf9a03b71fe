"""Owns distributions of actions as Sample Factory's code asks them, over those of this package."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from gymnasium import spaces
from torch import Tensor

from sample_profiler.errors import UsageError
from sample_profiler.model.distributions import MASKED_LOGIT, Categorical, DiagonalGaussian, IndependentParts
from sample_profiler.model.policy_network import split
from sample_profiler.spaces import action_parts, action_width, num_action_parameters

__all__ = [
    *("Distribution", "argmax_actions", "calc_num_action_parameters", "calc_num_actions", "get_action_distribution"),
    *("is_continuous_action_space", "sample_actions_log_probs"),
]


class Distribution:
    """Distributions of N actions.

    Args:
        distribution: Of this package.
        parameters: That it was made of, `[N, P]`.
    """

    def __init__(self, distribution: Any, parameters: Tensor) -> None:
        self.distribution = distribution
        self.raw_logits = parameters

    @property
    def probs(self) -> Tensor:
        """Of discrete actions: probabilities, `[N, n]`."""
        return torch.as_tensor(self._of(Categorical).probabilities)

    @property
    def log_probs(self) -> Tensor:
        """Of discrete actions: their logarithms, `[N, n]`."""
        return torch.as_tensor(self._of(Categorical).log_probabilities)

    @property
    def means(self) -> Tensor:
        """Of continuous actions: means, `[N, n]`."""
        return torch.as_tensor(self._of(DiagonalGaussian).mean)

    @property
    def stddevs(self) -> Tensor:
        """Of continuous actions: standard deviations, `[N, n]`."""
        return torch.as_tensor(self._of(DiagonalGaussian).stddev)

    def sample(self) -> Tensor:
        """Draw actions, `[N, width]`."""
        return self.sample_actions_log_probs()[0]

    def sample_gumbel(self) -> Tensor:
        """Draw discrete actions, `[N]`: what :meth:`sample` does, too, by waiting times."""
        return self._of(Categorical).draw()[0].squeeze(-1)  # type: ignore[no-any-return]

    def sample_actions_log_probs(self) -> tuple[Tensor, Tensor]:
        """Draw actions `[N, width]`, and return the logarithms of their probabilities, `[N]`."""
        drawn: tuple[Tensor, Tensor] = self.distribution.draw()
        return drawn

    def argmax(self) -> Tensor:
        """Return the most probable actions, `[N, width]`."""
        actions: Tensor = self.distribution.mode()
        return actions

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the logarithms of the probabilities of actions `[N, width]`, or of one number `[N]`, `[N]`.

        Of one discrete number there may be several a row, `[N, K]`: then `[N * K]`.
        """
        actions = actions if actions.ndim > 1 else actions[:, None]
        if isinstance(self.distribution, Categorical):
            return self.log_probs.gather(-1, actions.long()).flatten()
        return torch.as_tensor(self.distribution.log_prob(actions))

    def entropy(self) -> Tensor:
        """Return entropies, `[N]`."""
        return torch.as_tensor(self.distribution.entropy())

    def kl_divergence(self, other: Distribution) -> Tensor:
        """Return the divergences of these from others, `[N]`."""
        return torch.as_tensor(self.distribution.kl(other.distribution))

    def symmetric_kl_with_uniform_prior(self) -> Tensor:
        """Return the means of both divergences between these and uniform distributions, `[N]`."""
        return torch.as_tensor(self.distribution.symmetric_kl_with_uniform())

    def _of(self, kind: type[Any]) -> Any:
        if not isinstance(self.distribution, kind):
            # hasattr() is how scripts tell one kind from the other.
            raise AttributeError(f"actions are not drawn from a {kind.__name__}")
        return self.distribution


def get_action_distribution(
    action_space: gymnasium.Space[Any], raw_logits: Tensor, action_mask: Tensor | None = None
) -> Distribution:
    """Make the distributions of N actions.

    Args:
        action_space: Of the actions.
        raw_logits: Their parameters, `[N, P]`: logits; means, then logarithms of deviations; of several parts all.
        action_mask: 0 for each value that is not allowed, `[N, P]`, of actions that are discrete in all parts; of a
            Tuple one for each part, `[N, n]` or `[n]`.

    Raises:
        UsageError: There are no such actions, or not so many parameters of one.
    """
    expected = calc_num_action_parameters(action_space)
    if raw_logits.shape[-1] != expected:
        raise UsageError(f"actions of {action_space} have {expected} parameters, not {raw_logits.shape[-1]}")
    if action_mask is not None:
        if isinstance(action_space, spaces.Tuple):
            parts = [action_mask[part] for part in range(len(action_space.spaces))]
            action_mask = torch.cat([part.expand(len(raw_logits), -1) for part in parts], dim=-1)
        raw_logits = raw_logits.masked_fill(action_mask == 0, MASKED_LOGIT)
    kinds = action_parts(action_space)
    pieces = split(raw_logits, [num_action_parameters(kind) for kind in kinds])
    distributions = [
        Categorical(piece) if isinstance(kind, spaces.Discrete) else DiagonalGaussian(piece)
        for kind, piece in zip(kinds, pieces, strict=True)
    ]
    return Distribution(distributions[0] if len(distributions) == 1 else IndependentParts(distributions), raw_logits)


def sample_actions_log_probs(distribution: Distribution) -> tuple[Tensor, Tensor]:
    """Draw actions, and return the logarithms of their probabilities."""
    return distribution.sample_actions_log_probs()


def argmax_actions(distribution: Distribution) -> Tensor:
    """Return the most probable actions: `[N]` of one discrete part, else `[N, width]`."""
    actions = distribution.argmax()
    return actions.squeeze(-1) if hasattr(distribution, "probs") else actions


def calc_num_actions(action_space: gymnasium.Space[Any]) -> int:
    """Return of how many numbers an action consists."""
    return action_width(action_space)


def calc_num_action_parameters(action_space: gymnasium.Space[Any]) -> int:
    """Return of how many numbers its distribution consists."""
    return num_action_parameters(action_space)


def is_continuous_action_space(action_space: gymnasium.Space[Any]) -> bool:
    """Tell whether actions are continuous in all parts."""
    return isinstance(action_space, spaces.Box)
