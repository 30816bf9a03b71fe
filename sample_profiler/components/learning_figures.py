"""Owns what a Learner measures now and then of how training goes: of its data, and of how far it moves the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import torch

from sample_profiler.config import LossOptions
from sample_profiler.ppo.trainer import Trainer
from sample_profiler.ppo.training_data import MicroBatch, RecordedSteps, Targets
from sample_profiler.spaces import ACTION_MASK_KEY
from sample_profiler.storage.dataset import Dataset
from sample_profiler.vocabulary import (
    ADVANTAGE_SCALE,
    BAD_STEPS,
    CLIP_SHARE,
    DEAD_INPUTS,
    ENTROPY,
    ENTROPY_SHARE,
    EXPLAINED_VARIANCE,
    INPUT_SCALE,
    NUM_DISTINCT_STARTS,
    NUM_STARTS,
    REWARD_CLIPPED,
    REWARD_LEFT,
    REWARD_NONZERO,
    UNCHANGED_OBSERVATIONS,
    UPDATE_KL,
)

__all__ = ["LearningFigures", "Sample"]

_MOST_NUMBERS = 1 << 19  # of the observations that are looked at: a few milliseconds every two seconds
_FEWEST_STEPS, _MOST_STEPS = 32, 512
_MOST_STARTS = 4096
_MOST_STARTS_AT_ONCE = 64
_TINY = 1e-12
_PICTURE_DIMENSIONS = 4  # steps, channels, height, width

Sample = Callable[[npt.NDArray[np.int64]], Iterator[MicroBatch]]
"""Returns the micro-batches of some chunks."""


class LearningFigures:
    """Measures on some of the steps of a dataset.

    Args:
        trainer: whose policy it is.
        loss: options of the loss.
    """

    def __init__(self, trainer: Trainer, loss: LossOptions) -> None:
        self._trainer = trainer
        self._loss = loss
        self._starts: set[int] = set()
        self._num_starts = 0

    def note_starts(self, dataset: Dataset) -> None:
        """Count the first observations of episodes that differ: with each dataset, of the first few thousand."""
        if self._num_starts >= _MOST_STARTS:
            return
        starts = dataset.starts_episode.nonzero()[:_MOST_STARTS_AT_ONCE].cpu().numpy()
        self._starts.update(map(hash, dataset.observation_bytes(starts[:, 0], starts[:, 1])))
        self._num_starts += len(starts)

    def measure(self, dataset: Dataset, steps: RecordedSteps, targets: Targets, sample: Sample) -> dict[str, float]:
        """Return the figures of a dataset that was trained on, by name.

        Args:
            dataset: the trajectories.
            steps: what was recorded of their steps.
            targets: of their steps.
            sample: makes micro-batches of it.
        """
        chunks = self._draw_chunks(dataset)
        figures = self._of_rewards(dataset) | _of_targets(steps, targets) | self._of_actions(dataset, steps)
        figures |= self._of_observations(dataset, chunks)
        move = self._trainer.passes.measure_move(sample(chunks.flatten()), self._loss.ppo_clip_ratio)
        figures[UPDATE_KL], figures[CLIP_SHARE] = move
        return figures | {NUM_STARTS: float(self._num_starts), NUM_DISTINCT_STARTS: float(len(self._starts))}

    def _draw_chunks(self, dataset: Dataset) -> npt.NDArray[np.int64]:
        """Draw trajectories, evenly apart, so few that their observations can be looked at in little time.

        Returns:
            `[trajectories, chunks]`: their chunks; of very long ones the first alone.
        """
        most_steps = min(_MOST_STEPS, max(_FEWEST_STEPS, _MOST_NUMBERS // dataset.observation_size))
        num_trajectories, rollout = dataset.rewards.shape
        number = min(num_trajectories, max(1, most_steps // rollout))
        drawn = np.linspace(0, num_trajectories - 1, number).round().astype(np.int64)
        chunks = np.arange(max(1, min(rollout, most_steps) // dataset.recurrence))
        return drawn[:, None] * (rollout // dataset.recurrence) + chunks

    def _of_rewards(self, dataset: Dataset) -> dict[str, float]:
        """Return how many rewards are none, how many the bound changes, what it leaves of them, and of bad numbers."""
        scaled = dataset.rewards * self._loss.reward_scale
        clipped = scaled.clamp(-self._loss.reward_clip, self._loss.reward_clip)
        nonzero = scaled != 0
        number = max(1, int(nonzero.sum()))
        spoiled = dataset.inactive & ~dataset.absent
        return {
            BAD_STEPS: float(spoiled.sum()) / max(1, int((~dataset.absent).sum())),
            REWARD_NONZERO: float(nonzero.float().mean()),
            REWARD_CLIPPED: float((clipped != scaled).sum()) / number,
            REWARD_LEFT: float(clipped.abs().sum() / scaled.abs().sum().clamp_min(_TINY)) if nonzero.any() else 1.0,
        }

    def _of_actions(self, dataset: Dataset, steps: RecordedSteps) -> dict[str, float]:
        """Return the entropy of the policy that acted and, of discrete actions, its share of the largest one."""
        parameters = steps.action_parameters.flatten(0, 1)[:_MOST_STEPS]
        entropy = float(self._trainer.model.action_distribution(parameters).entropy().mean())
        if dataset.actions.is_floating_point():
            return {ENTROPY: entropy}
        uniform = self._trainer.model.action_distribution(torch.zeros_like(parameters[:1]))
        return {ENTROPY: entropy, ENTROPY_SHARE: entropy / max(_TINY, float(uniform.entropy().mean()))}

    def _of_observations(self, dataset: Dataset, chunks: npt.NDArray[np.int64]) -> dict[str, float]:
        """Return how large inputs are as the network sees them, which never change, and which observations do not."""
        observations = dataset.observations(chunks.flatten())
        seen = self._trainer.model.normalize(observations)
        flat = {
            key: values.reshape(len(values), -1).float()
            for key, values in seen.items()
            if key in observations and key != ACTION_MASK_KEY
        }
        joined = torch.cat(list(flat.values()), dim=1)
        # Most of a picture stays as it is for as long as a glance lasts; vectors beside one may say nothing.
        dead = {}
        if all(observations[key].ndim < _PICTURE_DIMENSIONS for key in flat):
            spread = joined.max(dim=0).values - joined.min(dim=0).values
            dead[DEAD_INPUTS] = float((spread == 0).float().mean())
        return dead | {
            INPUT_SCALE: float(joined.square().mean(dim=0).sqrt().max()),
            UNCHANGED_OBSERVATIONS: _unchanged(observations, dataset, chunks),
        }


def _unchanged(observations: Mapping[str, torch.Tensor], dataset: Dataset, chunks: npt.NDArray[np.int64]) -> float:
    """Return the share of steps within an episode whose observation is the one before, to the last bit."""
    shape = len(chunks), chunks.shape[1] * dataset.recurrence
    same = torch.ones(shape[0], shape[1] - 1, dtype=torch.bool)
    for values in observations.values():
        steps = values.reshape(*shape, -1)
        same &= (steps[:, 1:] == steps[:, :-1]).all(dim=2).cpu()
    starts = dataset.by_chunk(dataset.starts_episode)[chunks.flatten()].reshape(shape)
    within = ~starts[:, 1:].cpu()
    return float((same & within).sum()) / max(1, int(within.sum()))


def _of_targets(steps: RecordedSteps, targets: Targets) -> dict[str, float]:
    """Return how much of the variance of returns values explain, and how large advantages are before scaling."""
    valid = targets.valid > 0
    returns, values, advantages = targets.returns[valid], steps.values[valid], targets.advantages[valid]
    if returns.numel() < 2:
        return {}
    variance = float(returns.var())
    explained = 1 - float((returns - values).var()) / variance if variance > _TINY else 0.0
    return {EXPLAINED_VARIANCE: explained, ADVANTAGE_SCALE: float(advantages.std())}
