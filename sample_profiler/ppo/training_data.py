"""Owns what PPO needs of each step beside observations: what was recorded of it, and what it is to lead to.

All tensors are of C *chunks* of R = `recurrence` steps, `[C, R, ...]`: of a dataset, a minibatch or a micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["Chunks", "MicroBatch", "RecordedSteps", "Targets"]

Chunks = npt.NDArray[np.int64]
"""Numbers of chunks."""

_MIN_STDDEV = 1e-7
_Self = TypeVar("_Self", bound="_Columns")


@dataclass(frozen=True)
class _Columns:
    """Tensors of the same steps."""

    def of(self: _Self, chunks: Chunks | slice) -> _Self:
        """Return the steps of some chunks."""
        first: torch.Tensor = getattr(self, fields(self)[0].name)
        index = chunks if isinstance(chunks, slice) else torch.from_numpy(chunks).to(first.device, non_blocking=True)
        return self._each(lambda column: column[index])

    def flat(self: _Self) -> _Self:
        """Return the same steps one after another, `[C * R, ...]`."""
        return self._each(lambda column: column.flatten(0, 1))

    def _each(self: _Self, change: Callable[[torch.Tensor], torch.Tensor]) -> _Self:
        return replace(self, **{each.name: change(getattr(self, each.name)) for each in fields(self)})


@dataclass(frozen=True)
class RecordedSteps(_Columns):
    """What was recorded when the steps were taken.

    Attributes:
        starts_episode: `[C, R]` bool: the step was entered with a state of zeros, as the first of an episode.
        actions: `[C, R, action_width]`.
        action_parameters: `[C, R, num_action_parameters]`, of the policy that drew the actions.
        log_probabilities, values: `[C, R]`, when they were drawn.
    """

    starts_episode: torch.Tensor
    actions: torch.Tensor
    action_parameters: torch.Tensor
    log_probabilities: torch.Tensor
    values: torch.Tensor


@dataclass(frozen=True)
class Targets(_Columns):
    """What the network is trained towards, `[C, R]` each.

    Attributes:
        advantages: of the actions.
        returns: targets of the value head.
        valid: float: 1 for steps that count, 0 for those that do not.
    """

    advantages: torch.Tensor
    returns: torch.Tensor
    valid: torch.Tensor

    def moments(self) -> torch.Tensor:
        """Return how many steps count, and the sums of their advantages and of the squares of these, `[3]` float64."""
        advantages = self.advantages.double() * self.valid
        return torch.stack([self.valid.double().sum(), advantages.sum(), advantages.square().sum()])

    def normalized(self, moments: torch.Tensor) -> Targets:
        """Return the same with advantages of zero mean and unit standard deviation; nobody waits for a device.

        Args:
            moments: of all the steps over which that is to be so, these and maybe others, as `moments` returns them.
        """
        num, total, squares = moments.unbind()
        mean = total / num
        stddev = ((squares - num * mean.square()).clamp_min(0.0) / (num - 1)).sqrt().clamp_min(_MIN_STDDEV)
        return replace(self, advantages=torch.where(num < 2, 0.0, (self.advantages - mean) / stddev))

    def split(self, num_chunks: int) -> Iterator[Targets]:
        """Yield them in pieces of so many chunks; the last may have fewer."""
        for start in range(0, len(self.valid), num_chunks):
            yield self.of(slice(start, start + num_chunks))


@dataclass(frozen=True)
class MicroBatch:
    """Some chunks that go through the network's core at once: N = C * R steps.

    Attributes:
        observations: by key, as the environment gave them, in pieces of `[n, ...]` that add up to `[N, ...]`: what goes
            through the encoder at once. Can be gone through once.
        states: `[C, H]`, recurrent states with which the chunks begin.
        steps: what was recorded of them.
    """

    observations: Iterable[dict[str, torch.Tensor]]
    states: torch.Tensor
    steps: RecordedSteps
