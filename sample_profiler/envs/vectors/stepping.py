"""Owns how a vector is stepped whole, behind the one view of an environment that sampling has.

As arrays of numpy in the host's memory, or as tensors of PyTorch on whatever device its observations are.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sample_profiler.envs.attribution import checks_contract_on_error
from sample_profiler.envs.observations import Arrays, ObservationReader
from sample_profiler.envs.vectors.vector_agents import VectorAgents
from sample_profiler.envs.vectors.vector_step import VectorStep
from sample_profiler.errors import EnvContractError
from sample_profiler.profiling.ranges import profile_range

if TYPE_CHECKING:
    import torch

    from sample_profiler.envs.vectors.tensor_step import TensorStep

__all__ = ["StepsVectors"]

Tensors = dict[str, "torch.Tensor"]


class StepsVectors:
    """The part of an `AgentsEnv` that is for vectors."""

    num_agents: int
    _name: str
    _title: str
    _seed: int | None
    _env: Any = None
    _observations: ObservationReader
    _to_actions: Callable[[npt.NDArray[Any]], Any]
    _returned: dict[str, Any]
    _is_step_checked: bool
    _is_end_checked: bool

    def __init__(self) -> None:
        self._is_just_reset = False  # by `find_device`

    @abstractmethod
    def _step_env(self, action: Any, method: str = "") -> Any: ...

    @abstractmethod
    def _named(self, where: str) -> contextlib.AbstractContextManager[None]: ...

    @abstractmethod
    def _check(self, where: str, name: str) -> None: ...

    @abstractmethod
    def _check_begin(self, where: str) -> None: ...

    @abstractmethod
    def _check_end(self) -> None: ...

    @abstractmethod
    def check_returned(self) -> None:
        """Look for a broken contract in what the environment returned last."""

    @property
    def offers_arrays(self) -> bool:
        """Whether it is a vector, whose members can be stepped as arrays: from `reset_arrays` on, instead of lists."""
        return isinstance(self._env, VectorAgents)

    @profile_range("AgentsEnv.reset")
    @checks_contract_on_error
    def reset_arrays(self) -> tuple[Arrays, npt.NDArray[np.bool_] | bool]:
        """Begin an episode everywhere.

        Returns:
            The first observations of all N members by key, `[N, ...]`, valid until the next step; and who has no part
            in that, `[N]` (False: nobody).
        """
        self._reset_vector()
        observations, inactive = self._env.first_arrays()
        return self._observations.as_arrays(observations, "reset"), inactive

    @profile_range("AgentsEnv.step")
    @checks_contract_on_error
    def step_arrays(self, actions: npt.NDArray[Any]) -> VectorStep:
        """Take one step.

        Args:
            actions: `[N, action_width]`.

        Returns:
            What it told of all members, with observations by key, `[N, ...]`.
        """
        result = self._step_env(self._to_actions(actions), "step_arrays")
        is_step = isinstance(result, VectorStep)
        # What was there before is not there any more.
        self._returned = {"step": partial(self._env.step_as_lists, result) if is_step else result}
        if not self._is_step_checked or not is_step or not result.is_of(self.num_agents):
            self._check("step", self._name)
            self._is_step_checked = True
        if len(result.ended) and not self._is_end_checked:
            self._check_end()
        step: VectorStep = replace(result, observations=self._observations.as_arrays(result.observations, "step"))
        return step

    @profile_range("AgentsEnv.reset")
    @checks_contract_on_error
    def find_device(self) -> torch.device | None:
        """Return the device on which a vector can be stepped as tensors: from `reset_tensors` on, instead of arrays.

        To find it out, the vector is reset; what that told is what is returned by the reset that is called next.

        Returns:
            None: its arrays are of numpy, or it cannot.
        """
        self._reset_vector()
        self._is_just_reset = True
        device: torch.device | None = self._env.find_device()
        return device

    @checks_contract_on_error
    def reset_tensors(self) -> tuple[Tensors, npt.NDArray[np.bool_] | bool]:
        """Begin an episode everywhere, as `reset_arrays`."""
        self._reset_vector()
        observations, inactive = self._env.first_tensors()
        return self.as_tensors(observations), inactive

    @profile_range("AgentsEnv.step")
    @checks_contract_on_error
    def step_tensors(self, actions: torch.Tensor) -> TensorStep:
        """Take one step, and wait for nothing that a device does.

        The values of the first step are looked at on the host, those of later ones by nobody.

        Args:
            actions: `[N, action_width]`.
        """
        from sample_profiler.envs.vectors.tensor_step import TensorStep  # whoever calls this has it

        step: TensorStep = self._step_env(actions, "step_tensors")
        self._returned = {"step": self._env.result_as_lists}
        if not self._is_step_checked or not isinstance(step, TensorStep) or not step.is_of(self.num_agents):
            self._check("step", self._name)
            self._is_step_checked = True
        return step

    def as_tensors(self, observations: Any) -> Tensors:
        """Return batched observations of all members by key, as tensors where its steps are."""
        from sample_profiler.envs.vectors.tensor_step import as_tensor

        reader = self._observations
        arrays = observations if reader.flatten is None else reader.flatten(observations)
        tensors = {key: as_tensor(arrays[key], self._env.device) for key in reader.batched_shapes}
        for key, shape in reader.batched_shapes.items():
            if tensors[key].shape != shape:
                raise ValueError(f"observations {key!r} are of shape {tuple(tensors[key].shape)} instead of {shape}")
        return tensors

    def refuse(self, what: str) -> None:
        """Say what is wrong with what the vector returned.

        Raises:
            EnvContractError: always.
        """
        raise EnvContractError(f"{self._title}: {what}")

    @property
    def ranges(self) -> dict[str, tuple[Any, Any]]:
        """The first and the last value of observations that networks can take no others of, by key."""
        return self._observations.ranges

    @checks_contract_on_error
    def begin_arrays(self, members: npt.NDArray[np.intp]) -> Arrays:
        """Begin the next episode of members whose episode has ended, and return their first observations, by key.

        Args:
            members: those that the latest step called so.
        """
        with self._named("begin_episodes"):
            observations = self._env.begin_arrays(members)
        self._returned["begin_episodes"] = lambda: (self._env.begin_as_lists()[0], range(self.num_agents))
        self._check_begin("begin_episodes")
        begun = self._observations.as_arrays(observations, "begin_episodes")
        return {key: array[members] for key, array in begun.items()}

    def final_arrays(self, step: VectorStep) -> tuple[npt.NDArray[np.intp], Arrays]:
        """Return whose final observations the infos of a step tell, and these by key.

        Args:
            step: from `step_arrays`; the latest.
        """
        batch = step.final_batch()
        if batch is not None:
            finals = self._observations.as_arrays(batch, "step")
            return step.ended, {key: array[step.ended] for key, array in finals.items()}
        told = [(member, final) for member in step.ended.tolist() if (final := step.final_of(member)) is not None]
        if not told:
            return step.ended[:0], {}
        dicts = self._observations.as_dicts([final for _, final in told], "step")
        return np.array([member for member, _ in told]), {key: np.stack([d[key] for d in dicts]) for key in dicts[0]}

    def _reset_vector(self) -> None:
        """Begin an episode everywhere, unless that has just been done to find something out."""
        if self._is_just_reset:
            self._is_just_reset = False
            return
        with self._named("reset"):
            self._env.reset_all(**({} if self._seed is None else {"seed": self._seed}))
        self._returned["reset"] = self._env.begin_as_lists
        self._check_begin("reset")
        self._seed = None
