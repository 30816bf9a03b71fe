"""Owns what is told of a rollout whose steps stay on a device: noted there step by step, and read in one piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from sample_profiler.envs.vectors.host_arrays import as_host_arrays
from sample_profiler.envs.vectors.tensor_step import TensorStep
from sample_profiler.envs.vectors.vector_step import VectorStep

__all__ = ["RolloutFigures"]

_ENDED, _RETURN, _LENGTH, _BAD = range(4)


class RolloutFigures:
    """Episodes of N members that end in T steps, and numbers that no network can take.

    Attributes:
        keys: of observations that may have such numbers.
    """

    def __init__(self, num_steps: int, num_members: int, device: torch.device, keys: Sequence[str]) -> None:
        """Begin the first rollout.

        Args:
            num_steps: T.
            num_members: N.
            device: Where it is noted.
            keys: Of observations that may have such numbers.
        """
        self.keys = tuple(keys)
        # By figure: ended, return and length of the episode, bad reward, bad observation of each key. float64 has all.
        self._figures = torch.zeros(
            _BAD + 1 + len(self.keys), num_steps, num_members, dtype=torch.float64, device=device
        )
        self._read: npt.NDArray[np.float64] | None = None
        self._steps: list[tuple[Any, Any]] = []  # infos of each step, and when members begin anew

    def note(
        self, index: int, ended: Tensor, returns: Tensor, lengths: Tensor, bad: Sequence[Tensor], step: TensorStep
    ) -> None:
        """Note a step.

        Args:
            index: Of the step in the rollout.
            ended: `[N]` bool, whose episodes have ended.
            returns: `[N]`, of the episodes so far.
            lengths: `[N]`, of the episodes so far.
            bad: `[N]` bool each, of the reward and of each key.
            step: The step.
        """
        torch.stack([values.double() for values in (ended, returns, lengths, *bad)], out=self._figures[:, index])
        self._steps.append((step.kept_infos(), step.autoreset))

    def bad(self) -> Iterator[tuple[int, str, str]]:
        """Yield who returned something bad: the member, the key of the observation (empty: the reward), and when."""
        figures = self._on_host()
        steps, members, kinds = np.nonzero(figures[_BAD:].transpose(1, 2, 0))
        for step, member, kind in zip(steps.tolist(), members.tolist(), kinds.tolist(), strict=True):
            where = f"step {int(figures[_LENGTH, step, member])} of an episode"
            yield member, ("", *self.keys)[kind], where

    def episodes(self) -> Iterator[tuple[int, float, int, Mapping[str, Any]]]:
        """Yield the episodes that have ended: member, return, length, and what infos say of it."""
        figures = self._on_host()
        ended_by_step = figures[_ENDED] > 0
        indices = np.flatnonzero(ended_by_step.any(axis=1)).tolist()
        infos_by_step = _infos_on_host([self._steps[index][0] for index in indices])
        for index, infos in zip(indices, infos_by_step, strict=True):
            ended = np.flatnonzero(ended_by_step[index])
            flags = ended_by_step[index]
            step = VectorStep(None, figures[_RETURN, index], flags, flags, infos, self._steps[index][1], ended)
            for member, info in zip(ended.tolist(), step.end_infos(), strict=True):
                yield member, float(figures[_RETURN, index, member]), int(figures[_LENGTH, index, member]), info

    def begin(self) -> None:
        """Begin the next rollout."""
        self._read = None
        self._steps = []

    def course(self) -> dict[str, Any]:
        """Return what was noted of the rollout so far, as data for `follow`."""
        steps = [(as_host_arrays(infos), mode.value) for infos, mode in self._steps]
        return {"figures": self._figures.cpu().numpy().copy(), "steps": steps}

    def follow(self, course: dict[str, Any]) -> None:
        """Go on from a course."""
        self._figures.copy_(torch.from_numpy(course["figures"]))
        self._steps = [(infos, AutoresetMode(mode)) for infos, mode in course["steps"]]

    def _on_host(self) -> npt.NDArray[np.float64]:
        if self._read is None:
            self._read = self._figures.cpu().numpy()
        return self._read


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
