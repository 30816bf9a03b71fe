"""Owns what the PPO losses need of each step beside observations, by chunks of `recurrence` steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["MicroBatch", "TrainingData"]

Chunks = npt.NDArray[np.int64]

_MIN_STDDEV = 1e-7


@dataclass(frozen=True)
class MicroBatch:
    """Some chunks that go through the network's core at once: C chunks of R steps, N = C * R.

    Attributes:
        observations: by key, as the environment gave them, in pieces of `[n, ...]` that add up to `[N, ...]`: what goes
            through the encoder at once. Can be gone through once.
        states: `[C, H]`, recurrent states with which the chunks begin.
        starts_episode: `[C, R]` bool: the step was entered with a state of zeros, as the first of an episode.
        actions: `[N, action_width]`; action_parameters: `[N, num_action_parameters]`, of the policy that drew them.
        log_probabilities, values: `[N]`, when they were drawn.
        advantages: `[N]`, normalized over the minibatch; returns: `[N]`, targets of the value head.
        valid: `[N]` float: 1 for steps that count, 0 for those that do not.
    """

    observations: Iterable[dict[str, torch.Tensor]]
    states: torch.Tensor
    starts_episode: torch.Tensor
    actions: torch.Tensor
    action_parameters: torch.Tensor
    log_probabilities: torch.Tensor
    values: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    valid: torch.Tensor


@dataclass(frozen=True)
class TrainingData:
    """The same of a whole dataset, `[num_chunks, R, ...]`, before advantages are normalized."""

    starts_episode: torch.Tensor
    actions: torch.Tensor
    action_parameters: torch.Tensor
    log_probabilities: torch.Tensor
    values: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    valid: torch.Tensor

    def num_valid(self, chunks: Chunks) -> float:
        """Count the steps of some chunks that count."""
        return float(self.valid[chunks].sum())

    def normalized_advantages(self, chunks: Chunks) -> torch.Tensor:
        """Give the advantages of a minibatch zero mean and unit standard deviation over its valid steps, `[C, R]`."""
        advantages, valid = self.advantages[chunks], self.valid[chunks]
        selected = advantages[valid > 0]
        if selected.numel() < 2:
            return torch.zeros_like(advantages)
        stddev, mean = torch.std_mean(selected)
        return (advantages - mean) / stddev.clamp_min(_MIN_STDDEV)

    def micro_batch(
        self,
        chunks: Chunks,
        advantages: torch.Tensor,
        observations: Iterable[dict[str, torch.Tensor]],
        states: torch.Tensor,
    ) -> MicroBatch:
        """Put together what goes through the network at once.

        Args:
            chunks: indices of C chunks.
            advantages: `[C, R]`, normalized.
            observations: by key, in pieces that add up to `[C * R, ...]`.
            states: `[C, H]`.
        """

        def flat(values: torch.Tensor) -> torch.Tensor:
            return values[chunks].flatten(0, 1)

        return MicroBatch(
            observations=observations,
            states=states,
            starts_episode=self.starts_episode[chunks],
            actions=flat(self.actions),
            action_parameters=flat(self.action_parameters),
            log_probabilities=flat(self.log_probabilities),
            values=flat(self.values),
            advantages=advantages.flatten(),
            returns=flat(self.returns),
            valid=flat(self.valid),
        )
