"""Owns the distributions that actions are drawn from, each made from the parameters that a network computes.

Written out instead of taken from :mod:`torch.distributions`: nothing is validated, normalized or broadcast again, which
at the batch sizes of inference would cost more than the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sample_profiler.errors import ConfigError
from sample_profiler.model.kernels.kernels import draw, draw_normal

__all__ = ["MASKED_LOGIT", "ActionDistribution", "Categorical", "DiagonalGaussian", "IndependentParts"]

MASKED_LOGIT = -1e9
"""Logit of an action that is not allowed: its probability is exactly 0, and 0 times its logarithm is 0, not NaN."""

MIN_STDDEV = 1e-4
MAX_STDDEV = 1e4

_MIN_LOG_STDDEV, _MAX_LOG_STDDEV = math.log(MIN_STDDEV), math.log(MAX_STDDEV)
_LOG_2_PI = math.log(2 * math.pi)

_Self = TypeVar("_Self", bound="ActionDistribution")


class ActionDistribution(Protocol):
    """N distributions, one for each step."""

    def draw(self, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw actions, ``[N, action_width]``, and return what `log_prob` says of them, ``[N]``."""

    def mode(self) -> Tensor:
        """Return the most probable actions, ``[N, action_width]``."""

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the logarithm of the probability (density) of actions ``[N, action_width]``, ``[N]``."""

    def entropy(self) -> Tensor:
        """Return the entropies in nats, ``[N]``."""

    def kl(self: _Self, other: _Self) -> Tensor:
        """Return the KL divergence of this distribution from another, KL(this ‖ other), ``[N]``."""

    def symmetric_kl_with_uniform(self) -> Tensor:
        """Return the mean of both KL divergences between this and the uniform distribution, ``[N]``."""


class Categorical:
    """One of n actions; actions are ``[N, 1]`` int64."""

    def __init__(self, logits: Tensor) -> None:
        """Take logits, ``[N, n]``; those of forbidden actions are :data:`MASKED_LOGIT`."""
        self._logits = logits
        self._log_probabilities: Tensor | None = None
        self._probabilities: Tensor | None = None

    @property
    def parameters(self) -> Tensor:
        """``[N, n]``, the logits."""
        return self._logits

    @property
    def log_probabilities(self) -> Tensor:
        """``[N, n]``."""
        if _is_stale(self._log_probabilities, self._logits):
            self._log_probabilities = F.log_softmax(self._logits, dim=-1)
        assert self._log_probabilities is not None
        return self._log_probabilities

    @property
    def probabilities(self) -> Tensor:
        """``[N, n]``."""
        if _is_stale(self._probabilities, self._logits):
            self._probabilities = self.log_probabilities.exp()
        assert self._probabilities is not None
        return self._probabilities

    def draw(self, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw actions, ``[N, 1]`` int64, and return what `log_prob` says of them, ``[N]``.

        The first to arrive of n exponential waiting times with rates p is i with probability p_i (the Gumbel trick);
        half the time of :func:`torch.multinomial` at the batch sizes of inference.
        """
        waiting_times = torch.empty_like(self._logits).exponential_(generator=generator)
        if (drawn := draw(self._logits, waiting_times)) is not None:
            return drawn
        actions = (self.log_probabilities - waiting_times.log_()).argmax(dim=-1, keepdim=True)
        return actions, self.log_prob(actions)

    def mode(self) -> Tensor:
        """Return the most probable actions, ``[N, 1]`` int64."""
        return self._logits.argmax(dim=-1, keepdim=True)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the logarithm of the probability of actions ``[N, 1]``, ``[N]``."""
        return self.log_probabilities.gather(-1, actions.long()).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropies in nats, ``[N]``."""
        return -(self.probabilities * self.log_probabilities).sum(dim=-1)

    def kl(self, other: Categorical) -> Tensor:
        """Return KL(this ‖ other), ``[N]``."""
        return (self.probabilities * (self.log_probabilities - other.log_probabilities)).sum(dim=-1)

    def symmetric_kl_with_uniform(self) -> Tensor:
        """Return the mean of both KL divergences between this and the uniform distribution, ``[N]``.

        Uniform means over the allowed actions.
        """
        log_p = self.log_probabilities
        is_forbidden = log_p < MASKED_LOGIT / 2
        mean_log_p = log_p.masked_fill(is_forbidden, 0.0).sum(dim=-1) / (~is_forbidden).sum(dim=-1)
        # KL(p ‖ u) = Σ p log p + log n and KL(u ‖ p) = -log n - mean of log p: log n cancels in their sum.
        return 0.5 * ((self.probabilities * log_p).sum(dim=-1) - mean_log_p)


