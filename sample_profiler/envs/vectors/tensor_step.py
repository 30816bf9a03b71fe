"""What one step of a vector told of all its members, as tensors that stay on the device where they are.

Nothing here looks at a value: whoever asks whether something is so waits for the device. Imported only where a vector
has tensors, or whatever else has ``__dlpack__`` (JAX, Warp).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from sample_profiler.envs.vectors.autoreset import FINAL_OBSERVATION_KEYS
from sample_profiler.envs.vectors.vector_step import IS_ACTIVE_KEY, infos_of_members

__all__ = ["TensorStep", "as_flags", "as_tensor", "like_foreign"]


def as_tensor(values: Any, device: torch.device | None = None) -> Tensor:
    """Return values as a tensor: over the same memory if they are where they are wanted.

    Args:
        values: An array of any kind, a number, or a list of them.
        device: Where it is wanted; None: wherever it is.
    """
    if not isinstance(values, Tensor):
        if hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray | np.generic):
            values = from_dlpack(values)
        else:
            # What PyTorch takes: it knows no arrays that run backwards, and none that must not be written to.
            values = torch.from_numpy(np.require(values, requirements=["C", "W"]))
    tensor: Tensor = values.detach()
    if tensor.dtype == torch.bfloat16:  # which NumPy does not know
        tensor = tensor.float()
    # Only what comes to the host is waited for: its memory is read at once.
    return tensor if device is None else tensor.to(device, non_blocking=device.type != "cpu")


def as_flags(values: Tensor) -> Tensor:
    """Return flags, which may be numbers, as bool."""
    return values if values.dtype == torch.bool else values != 0


def like_foreign(actions: Any, is_torch: bool) -> Any:
    """Return actions as their vector takes them: tensors where it has tensors itself, or lives on a device.

    Args:
        actions: A tensor, or a tuple or dictionary of them.
        is_torch: Whether the vector has tensors of PyTorch; what else there is on the host speaks with numpy.
    """
    if isinstance(actions, Mapping):
        return {key: like_foreign(part, is_torch) for key, part in actions.items()}
    if isinstance(actions, tuple):
        return tuple(like_foreign(part, is_torch) for part in actions)
    return actions if is_torch or not actions.is_cpu else actions.numpy()


@dataclass(frozen=True)
class TensorStep:
    """One step of N members. Its tensors may be the simulator's memory: they are valid until its next step.

    Attributes:
        observations: What members see next, batched as gymnasium does.
        rewards: ``[N]``.
        terminated, truncated: ``[N]`` bool.
        infos: As the vector returned them.
        autoreset: When members whose episode has ended begin the next one.
    """

    observations: Any
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    infos: Any
    autoreset: AutoresetMode

    def is_of(self, num_members: int) -> bool:
        """Tell whether there is one reward and one flag of each kind for each of so many members."""
        return self.rewards.shape == self.terminated.shape == self.truncated.shape == (num_members,)

    @property
    def shows_next(self) -> bool:
        """Whether members whose episode has ended see the first observation of the next one already."""
        return self.autoreset is AutoresetMode.SAME_STEP

    def inactive(self) -> Tensor | None:
        """Return who has no part in the next step, ``[N]``; None: nobody."""
        device = self.rewards.device
        inactive = _find_inactive(self.infos, device)
        if self.autoreset is AutoresetMode.NEXT_STEP:
            ended = self.terminated | self.truncated
            return ended if inactive is None else ended | inactive
        return inactive

    def final_observations(self) -> tuple[Any, Tensor | None]:
        """Return final observations, batched over all N, and whose these are, ``[N]`` bool; None: all who have ended.

        The observations are None where no infos tell any.
        """
        device = self.rewards.device
        if isinstance(self.infos, Mapping):
            told = [self.infos[key] for key in FINAL_OBSERVATION_KEYS if self.infos.get(key) is not None]
            if not told or not _is_of_members(told[0]):
                return (told[0] if told else None), None
            pairs = [(member, final) for member, final in enumerate(told[0]) if final is not None]
        else:
            finals = [_first_told(info or {}, FINAL_OBSERVATION_KEYS) for info in self.infos]
            pairs = [(member, final) for member, final in enumerate(finals) if final is not None]
        if not pairs:
            return None, None
        members = as_tensor([member for member, _ in pairs], device)
        is_told = torch.zeros(len(self.rewards), dtype=torch.bool, device=device).index_fill(0, members, True)
        return _spread([final for _, final in pairs], self.observations, members, len(self.rewards)), is_told

    def kept_infos(self) -> Any:
        """Return what infos say of members that somebody wants to know when their episode has ended: copies."""
        if isinstance(self.infos, Mapping):
            return _copies(infos_of_members(self.infos))
        return [_copies(infos_of_members(info)) if info else {} for info in self.infos]


def _first_told(info: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((info[key] for key in keys if info.get(key) is not None), None)


def _is_of_members(finals: Any) -> bool:
    """Tell whether there is an observation, or None, for each member, instead of a batch."""
    return isinstance(finals, list | tuple) or (isinstance(finals, np.ndarray) and finals.dtype == object)


def _spread(finals: list[Any], batch: Any, members: Tensor, num_members: int) -> Any:
    """Return a batch, as the given one, in which members have these observations, and others zeros."""
    if isinstance(batch, Mapping | tuple):
        entries = dict(batch.items() if isinstance(batch, Mapping) else enumerate(batch))
        parts = {k: _spread([final[k] for final in finals], v, members, num_members) for k, v in entries.items()}
        return parts if isinstance(batch, Mapping) else tuple(parts.values())
    rows = torch.stack([as_tensor(final, members.device) for final in finals])
    return rows.new_zeros(num_members, *rows.shape[1:]).index_copy(0, members, rows)


def _find_inactive(infos: Any, device: torch.device) -> Tensor | None:
    if not isinstance(infos, Mapping):
        if not any(infos):
            return None
        return as_tensor([not info.get(IS_ACTIVE_KEY, True) for info in infos], device)
    if IS_ACTIVE_KEY not in infos:
        return None
    inactive = ~as_tensor(infos[IS_ACTIVE_KEY], device).bool()
    has_told = infos.get(f"_{IS_ACTIVE_KEY}")
    return inactive if has_told is None else inactive & as_tensor(has_told, device)


def _copies(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {key: _copies(value) for key, value in values.items()}
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = values.tolist()
    if isinstance(values, list | tuple):
        return [_copies(value) for value in values]
    if isinstance(values, np.ndarray):
        return values.copy()
    if not isinstance(values, Tensor) and hasattr(values, "__dlpack__"):
        values = from_dlpack(values)
    return values.clone() if isinstance(values, Tensor) else values
