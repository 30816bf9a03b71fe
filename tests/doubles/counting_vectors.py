"""A vector whose arrays say where they are from, in whatever kind of array it speaks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode


class OnlyDLPack:
    """Nothing but memory that can be had through DLPack, as of a simulator of whatever make."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


SPEAKS = {"numpy": np.asarray, "torch": torch.from_numpy, "DLPack": OnlyDLPack}


class CountingVector:
    """Members whose episodes have lengths of their own; each observation says of which member, episode and step it is.

    What it returns is its own memory, which it writes over with the next step, and in which nobody else may write.

    Args:
        lengths: of the episodes of each member.
        mode: when members begin anew.
        speaks: the kind of its arrays, a name in `SPEAKS`.
        tells_final: the infos have final observations where observations are not final.
        bad_at: numbers of steps whose observations and rewards have a NaN.
    """

    observation_space = spaces.Dict({"place": spaces.Box(-1, 999, (3,), np.float32), "odd": spaces.Discrete(2)})
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(
        self,
        lengths: tuple[int, ...] = (2, 3, 5, 7, 999),
        mode: AutoresetMode = AutoresetMode.SAME_STEP,
        speaks: str = "numpy",
        *,
        tells_final: bool = True,
        bad_at: tuple[int, ...] = (),
    ) -> None:
        self.num_envs = num = len(lengths)
        self.metadata = {"autoreset_mode": mode}
        self.lengths, self.mode, self.tells_final, self.bad_at = np.array(lengths), mode, tells_final, bad_at
        self.speaks = SPEAKS[speaks]
        self.actions: list[Any] = []
        self.num_steps = 0
        self.episode, self.step_in_episode = np.zeros(num, int), np.zeros(num, int)
        self.ended = np.zeros(num, bool)
        self.memory = {
            "place": np.zeros((num, 3), np.float32),
            "odd": np.zeros(num, np.int64),
            "rewards": np.zeros(num, np.float32),
            "terminated": np.zeros(num, np.bool_),
            "truncated": np.zeros(num, np.bool_),
            "objective": np.zeros(num, np.float32),
            "final_place": np.zeros((num, 3), np.float32),
            "final_odd": np.zeros(num, np.int64),
        }
        self._kept: dict[str, np.ndarray] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self._check_memory()
        begins = np.ones(self.num_envs, bool) if options is None else options["reset_mask"]
        self._begin(begins)
        self._observe("")
        return self._returned("place", "odd"), {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        self._check_memory()
        self.actions.append(actions)
        actions = np.asarray(actions)
        assert actions.shape == (self.num_envs, 2)
        assert (abs(actions) <= 1).all()
        self.num_steps += 1
        waits = self.ended if self.mode is AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        self.step_in_episode += 1
        self._begin(waits)
        self.ended = (self.step_in_episode == self.lengths) & ~waits
        self.memory["rewards"][:] = np.where(waits, 0, actions.sum(1) + self.step_in_episode / 2)
        is_cut = np.arange(self.num_envs) % 2 == 1
        self.memory["terminated"][:], self.memory["truncated"][:] = self.ended & ~is_cut, self.ended & is_cut
        self.memory["objective"][:] = self.episode
        self._observe("final_")
        if self.mode is AutoresetMode.SAME_STEP:
            self._begin(self.ended)
        self._observe("")
        if self.num_steps in self.bad_at:
            self.memory["rewards"][0] = self.memory["place"][-1, 1] = self.memory["final_place"][0, 0] = np.nan
        infos = {"true_objective": self._returned("objective")["objective"], "time": 3.0}
        if self.mode is AutoresetMode.SAME_STEP and self.tells_final:
            final = self._returned("final_place", "final_odd")
            infos["final_obs"] = {key.removeprefix("final_"): value for key, value in final.items()}
        outcome = self._returned("rewards", "terminated", "truncated")
        return self._returned("place", "odd"), *outcome.values(), infos

    def _begin(self, members: np.ndarray) -> None:
        self.episode[members] += 1
        self.step_in_episode[members] = 0

    def _observe(self, prefix: str) -> None:
        places = np.stack([np.arange(self.num_envs), self.episode, self.step_in_episode], 1)
        self.memory[f"{prefix}place"][:] = places
        self.memory[f"{prefix}odd"][:] = self.step_in_episode % 2

    def _returned(self, *keys: str) -> dict[str, Any]:
        self._kept |= {key: self.memory[key].copy() for key in keys}
        return {key: self.speaks(self.memory[key]) for key in keys}

    def _check_memory(self) -> None:
        """Nobody has written into what was returned."""
        for key, kept in self._kept.items():
            np.testing.assert_array_equal(self.memory[key], kept)


class BrokenVector(CountingVector):
    """A vector that returns something else in the place of some of its arrays.

    Args:
        change: what, by key of its memory.
        at: number of the first step that does.
        options: those of the base.
    """

    def __init__(self, change: dict[str, Any], at: int, **options: Any) -> None:
        self._change, self._at = change, at
        super().__init__(**options)

    def _returned(self, *keys: str) -> dict[str, Any]:
        is_broken = self.num_steps >= self._at
        changed = {key: self._change[key] for key in keys if key in self._change and is_broken}
        return super()._returned(*keys) | changed


class NumberFlags(CountingVector):
    """A vector whose flags are numbers."""

    def _returned(self, *keys: str) -> dict[str, Any]:
        numbers = {key: self.memory[key].astype(np.float32) for key in keys if self.memory[key].dtype == np.bool_}
        return super()._returned(*keys) | {key: self.speaks(values) for key, values in numbers.items()}


class ActingVector(CountingVector):
    """A vector that takes any actions, and keeps them.

    Args:
        action_space: of one member.
        speaks: as of the base.
        options: others of the base.
    """

    def __init__(self, action_space: spaces.Space[Any], speaks: str = "numpy", **options: Any) -> None:
        self.action_space = action_space
        self.received: list[Any] = []
        super().__init__(speaks=speaks, **options)

    def step(self, actions: Any) -> tuple[Any, ...]:
        self.received.append(actions)
        return super().step(np.zeros((self.num_envs, 2), np.float32))


class VectorOnDevice(CountingVector):
    """A vector whose tensors are on a GPU."""

    def _returned(self, *keys: str) -> dict[str, Any]:
        return {key: torch.from_numpy(value).cuda() for key, value in super()._returned(*keys).items()}

    def step(self, actions: Any) -> tuple[Any, ...]:
        assert actions.is_cuda
        return super().step(actions.cpu())
