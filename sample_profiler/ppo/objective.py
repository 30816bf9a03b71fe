"""Owns what the terms of the PPO objective add up to for a micro-batch, and what is known of them for statistics.

Where a compiler was there at installation and steps are few, a loop of ours (``model/kernels/_objective.c``) computes
the terms of usual policies and their gradient at once: of a small network's optimizer step they took a third, since
PyTorch takes longer to begin with an operation than to do it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sample_profiler.config import LossOptions
from sample_profiler.model import ActionDistribution
from sample_profiler.model.distributions import MAX_STDDEV, MIN_STDDEV, Categorical, DiagonalGaussian
from sample_profiler.model.kernels.built import ARE_BUILT
from sample_profiler.ppo import losses
from sample_profiler.ppo.training_data import RecordedSteps, Targets
from sample_profiler.profiling import Timing
from sample_profiler.profiling.ranges import profile_range

if ARE_BUILT:
    from sample_profiler.model.kernels import _objective
else:
    _objective = None  # type: ignore[assignment]

__all__ = ["Objective", "Sums"]

_MOST_STEPS = 1 << 14
"""Of more the loop, which has one thread, is no quicker."""


@dataclass
class Sums:
    """Sums over the valid steps of a minibatch, on the device; read only when somebody asks for statistics."""

    values: dict[str, Tensor] = field(default_factory=dict)

    def add(self, **terms: Tensor) -> None:
        """Add to each."""
        for name, term in terms.items():
            term = term.detach()
            self.values[name] = self.values[name] + term if name in self.values else term


class Objective:
    """What is minimized.

    Args:
        options: coefficients and bounds.
        action_distribution: makes the distributions that recorded parameters describe.
        timing: where the blocks of the losses are recorded.
    """

    def __init__(
        self, options: LossOptions, action_distribution: Callable[[Tensor], ActionDistribution], timing: Timing
    ) -> None:
        self._options = options
        self._action_distribution = action_distribution
        self._timing = timing

    def add_up(
        self,
        distribution: ActionDistribution,
        values: Tensor,
        steps: RecordedSteps,
        targets: Targets,
        sums: Sums | None = None,
    ) -> Tensor:
        """Return the sum of the losses over the valid ones of N steps.

        Args:
            distribution: of their actions, of the policy that learns.
            values: `[N]`, of the network that learns.
            steps: what was recorded of them, `[N, ...]`.
            targets: of them, `[N]`.
            sums: what the parts of the losses are added to, for statistics; None: nobody asks.
        """
        total = None
        if self._options.kl_loss_coeff <= 0:
            total = self._add_up_at_once(distribution, values, steps, targets)
        if total is not None and sums is None:
            return total
        # A step is the same, bit for bit, whether somebody asks for its statistics or not.
        with torch.set_grad_enabled(total is None and torch.is_grad_enabled()):
            term_by_term = self._add_up_terms(distribution, values, steps, targets, sums)
        return term_by_term if total is None else total

    def _add_up_terms(
        self,
        distribution: ActionDistribution,
        values: Tensor,
        steps: RecordedSteps,
        targets: Targets,
        sums: Sums | None,
    ) -> Tensor:
        options, timing, learns = self._options, self._timing, torch.is_grad_enabled()
        with timing.add_time("tail"):
            log_probabilities = distribution.log_prob(steps.actions)
            ratio = losses.probability_ratio(log_probabilities, steps.log_probabilities)
        with timing.add_time("losses"):
            valid = targets.valid
            policy = losses.policy_loss(ratio, targets.advantages, valid, options.ppo_clip_ratio)
            value = losses.value_loss(values, steps.values, targets.returns, valid, options.ppo_clip_value)
            total = policy + options.value_loss_coeff * value
            # What nobody learns from is computed only where somebody wants to know it.
            if (explores := options.exploration_loss_coeff > 0) or sums is not None:
                with torch.set_grad_enabled(explores and learns):
                    exploration = losses.exploration_loss(distribution, valid, options.exploration_loss)
                total = total + options.exploration_loss_coeff * exploration if explores else total
        if (learns_kl := options.kl_loss_coeff > 0) or sums is not None:
            with timing.add_time("kl_divergence"), torch.set_grad_enabled(learns_kl and learns):
                kl = losses.kl_loss(self._action_distribution(steps.action_parameters), distribution, valid)
                total = total + options.kl_loss_coeff * kl if learns_kl else total
        if sums is not None:
            with torch.no_grad():
                sums.add(policy_loss=policy, value_loss=value, exploration_loss=exploration, kl_divergence=kl)
                sums.add(value=(values * valid).sum(), ratio_deviation=((ratio - 1).abs() * valid).sum())
        return total

    @profile_range("Objective.add_up_at_once")
    def _add_up_at_once(
        self, distribution: ActionDistribution, values: Tensor, steps: RecordedSteps, targets: Targets
    ) -> Tensor | None:
        """Return the sum of the losses, without that of the KL divergence; None where our loop does not apply."""
        options = self._options
        explores = options.exploration_loss_coeff > 0
        if _objective is None or (explores and options.exploration_loss != "entropy"):
            return None
        if type(distribution) not in (Categorical, DiagonalGaussian):  # one derived from them may do something else
            return None
        assert isinstance(distribution, Categorical | DiagonalGaussian)
        is_continuous, parameters = isinstance(distribution, DiagonalGaussian), distribution.parameters
        actions = steps.actions if is_continuous else steps.actions.long()
        recorded = [steps.log_probabilities, steps.values, targets.advantages, targets.returns, targets.valid]
        num_steps, num_parameters = parameters.shape
        width = num_parameters // 2 if is_continuous else 1
        numbers = [parameters, values, *recorded, *([actions] if is_continuous else [])]
        if any(not tensor.is_cpu or tensor.dtype != torch.float32 for tensor in numbers) or not actions.is_cpu:
            return None
        if actions.shape != (num_steps, width) or any(each.shape != (num_steps,) for each in (values, *recorded)):
            return None
        if not 0 < num_steps <= _MOST_STEPS:
            return None
        with self._timing.add_time("losses"):
            arrays = [actions, *recorded]
            total: Tensor = _Minimized.apply(parameters, values, is_continuous, arrays, options)  # type: ignore[no-untyped-call]
            return total


class _Minimized(torch.autograd.Function):
    """Has its gradient at once: whoever computes the losses of few steps wants that, too."""

    @staticmethod
    def forward(
        ctx: Any,
        parameters: Tensor,
        values: Tensor,
        is_continuous: bool,
        recorded: list[Tensor],
        options: LossOptions,
    ) -> Tensor:
        arrays = [each.contiguous() for each in (parameters, values, *recorded)]
        of_parameters, of_values = (torch.empty_like(each) for each in arrays[:2])
        of_entropy = torch.empty_like(of_parameters[0])
        clip_ratio = options.ppo_clip_ratio
        settings = (
            *(math.log(losses.MIN_RATIO), math.log(losses.MAX_RATIO), 1 / (1 + clip_ratio), 1 + clip_ratio),
            *(options.ppo_clip_value, options.value_loss_coeff, max(0.0, options.exploration_loss_coeff)),
            *(math.log(MIN_STDDEV), math.log(MAX_STDDEV)),
        )
        total = _objective.objective(
            is_continuous,
            tuple(each.data_ptr() for each in arrays),
            (of_parameters.data_ptr(), of_values.data_ptr(), of_entropy.data_ptr()),
            *(len(of_parameters), of_parameters.shape[1]),
            settings,
        )
        ctx.gradients = of_parameters, of_values
        return torch.tensor(total, dtype=torch.float32, device="cpu")

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_parameters, of_values = ctx.gradients
        return gradients[0] * of_parameters, gradients[0] * of_values, None, None, None