class DiagonalGaussian:
    """Independent normal distributions of the entries of an action; actions are ``[N, n]`` float32."""

    def __init__(self, parameters: Tensor) -> None:
        """Read means and standard deviations.

        Args:
            parameters: ``[N, 2 n]``: means, then logarithms of standard deviations, which are kept between 1e-4 and
                1e4.
        """
        self._parameters = parameters
        self._num_entries = parameters.shape[-1] // 2
        self._log_stddev: Tensor | None = None
        self._stddev: Tensor | None = None

    @property
    def parameters(self) -> Tensor:
        """``[N, 2 n]``, as they were given."""
        return self._parameters

    @property
    def mean(self) -> Tensor:
        """``[N, n]``."""
        return self._parameters[..., : self._num_entries]

    @property
    def log_stddev(self) -> Tensor:
        """``[N, n]``, logarithms of standard deviations."""
        if _is_stale(self._log_stddev, self._parameters):
            self._log_stddev = self._parameters[..., self._num_entries :].clamp(_MIN_LOG_STDDEV, _MAX_LOG_STDDEV)
        assert self._log_stddev is not None
        return self._log_stddev

    @property
    def stddev(self) -> Tensor:
        """``[N, n]``, standard deviations."""
        if _is_stale(self._stddev, self._parameters):
            self._stddev = self.log_stddev.exp()
        assert self._stddev is not None
        return self._stddev

    def draw(self, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw actions, ``[N, n]``, and return what `log_prob` says of them, ``[N]``."""
        mean = self.mean
        noise = torch.empty(mean.shape, dtype=mean.dtype, device=mean.device).normal_(generator=generator)
        if (drawn := draw_normal(self._parameters, noise, _MIN_LOG_STDDEV, _MAX_LOG_STDDEV)) is not None:
            return drawn
        actions = torch.addcmul(mean, noise, self.stddev)
        # Not from the noise: the learner, too, will know but the action, which was rounded.
        return actions, self.log_prob(actions)

    def mode(self) -> Tensor:
        """Return the means, ``[N, n]``."""
        return self.mean

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the logarithm of the density of actions ``[N, n]``, ``[N]``."""
        deviation = (actions - self.mean) / self.stddev
        return -(0.5 * deviation.square() + self.log_stddev + 0.5 * _LOG_2_PI).sum(dim=-1)

    def entropy(self) -> Tensor:
        """Return the differential entropies in nats, ``[N]``."""
        return (self.log_stddev + 0.5 * (1 + _LOG_2_PI)).sum(dim=-1)

    def kl(self, other: DiagonalGaussian) -> Tensor:
        """Return KL(this ‖ other), ``[N]``."""
        ratio = (self.stddev / other.stddev).square()
        shift = ((self.mean - other.mean) / other.stddev).square()
        # log_stddev rather than the logarithm of the ratio, which may underflow to 0.
        return (other.log_stddev - self.log_stddev + 0.5 * (ratio + shift - 1)).sum(dim=-1)

    def symmetric_kl_with_uniform(self) -> Tensor:
        """Raise: there is no uniform distribution over all real numbers.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(
            [
                "--exploration_loss=symmetric_kl is for discrete actions, and this environment's are continuous; use "
                "--exploration_loss=entropy"
            ]
        )


class IndependentParts:
    """An action of several parts, each drawn by itself: probabilities multiply, entropies and divergences add up.

    Actions are ``[N, action_width]``: int64 if all parts are discrete, else float32, which has every index exactly.
    """

    def __init__(self, parts: Sequence[Categorical | DiagonalGaussian]) -> None:
        """Put distributions of the same N steps side by side."""
        self._parts = parts
        self._widths = [1 if isinstance(part, Categorical) else part.mean.shape[-1] for part in parts]

    def draw(self, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw actions, ``[N, action_width]``, and return what `log_prob` says of them, ``[N]``."""
        drawn = [part.draw(generator) for part in self._parts]
        return torch.cat([actions for actions, _ in drawn], dim=-1), _sum(logarithms for _, logarithms in drawn)

    def mode(self) -> Tensor:
        """Return the most probable actions, ``[N, action_width]``."""
        return torch.cat([part.mode() for part in self._parts], dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the logarithm of the probability (density) of actions ``[N, action_width]``, ``[N]``."""
        pieces = torch.split(actions, self._widths, dim=-1)
        return _sum(part.log_prob(piece) for part, piece in zip(self._parts, pieces, strict=True))

    def entropy(self) -> Tensor:
        """Return the entropies in nats, ``[N]``."""
        return _sum(part.entropy() for part in self._parts)

    def kl(self, other: IndependentParts) -> Tensor:
        """Return KL(this ‖ other), ``[N]``."""
        pairs: Iterable[tuple[Any, Any]] = zip(self._parts, other._parts, strict=True)
        return _sum(part.kl(counterpart) for part, counterpart in pairs)

    def symmetric_kl_with_uniform(self) -> Tensor:
        """Return the sum over all parts of their divergences from uniform distributions, ``[N]``.

        Raises:
            ConfigError: A part is continuous.
        """
        return _sum(part.symmetric_kl_with_uniform() for part in self._parts)


def _is_stale(kept: Tensor | None, source: Tensor) -> bool:
    """Tell whether what is kept has to be computed from its source: for the first time, or now with gradients."""
    return kept is None or (source.requires_grad and torch.is_grad_enabled() and not kept.requires_grad)


def _sum(terms: Iterable[Tensor]) -> Tensor:
    first, *others = terms
    for term in others:
        first = first + term
    return first
