"""Cuts datasets into what goes through a network at once, small enough for its activations to stay in cache.

Observations leave shared memory here, one micro-batch at a time; no copy of a whole dataset is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch

from sample_profiler.ppo.training_data import MicroBatch, RecordedSteps
from sample_profiler.profiling import Timing
from sample_profiler.storage.dataset import Dataset
from sample_profiler.storage.trajectories import address_of
from sample_profiler.vocabulary import GATHER_OBSERVATIONS

__all__ = ["MicroBatches", "recorded_steps"]

_KL_STEPS = 1024  # by which a schedule that wants to know is told how far the policy has moved


class MicroBatches:
    """Takes chunks of datasets out of shared memory.

    Args:
        core_steps: steps that go through a network's core at once.
        encoder_steps: steps that go through its encoder at once.
        recurrence: steps of a chunk.
        timing: of the Learner.
        beat: is called before each piece, which may take long.

    Attributes:
        chunks_at_once: of a micro-batch.
    """

    def __init__(
        self, core_steps: int, encoder_steps: int, recurrence: int, timing: Timing, beat: Callable[[], None]
    ) -> None:
        self.chunks_at_once = max(1, core_steps // recurrence)
        self._chunks_encoded_at_once = max(1, encoder_steps // recurrence)
        self._most_sampled_chunks = max(1, _KL_STEPS // recurrence)
        self._timing = timing
        self._beat = beat

    def of(self, dataset: Dataset, steps: RecordedSteps, chunks: npt.NDArray[np.int64]) -> Iterator[MicroBatch]:
        """Yield some chunks of a dataset, in order.

        Args:
            dataset: of which.
            steps: its, by chunk.
            chunks: their numbers.
        """
        for start in range(0, len(chunks), self.chunks_at_once):
            self._beat()
            with self._timing.add_time("bptt_initial"):
                piece = chunks[start : start + self.chunks_at_once]
                micro_batch = MicroBatch(
                    self.observations(dataset, piece), dataset.states(piece), steps.of(address_of(piece))
                )
            yield micro_batch

    def observations(self, dataset: Dataset, chunks: npt.NDArray[np.int64]) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the observations of some chunks by key, `[num_steps, ...]`, as many as the encoder sees at once."""
        for start in range(0, len(chunks), self._chunks_encoded_at_once):
            self._beat()
            with self._timing.add_time(GATHER_OBSERVATIONS):
                observations = dataset.observations(chunks[start : start + self._chunks_encoded_at_once])
            yield observations

    def sample(
        self, dataset: Dataset, steps: RecordedSteps, valid: torch.Tensor, chunks: npt.NDArray[np.int64], seed: int
    ) -> Iterator[tuple[MicroBatch, torch.Tensor]]:
        """Yield some of the chunks, enough to tell how far the policy has moved, with which of their steps count.

        Args:
            dataset: of which.
            steps: its, by chunk.
            valid: which of them count, `[num_chunks, recurrence]`.
            chunks: numbers of those that may be drawn.
            seed: of the draw: a generator of its own, which needs no saving. Others draw the same whether this is
                wanted or not.
        """
        if len(chunks) > self._most_sampled_chunks:
            random = np.random.default_rng(seed)
            chunks = random.choice(chunks, self._most_sampled_chunks, replace=False, shuffle=False)
        index = torch.from_numpy(chunks).to(valid.device, non_blocking=True)
        pieces = torch.split(valid[index], self.chunks_at_once)
        yield from zip(self.of(dataset, steps, chunks), pieces, strict=True)


def recorded_steps(dataset: Dataset) -> RecordedSteps:
    """Return what was recorded of all steps of a dataset, by chunk."""
    return RecordedSteps(
        starts_episode=dataset.by_chunk(dataset.starts_episode),
        actions=dataset.by_chunk(dataset.actions),
        action_parameters=dataset.by_chunk(dataset.action_parameters),
        log_probabilities=dataset.by_chunk(dataset.log_probabilities),
        values=dataset.by_chunk(dataset.values),
    )
