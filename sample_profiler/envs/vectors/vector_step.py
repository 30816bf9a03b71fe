"""What one step of a vector told of all its members: numbers as arrays, and what infos say of those who have ended.

Infos are one dictionary for each member, or one dictionary of arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from sample_profiler.envs.vectors.autoreset import FINAL_OBSERVATION_KEYS
from sample_profiler.envs.vectors.host_arrays import as_host_array, as_host_arrays

__all__ = ["IS_ACTIVE_KEY", "VectorStep", "find_inactive", "infos_of_members"]

IS_ACTIVE_KEY = "is_active"
_FINAL_INFO_KEY = "final_info"
_OF_MEMBERS = ("episode_extra_stats", "true_objective", IS_ACTIVE_KEY)
"""What infos say of a member that anybody here wants to know."""


@dataclass(frozen=True)
class VectorStep:
    """One step of N members. Its arrays may be the simulator's memory: they are valid until its next step.

    Attributes:
        observations: What members see next: batched as gymnasium does, in arrays of numpy; or one by one, in a list.
        rewards: `[N]`.
        terminated, truncated: `[N]` bool.
        infos: As the vector returned them.
        autoreset: When members whose episode has ended begin the next one.
        ended: Members whose episode has ended.
    """

    observations: Any
    rewards: npt.NDArray[Any]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    infos: Any
    autoreset: AutoresetMode
    ended: npt.NDArray[np.intp]

    def is_of(self, num_members: int) -> bool:
        """Tell whether there is one reward and one flag of each kind for each of so many members."""
        return self.rewards.shape == self.terminated.shape == self.truncated.shape == (num_members,)

    @property
    def shows_next(self) -> bool:
        """Whether members whose episode has ended see the first observation of the next one already."""
        return self.autoreset is AutoresetMode.SAME_STEP

    def end_infos(self) -> Sequence[Mapping[str, Any]]:
        """Return what the infos say of each member whose episode has ended, and whether it has a part in what follows.

        Where it begins anew with the next step, it has none.
        """
        members = self.ended.tolist()
        if isinstance(self.infos, Mapping):
            own = as_host_arrays(infos_of_members(self.infos))
            final = own.pop(_FINAL_INFO_KEY, None)
            told = [{**_entries_of(own, member), **_last_info(final, member)} for member in members]
        else:
            told = [dict(self.infos[member] or {}) for member in members]
        if self.autoreset is AutoresetMode.NEXT_STEP:
            told = [{**info, IS_ACTIVE_KEY: False} for info in told]
        return told

    def inactive(self, end_infos: Sequence[Mapping[str, Any]]) -> npt.NDArray[np.bool_] | bool:
        """Return who has no part in the next step, `[N]`; False: nobody.

        Args:
            end_infos: What the method of that name returned.
        """
        inactive = find_inactive(self.infos)
        of_ended = [not info.get(IS_ACTIVE_KEY, True) for info in end_infos]
        if inactive is False and True in of_ended:
            inactive = np.zeros(len(self.rewards), dtype=np.bool_)
        if inactive is not False:
            inactive[self.ended] = of_ended
        return inactive

    def final_batch(self) -> Any:
        """Return the final observations of those who have ended, batched over all N; None: they are told one by one."""
        if isinstance(self.infos, Mapping):
            for key in FINAL_OBSERVATION_KEYS:
                batch = as_host_arrays(self.infos.get(key))
                if isinstance(batch, Mapping) or (isinstance(batch, np.ndarray) and batch.dtype != object):
                    return batch
        return None

    def final_of(self, member: int) -> Any:
        """Return the final observation of a member whose episode has ended; None: it is not told."""
        info = self.infos if isinstance(self.infos, Mapping) else self.infos[member]
        for key in FINAL_OBSERVATION_KEYS:
            if info.get(key) is not None:
                told = as_host_arrays(info[key])
                return _pick(told, member) if info is self.infos else told
        return None


def infos_of_members(infos: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a dictionary of arrays says of members that anybody here wants to know when their episode has ended.

    Beside the arrays, masks say who has an entry.
    """
    names = (*_OF_MEMBERS, _FINAL_INFO_KEY)
    return {key: value for key, value in infos.items() if key.removeprefix("_") in names}


def find_inactive(infos: Any) -> npt.NDArray[np.bool_] | Literal[False]:
    """Return whom infos call inactive, `[N]`; False: nobody."""
    if isinstance(infos, Mapping):
        if IS_ACTIVE_KEY not in infos:
            return False
        inactive = ~as_host_array(infos[IS_ACTIVE_KEY]).astype(np.bool_)
        has_told = infos.get(f"_{IS_ACTIVE_KEY}")  # gymnasium fills what others do not tell with False
        return inactive if has_told is None else inactive & as_host_array(has_told)
    return np.array([not info.get(IS_ACTIVE_KEY, True) for info in infos]) if any(infos) else False


def _entries_of(infos: Mapping[str, Any], member: int) -> dict[str, Any]:
    """Return a member's part of a dictionary of arrays, beside which masks say who has an entry."""
    return {
        key: _entries_of(value, member) if isinstance(value, Mapping) else _pick(value, member)
        for key, value in infos.items()
        if not key.startswith("_") and (f"_{key}" not in infos or infos[f"_{key}"][member])
    }


def _last_info(infos: Any, member: int) -> Mapping[str, Any]:
    """Return the last info of a member's episode: its part of a dictionary of arrays, or of a list; empty: none."""
    if infos is None or isinstance(infos, Mapping):
        return _entries_of(infos or {}, member)
    last: Mapping[str, Any] | None = infos[member]
    return last or {}


def _pick(values: Any, member: int) -> Any:
    if isinstance(values, Mapping):
        return {key: _pick(value, member) for key, value in values.items()}
    return values[member] if np.ndim(values) or isinstance(values, tuple | list) else values
