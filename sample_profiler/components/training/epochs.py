"""Owns how a dataset is gone through: minibatches drawn epoch by epoch, an optimizer step for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from sample_profiler.components.training.micro_batches import MicroBatches
from sample_profiler.config import SamplingOptions
from sample_profiler.ppo.trainer import Trainer
from sample_profiler.ppo.training_data import Chunks, MicroBatch, RecordedSteps, Targets
from sample_profiler.storage.dataset import Dataset
from sample_profiler.storage.trajectories import address_of

__all__ = ["Epochs"]


class Epochs:
    """Trains on datasets, each as often as the configuration says.

    Args:
        trainer: of the network.
        sampling: how many epochs and minibatches there are.
        micro_batches: take minibatches out of shared memory.
        random: of the draws; its state is in every checkpoint.
        beat: is called before each minibatch, which may take long.

    Attributes:
        num_minibatches: that this process has gone through.
    """

    def __init__(
        self,
        trainer: Trainer,
        sampling: SamplingOptions,
        micro_batches: MicroBatches,
        random: np.random.Generator,
        beat: Callable[[], None],
    ) -> None:
        self.num_minibatches = 0
        self._trainer = trainer
        self._sampling = sampling
        self._micro_batches = micro_batches
        self._random = random
        self._beat = beat

    def train(self, dataset: Dataset, steps: RecordedSteps, targets: Targets) -> None:
        """Train on a dataset.

        Args:
            dataset: the trajectories.
            steps: what was recorded of their steps, by chunk.
            targets: of their steps, by chunk.

        Raises:
            TrainingError: as `OptimizerSteps.reject`.
        """
        with self._trainer.timing.add_time("epoch_init"):
            epochs = [self._draw_minibatches(dataset.num_chunks) for _ in range(self._sampling.num_epochs)]
            drawn = [targets.of(address_of(chunks)).moments() for epoch in epochs for chunks in epoch]
            moments = torch.stack(drawn)
        self._trainer.ranks.add_up([moments])
        of_minibatches = zip(moments, moments[:, 0].tolist(), strict=True)
        for epoch in epochs:
            for chunks in epoch:
                self._beat()
                of_all, num_valid = next(of_minibatches)
                if num_valid:  # at any rank
                    self._train_minibatch(dataset, steps, targets, chunks, of_all, num_valid)
                self.num_minibatches += 1
                self._trainer.end_minibatch(self._sample(dataset, steps, targets, chunks))
            self._trainer.end_epoch(self._sample(dataset, steps, targets, np.arange(dataset.num_chunks)))
        self._trainer.steps.settle()

    def _draw_minibatches(self, num_chunks: int) -> list[Chunks]:
        order = np.arange(num_chunks)
        if self._sampling.shuffle_minibatches:
            self._random.shuffle(order)
        return np.array_split(order, self._sampling.num_batches_per_epoch)

    def _train_minibatch(
        self,
        dataset: Dataset,
        steps: RecordedSteps,
        targets: Targets,
        chunks: Chunks,
        moments: torch.Tensor,
        num_valid: float,
    ) -> None:
        """Take an optimizer step on some chunks; moments and number of steps that count are those of all ranks."""
        micro_batches = self._micro_batches.of(dataset, steps, chunks)
        pieces = targets.of(address_of(chunks)).normalized(moments).split(self._micro_batches.chunks_at_once)
        self._trainer.train_minibatch(zip(micro_batches, pieces, strict=True), num_valid)

    def _sample(
        self, dataset: Dataset, steps: RecordedSteps, targets: Targets, chunks: Chunks
    ) -> Iterator[tuple[MicroBatch, torch.Tensor]]:
        return self._micro_batches.sample(dataset, steps, targets.valid, chunks, self._trainer.num_steps)
