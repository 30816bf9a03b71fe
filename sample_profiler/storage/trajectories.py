"""Owns the memory that trajectories are sampled into: written once by environments and inference, read by the Learner.

Step t of a slot holds the observation o_t and recurrent state h_t that inference saw, what it drew from them (action,
its log-probability, the distribution's parameters, the value), and what the environment answered (reward, end flags).
o_T and h_T are what follows the last step: if the episode ended there, the *final* observation and state.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from sample_profiler.envs.contract import EnvSpec
from sample_profiler.runtime.messages.shared_memory import ArraySpec, SharedArrays, num_bytes_of
from sample_profiler.spaces import action_dtype, action_width, num_action_parameters
from sample_profiler.storage.sampling_plan import SamplingPlan

if TYPE_CHECKING:
    import torch

    from sample_profiler.storage.device_arrays import DeviceArrays

__all__ = ["Trajectories", "TrajectoryLayout", "address_of"]

Array = npt.NDArray[Any]
Indices = TypeVar("Indices", bound=npt.NDArray[np.integer[Any]])

_ON_HOST = ("row_slot", "group_step", "final_step")
"""What stays in the host's memory in any case: it decides by that."""

_OF_ROWS = (*_ON_HOST, "final_states")
"""What is of groups and agent rows, not of slots; beside final observations."""


def address_of(indices: Indices) -> slice | Indices:
    """Return what addresses these slots, or chunks: a slice where each is the one behind the one before.

    One slice is read and written several times as quickly as as many slots one by one.
    """
    if not len(indices):
        return indices
    first, last = int(indices[0]), int(indices[-1])
    if last - first != len(indices) - 1 or (indices[1:] - indices[:-1] != 1).any():
        return indices
    return slice(first, last + 1)


@dataclass(frozen=True)
class TrajectoryLayout:
    """Sizes of everything in a trajectory; of agents of one kind, whose spaces are the same.

    Attributes:
        num_slots: trajectories that fit.
        num_rows: agents of all environments.
        num_groups: groups of environments that step together.
        rollout: T, steps in a trajectory.
        observations: shape and dtype of one observation by key.
        action_width: numbers in one action.
        action_dtype: of actions.
        num_action_parameters: numbers that describe the distribution of one action.
        state_size: H, numbers in one agent's recurrent state.
    """

    num_slots: int
    num_rows: int
    num_groups: int
    rollout: int
    observations: dict[str, ArraySpec]
    action_width: int
    action_dtype: npt.DTypeLike
    num_action_parameters: int
    state_size: int

    @property
    def num_bytes(self) -> int:
        """Memory that trajectories of this layout take."""
        return num_bytes_of(_array_specs(self).values())

    @classmethod
    def of_kinds(cls, plan: SamplingPlan, spec: EnvSpec, state_size: int) -> list[TrajectoryLayout]:
        """Derive the sizes of the trajectories of each kind of agents."""
        return [cls.of(plan, each, state_size) for each in spec.of_kinds()]

    @classmethod
    def of(cls, plan: SamplingPlan, spec: EnvSpec, state_size: int) -> TrajectoryLayout:
        """Derive the sizes from who samples what, where all agents have the same spaces."""
        observations: dict[str, ArraySpec] = {
            key: (tuple(space.shape or ()), np.dtype(space.dtype)) for key, space in spec.observation_space.items()
        }
        return cls(
            num_slots=plan.num_slots,
            num_rows=plan.num_rows,
            num_groups=len(plan.groups),
            rollout=plan.rollout,
            observations=observations,
            action_width=action_width(spec.action_space),
            action_dtype=action_dtype(spec.action_space),
            num_action_parameters=num_action_parameters(spec.action_space),
            state_size=state_size,
        )


