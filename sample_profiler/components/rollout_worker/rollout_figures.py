"""Owns what is told of a rollout whose steps stay on a device: read there in one piece, when all of them are done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from sample_profiler.envs.vectors.host_arrays import as_host_arrays
from sample_profiler.envs.vectors.tensor_step import TensorStep
from sample_profiler.envs.vectors.vector_step import VectorStep
from sample_profiler.storage.trajectories import Trajectories

__all__ = ["RolloutFigures"]

_FLAGS = ("terminated", "truncated", "inactive", "spoiled")


class RolloutFigures:
    """Episodes of N members, from what trajectories have of T steps of theirs, counted where a `SteppingGroup` does so.

    Attributes:
        returns: `[N]` float64, of the episodes so far.
        lengths: `[N]`, of the episodes so far.
        is_late: `[N]` bool: begin their episode with the first step that they have a part in.
        spoiled: `[N, T]` bool, of the rollout that was read: steps whose numbers are not finite.
    """

    def __init__(self, returns: npt.NDArray[np.float64], lengths: npt.NDArray[np.int64]) -> None:
        """Begin with episodes that are so far."""
        self.returns, self.lengths = returns, lengths
        self.is_late: npt.NDArray[np.bool_] = np.zeros(len(returns), np.bool_)
        self.spoiled: npt.NDArray[np.bool_] = np.zeros((len(returns), 0), np.bool_)
        self._steps: list[tuple[Any, AutoresetMode]] = []

    def note(self, step: TensorStep) -> None:
        """Keep what the infos of a step say of members, until it is known whose episodes have ended."""
        self._steps.append((step.kept_infos(), step.autoreset))

    def read(
        self, trajectories: Trajectories, slots: Any, are_absent: Tensor
    ) -> Iterator[tuple[int, float, int, Mapping[str, Any]]]:
        """Yield the episodes that have ended in a rollout: member, return, length, and what infos say of it.

        This waits for the device.

        Args:
            trajectories: Where the rollout is.
            slots: What addresses its slots.
            are_absent: `[N]` bool, who has no part in the step behind it.
        """
        rewards: Any = trajectories.rewards
        flags: list[Any] = [getattr(trajectories, name)[slots] for name in _FLAGS]
        asked = (rewards[slots], *flags, are_absent[:, None])
        on_host = torch.cat([values.view(torch.uint8) for values in asked], dim=1).cpu().numpy()
        num_steps = trajectories.layout.rollout
        rewards = np.ascontiguousarray(on_host[:, : 4 * num_steps]).view(np.float32)
        terminated, truncated, inactive, self.spoiled = (
            on_host[:, (4 + flag) * num_steps : (5 + flag) * num_steps].astype(np.bool_) for flag in range(len(_FLAGS))
        )
        ended = terminated | truncated
        # Who begins late, with the step behind the one that ended the episode.
        absent = np.concatenate([(inactive & ~self.spoiled)[:, 1:], on_host[:, -1:].astype(np.bool_)], axis=1)
        indices = np.flatnonzero(ended.any(axis=0)).tolist()
        infos = dict(zip(indices, _infos_on_host([self._steps[index][0] for index in indices]), strict=True))
        for index in range(num_steps):
            self.returns += rewards[:, index]
            self.lengths += 1
            if self.is_late.any():
                begins = self.is_late & ~absent[:, index]
                self.returns[begins], self.lengths[begins] = 0.0, 0
                self.is_late &= absent[:, index]
            if index in infos:
                yield from self._end(ended[:, index], infos[index], self._steps[index][1])
                self.is_late = np.where(ended[:, index], absent[:, index], self.is_late)
        self._steps = []

    def _end(
        self, flags: npt.NDArray[np.bool_], infos: Any, autoreset: AutoresetMode
    ) -> Iterator[tuple[int, float, int, Mapping[str, Any]]]:
        ended = np.flatnonzero(flags)
        step = VectorStep(None, self.returns, flags, flags, infos, autoreset, ended)
        for member, info in zip(ended.tolist(), step.end_infos(), strict=True):
            yield member, float(self.returns[member]), int(self.lengths[member]), info
        self.returns[ended] = 0.0
        self.lengths[ended] = 0

    def course(self) -> dict[str, Any]:
        """Return what was noted of the rollout so far, as data for `follow`."""
        steps = [(as_host_arrays(infos), mode.value) for infos, mode in self._steps]
        return {"steps": steps, "is_late": self.is_late.copy()}

    def follow(self, course: Mapping[str, Any]) -> None:
        """Go on from a course."""
        self._steps = [(infos, AutoresetMode(mode)) for infos, mode in course["steps"]]
        self.is_late = course["is_late"]


def _infos_on_host(infos: list[Any]) -> list[Any]:
    """Return infos of several steps in the host's memory: tensors that all of them have, in one piece."""
    if len(infos) < 2 or not all(isinstance(each, Mapping) and each.keys() == infos[0].keys() for each in infos):
        return [as_host_arrays(each) for each in infos]
    gathered: list[dict[str, Any]] = [{} for _ in infos]
    for key, first in infos[0].items():
        values = [each[key] for each in infos]
        if isinstance(first, Tensor) and all(isinstance(v, Tensor) and v.shape == first.shape for v in values):
            values = list(torch.stack(values).cpu().numpy())
        elif isinstance(first, Mapping):
            values = _infos_on_host(values)
        else:
            values = [as_host_arrays(value) for value in values]
        for mine, value in zip(gathered, values, strict=True):
            mine[key] = value
    return gathered
