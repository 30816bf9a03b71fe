"""Owns what a network is trained towards: the advantages and returns of a dataset, and which of its steps count."""

from __future__ import annotations

import numpy as np
import torch

from sample_profiler.components.training.micro_batches import MicroBatches
from sample_profiler.config import LossOptions
from sample_profiler.ppo.advantages import gae, vtrace
from sample_profiler.ppo.own_steps import Outcomes, OwnSteps
from sample_profiler.ppo.trainer import Trainer
from sample_profiler.ppo.training_data import RecordedSteps, Targets
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.storage.dataset import Dataset, Outline

__all__ = ["TargetEstimator"]


class TargetEstimator:
    """Estimates the targets of datasets.

    Args:
        trainer: of the network.
        loss: its part of the configuration.
        micro_batches: take steps out of shared memory.
        steps_at_once: that go through the network at once.
        max_policy_lag: optimizer steps that weights may be behind where they acted; steps of older ones do not count.
    """

    def __init__(
        self, trainer: Trainer, loss: LossOptions, micro_batches: MicroBatches, steps_at_once: int, max_policy_lag: int
    ) -> None:
        self._trainer = trainer
        self._loss = loss
        self._micro_batches = micro_batches
        self._steps_at_once = steps_at_once
        self._max_policy_lag = max_policy_lag

    @profile_range("Learner.prepare")
    def estimate(self, dataset: Dataset, steps: RecordedSteps, outline: Outline) -> Targets:
        """Compute advantages and the targets of the value head.

        Values are those that inference computed, except behind the last step, which inference has not seen. V-trace
        wants them of the network as it is now; only those of final observations before the last step, which are not
        kept, stay those that inference computed.

        Args:
            dataset: the trajectories.
            steps: what was recorded of their steps, by chunk.
            outline: what there is in the dataset.

        Raises:
            TrainingError: as `OptimizerSteps.reject`.
        """
        model = self._trainer.model
        with torch.no_grad():
            valid = dataset.is_valid(self._trainer.num_steps, self._max_policy_lag)
            advantages, returns = self._estimate_advantages(dataset, steps, outline)
            is_finite = torch.isfinite(advantages) & torch.isfinite(returns)
            valid &= is_finite
            num_valid, num_finite = torch.stack([valid.sum(), is_finite.sum()]).tolist()
            if num_finite < is_finite.numel():
                num_bad = is_finite.numel() - num_finite
                self._trainer.steps.reject(f"the advantages or returns of {num_bad} steps are not finite")
                advantages, returns = (torch.where(is_finite, values, 0.0) for values in (advantages, returns))
            elif not num_valid:
                self._reject_spoiled(dataset)
            if self._loss.normalize_returns:
                with self._trainer.ranks.adding_up(model.returns_normalizer):
                    model.returns_normalizer.update(returns[valid] if num_valid < valid.numel() else returns)
                returns = model.returns_normalizer.normalize(returns)
        return Targets(*map(dataset.by_chunk, (advantages, returns, valid.float())))

    def _reject_spoiled(self, dataset: Dataset) -> None:
        """Leave a dataset out of which no step counts, if that is for its numbers."""
        if num_spoiled := dataset.num_spoiled(self._trainer.num_steps, self._max_policy_lag):
            reason = f"the observations or rewards of all {num_spoiled} steps are not finite"
            self._trainer.steps.reject(reason, may_be_weights=False)

    @profile_range("Learner.estimate_advantages")
    def _estimate_advantages(
        self, dataset: Dataset, steps: RecordedSteps, outline: Outline
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return advantages and returns in units of (scaled) rewards, `[S, T]` each."""
        loss = self._loss
        ratios, values = self._evaluate(dataset, steps) if loss.with_vtrace else (None, dataset.values)
        values = torch.cat([values, self._trainer.passes.values(*dataset.last())[:, None]], dim=1)
        final_values = dataset.final_values.clone()
        if outline.has_cut and loss.value_bootstrap and dataset.keeps_finals:
            self._evaluate_finals(dataset, final_values)
        final_values[:, -1] = values[:, -1]
        if loss.normalize_returns:
            values, final_values = map(self._trainer.model.returns_normalizer.denormalize, (values, final_values))
        own_steps = OwnSteps(dataset.absent, has_absent=outline.has_absent)
        own = own_steps.of(
            Outcomes(dataset.rewards, values, ratios, dataset.terminated, dataset.truncated, final_values)
        )
        rewards = (own.rewards * loss.reward_scale).clamp(-loss.reward_clip, loss.reward_clip)
        ends = (own.terminated, own.truncated, own.final_values if loss.value_bootstrap else None)
        if own.ratios is None:
            results = gae(rewards, own.values, *ends, loss.gamma, loss.gae_lambda)
        else:
            results = vtrace(rewards, own.values, own.ratios, *ends, loss.gamma, loss.vtrace_rho, loss.vtrace_c)
        advantages, returns = map(own_steps.put_back, results)
        return advantages, returns

    def _evaluate_finals(self, dataset: Dataset, final_values: torch.Tensor) -> None:
        """Put in the values of what episodes led to that were cut off, `[S, T]`: those inference has not seen."""
        trajectories, steps = dataset.is_cut()[:, :-1].nonzero(as_tuple=True)
        most = self._steps_at_once
        for piece in zip(torch.split(trajectories, most), torch.split(steps, most), strict=True):
            final_values[piece] = self._trainer.passes.values(*dataset.finals(piece))

    def _evaluate(self, dataset: Dataset, steps: RecordedSteps) -> tuple[torch.Tensor, torch.Tensor]:
        """Return probability ratios and values of all steps under the network as it is now, `[S, T]` each."""
        chunks = np.arange(dataset.num_chunks)
        results = [self._trainer.passes.evaluate(batch) for batch in self._micro_batches.of(dataset, steps, chunks)]
        ratios, values = (torch.cat(parts).view_as(dataset.rewards) for parts in zip(*results, strict=True))
        return ratios, values