class Trajectories:
    """The arrays themselves; the same memory in every process that gets this object.

    Where one process does everything they may move to where its vectors observe (`move_to`), and are tensors there.

    Agents of several kinds, whose spaces differ, have observations, actions and their parameters in arrays of their
    kind, all else in the same ones: `of_policy` shows all this as the agents see it that follow a policy. These arrays,
    too, have a place for each slot; in those of other kinds nobody writes, so they take no memory.

    Args:
        layout: sizes; of the first kind of agents, if there are several.
        others: sizes of other kinds, which differ from the first in observations, actions and parameters alone.
        kind_of_policy: the kind of the agents that follow each policy; empty: there is one.

    Attributes:
        device: where they are tensors; None: they are arrays in shared memory.
        observations: by key, `[num_slots, T + 1, ...]`.
        states: `[num_slots, T + 1, H]` float32.
        actions: `[num_slots, T, action_width]`.
        action_parameters: `[num_slots, T, num_action_parameters]` float32.
        log_probabilities, values, rewards: `[num_slots, T]` float32; values as the network gives them.
        terminated, truncated: `[num_slots, T]` bool.
        inactive: `[num_slots, T]` bool: the agent had no part in this step, which is not trained on.
        spoiled: `[num_slots, T]` bool: it is inactive only because its numbers were not finite.
        final_values: `[num_slots, T]` float32: value of the final observation where an episode was truncated at t < T-1
            (the Learner computes the one at T-1 from o_T).
        starts_episode: `[num_slots, T]` bool: step t > 0 was entered with a state of zeros, as the first of an episode.
        policy_versions: `[num_slots, T]` int64: version of the weights that drew the action.
        row_slot: `[num_rows]` int32: the slot that an agent row writes to.
        group_step: `[num_groups]` int32: the step t that a group waits for actions for.
        final_step: `[num_rows]` int32: 1 + the step at which the row's episode was truncated and whose final value is
            still to be computed with the row's next action; 0: none.
        final_observations: by key, `[num_rows, ...]`; final_states: `[num_rows, H]`: what to compute it from. On a
            device, where nobody looks whether there are any, `[num_slots, T, ...]`: what followed each step, for the
            Learner to evaluate where an episode was truncated.
    """

    def __init__(
        self, layout: TrajectoryLayout, others: Sequence[TrajectoryLayout] = (), kind_of_policy: Sequence[int] = ()
    ) -> None:
        self.layout = layout
        self.device: torch.device | None = None
        self._kinds = (layout, *others)
        self._kind_of_policy = tuple(kind_of_policy)
        specs = _array_specs(layout)
        for kind, other in enumerate(others, 1):
            specs |= {_name_of(name, kind): spec for name, spec in _specs_of_kind(other).items()}
        self._arrays: SharedArrays | DeviceArrays = SharedArrays(specs)
        self._name_arrays()

    @property
    def has_kinds(self) -> bool:
        """Whether agents have spaces of their own."""
        return len(self._kinds) > 1

    def of_policy(self, policy: int) -> Trajectories:
        """Return the same memory as the agents see it that follow a policy."""
        if not self.has_kinds:
            return self
        view = copy.copy(self)
        view.layout = self._kinds[self._kind_of_policy[policy]]
        view._name_arrays()
        return view

    def move_to(self, device: torch.device) -> None:
        """Live as tensors on a device from now on, of zeros; for a process that shares this with no other.

        The shared memory is given back; its pages that nobody has written to were never taken.
        """
        if self.device == device:
            return
        from sample_profiler.storage.device_arrays import DeviceArrays  # only who has tensors needs torch

        self.device = device
        self._arrays = DeviceArrays(_array_specs(self.layout, keeps_all_finals=True), device, _ON_HOST)
        self._name_arrays()

    @property
    def num_bytes(self) -> int:
        """Memory that the trajectories take once all of it has been written."""
        return self._arrays.num_bytes

    @property
    def memory(self) -> npt.NDArray[np.uint8]:
        """Everything in it, `[num_bytes]`, to be kept and put back."""
        return self._arrays.memory

    def put_back(self, memory: npt.NDArray[np.uint8]) -> None:
        """Make everything in it what it was when `memory` was read."""
        self._arrays.put_back(memory)

    def copy_out(self, slots: Sequence[int]) -> dict[str, Array]:
        """Return copies of all that is in some slots, by name, `[len(slots), ...]`; for `copy_in` elsewhere."""
        return {name: np.take(self._arrays[name], slots, axis=0) for name in self._names_of_slots()}

    def copy_in(self, slots: Sequence[int], contents: Mapping[str, Array]) -> None:
        """Fill slots with what `copy_out` returned of a memory of the same layout but its size."""
        address = address_of(np.asarray(slots))
        for name in self._names_of_slots():
            self._arrays[name][address] = contents[name]

    def _names_of_slots(self) -> list[str]:
        own, kind = _specs_of_kind(self.layout), self._kinds.index(self.layout)
        names = [name for name in _array_specs(self.layout) if name not in _OF_ROWS]
        return [
            _name_of(name, kind) if name in own else name for name in names if not name.startswith("final_observation/")
        ]

    def __getstate__(self) -> dict[str, Any]:
        assert self.device is None, "what is on a device is one process's alone"
        kinds = {"kinds": self._kinds, "kind_of_policy": self._kind_of_policy}
        return {"layout": self.layout, "arrays": self._arrays, **kinds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.layout = state["layout"]
        self.device = None
        self._kinds, self._kind_of_policy = state["kinds"], state["kind_of_policy"]
        self._arrays = state["arrays"]
        self._name_arrays()

    def _name_arrays(self) -> None:
        arrays = self._arrays
        keys, kind = self.layout.observations, self._kinds.index(self.layout)
        self.observations: dict[str, Array] = {key: arrays[_name_of(f"observation/{key}", kind)] for key in keys}
        self.final_observations: dict[str, Array] = {
            key: arrays[_name_of(f"final_observation/{key}", kind)] for key in keys
        }
        self.actions: Array = arrays[_name_of("actions", kind)]
        self.action_parameters: npt.NDArray[np.float32] = arrays[_name_of("action_parameters", kind)]
        self.states: npt.NDArray[np.float32] = arrays["states"]
        self.log_probabilities: npt.NDArray[np.float32] = arrays["log_probabilities"]
        self.values: npt.NDArray[np.float32] = arrays["values"]
        self.rewards: npt.NDArray[np.float32] = arrays["rewards"]
        self.terminated: npt.NDArray[np.bool_] = arrays["terminated"]
        self.truncated: npt.NDArray[np.bool_] = arrays["truncated"]
        self.inactive: npt.NDArray[np.bool_] = arrays["inactive"]
        self.spoiled: npt.NDArray[np.bool_] = arrays["spoiled"]
        self.starts_episode: npt.NDArray[np.bool_] = arrays["starts_episode"]
        self.final_values: npt.NDArray[np.float32] = arrays["final_values"]
        self.policy_versions: npt.NDArray[np.int64] = arrays["policy_versions"]
        self.row_slot: npt.NDArray[np.int32] = arrays["row_slot"]
        self.group_step: npt.NDArray[np.int32] = arrays["group_step"]
        self.final_step: npt.NDArray[np.int32] = arrays["final_step"]
        self.final_states: npt.NDArray[np.float32] = arrays["final_states"]


def _name_of(name: str, kind: int) -> str:
    """Return what an array that agents of each kind have is called of one kind."""
    return f"{kind}:{name}" if kind else name


def _specs_of_kind(layout: TrajectoryLayout, *, keeps_all_finals: bool = False) -> dict[str, ArraySpec]:
    """Return the arrays that agents of each kind have."""
    slots, rows, steps = layout.num_slots, layout.num_rows, layout.rollout
    finals = (slots, steps) if keeps_all_finals else (rows,)
    specs: dict[str, ArraySpec] = {}
    for key, (shape, dtype) in layout.observations.items():
        specs[f"observation/{key}"] = ((slots, steps + 1, *shape), dtype)
        specs[f"final_observation/{key}"] = ((*finals, *shape), dtype)
    specs["actions"] = ((slots, steps, layout.action_width), layout.action_dtype)
    specs["action_parameters"] = ((slots, steps, layout.num_action_parameters), np.float32)
    return specs


def _array_specs(layout: TrajectoryLayout, *, keeps_all_finals: bool = False) -> dict[str, ArraySpec]:
    slots, rows, steps = layout.num_slots, layout.num_rows, layout.rollout
    finals = (slots, steps) if keeps_all_finals else (rows,)
    return _specs_of_kind(layout, keeps_all_finals=keeps_all_finals) | {
        "states": ((slots, steps + 1, layout.state_size), np.float32),
        "log_probabilities": ((slots, steps), np.float32),
        "values": ((slots, steps), np.float32),
        "rewards": ((slots, steps), np.float32),
        "terminated": ((slots, steps), np.bool_),
        "truncated": ((slots, steps), np.bool_),
        "inactive": ((slots, steps), np.bool_),
        "spoiled": ((slots, steps), np.bool_),
        "starts_episode": ((slots, steps), np.bool_),
        "final_values": ((slots, steps), np.float32),
        "policy_versions": ((slots, steps), np.int64),
        "row_slot": ((rows,), np.int32),
        "group_step": ((layout.num_groups,), np.int32),
        "final_step": ((rows,), np.int32),
        "final_states": ((*finals, layout.state_size), np.float32),
    }
