"""Owns environments for loops of one's own: tensors, or lists, of what all agents see; they reset themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from sample_profiler.cli.common.program import Program
from sample_profiler.compat.environments.agents import Wrapped, is_multiagent, num_agents_of
from sample_profiler.compat.environments.interfaces import get_default_reward_shaping
from sample_profiler.compat.environments.registry import create_env
from sample_profiler.compat.serving.place import come_first
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.compat.settings.carrying import program_of
from sample_profiler.config import parse_run_config
from sample_profiler.errors import UsageError
from sample_profiler.run.env_probe import probe_env
from sample_profiler.spaces import DEFAULT_OBSERVATION_KEY, action_converter, action_width

__all__ = [
    *("BatchedVecEnv", "EnvInfo", "NonBatchedVecEnv", "extract_env_info", "make_env", "make_env_func_batched"),
    *("make_env_func_non_batched", "obtain_env_info_in_a_separate_process", "preprocess_actions"),
]


@dataclass
class EnvInfo:
    """What is known of an environment.

    Attributes:
        obs_space: Of one agent.
        action_space: Of one agent.
        num_agents: How many there are.
        gpu_actions: False: actions are arrays.
        gpu_observations: As the flag says.
        action_splits: Of a Tuple: of how many numbers each of its parts consists.
        all_discrete: Of a Tuple: whether all its parts are Discrete.
        frameskip: Frames of a step.
        reward_shaping_scheme: Weights of the rewards, if they have any.
    """

    obs_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    num_agents: int
    gpu_actions: bool
    gpu_observations: bool
    action_splits: list[int] | None
    all_discrete: bool | None
    frameskip: int
    reward_shaping_scheme: dict[str, Any] | None = None


class NonBatchedVecEnv(Wrapped):
    """An environment of one agent or several that shows lists with an entry for each agent, dictionaries all of them.

    One agent begins its next episode within the step that ended one; what its reset told is in that step's infos as
    `reset_info`.

    Attributes:
        observation_space: A dictionary, of one agent.
        num_agents: How many there are.
        is_multiagent: True: everything has an entry for each agent.
    """

    is_multiagent = True

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        space = env.observation_space
        if isinstance(space, list | tuple) or isinstance(env.action_space, list | tuple):
            raise UsageError(
                "agents with spaces of their own have no batch: make the environment with create_env, and play it with "
                "sample_profiler.load_policy, a policy for each kind of agents"
            )
        self._is_dict = isinstance(space, spaces.Dict)
        self.observation_space = space if self._is_dict else spaces.Dict({DEFAULT_OBSERVATION_KEY: space})
        self._is_one = not is_multiagent(env)
        self.num_agents = num_agents_of(env)
        self._seed: int | None = None

    @property
    def env(self) -> Any:
        """What is wrapped."""
        return self._env

    def seed(self, seed: int | None = None) -> None:
        """Have the next reset be seeded, as by its argument."""
        self._seed = seed

    def reset(self, **keywords: Any) -> tuple[Any, Any]:
        """Begin an episode."""
        seed, self._seed = self._seed, None
        observations, infos = self._env.reset(**({} if seed is None else {"seed": seed}), **keywords)
        return self._show([observations] if self._is_one else observations), [infos] if self._is_one else infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Take a step with `[num_agents]` actions."""
        if not self._is_one:
            observations, *others = self._env.step(actions)
            return self._show(observations), *others
        observation, reward, ends, cut, info = self._env.step(actions[0])
        if ends or cut:
            observation, told = self._env.reset()
            info = {**info, "reset_info": told}
        return self._show([observation]), [reward], [ends], [cut], [info]

    def _show(self, observations: Any) -> Any:
        if isinstance(observations, Mapping):
            agents = range(self.num_agents)
            return [{key: values[agent] for key, values in observations.items()} for agent in agents]
        return observations if self._is_dict else [{DEFAULT_OBSERVATION_KEY: each} for each in observations]


class BatchedVecEnv(NonBatchedVecEnv):
    """The same with a dictionary of tensors `[num_agents, ...]` as observations; rewards and ends are tensors, too."""

    def step(self, actions: Any) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, Any]:
        """Take a step with `[num_agents]` actions."""
        observations, *outcomes, infos = super().step(actions)
        rewards, terminated, truncated = map(_as_tensor, outcomes)
        return observations, rewards, terminated, truncated, infos

    def _show(self, observations: Any) -> dict[str, Tensor]:
        if isinstance(observations, list | tuple):
            if not self._is_dict:
                return {DEFAULT_OBSERVATION_KEY: _as_tensor(observations)}
            return {key: _as_tensor([each[key] for each in observations]) for key in self.observation_space.spaces}
        if not isinstance(observations, Mapping):
            return {DEFAULT_OBSERVATION_KEY: _as_tensor(observations)}
        return {key: _as_tensor(values) for key, values in observations.items()}


def _as_tensor(values: Any) -> Tensor:
    if isinstance(values, list | tuple) and values and isinstance(values[0], Tensor):
        return torch.stack(list(values))
    if isinstance(values, list | tuple) and all(isinstance(value, bool | int | float) for value in values):
        return torch.tensor(values)  # of Python's numbers as wide as PyTorch's own
    return values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))


def make_env_func_batched(cfg: Any, env_config: Any, render_mode: str | None = None) -> BatchedVecEnv:
    """Make the environment that options name, for a loop of one's own.

    Args:
        cfg: Options.
        env_config: Where it will run; None: nowhere in particular.
        render_mode: As in gymnasium.
    """
    return BatchedVecEnv(create_env(cfg.env, cfg, env_config, render_mode))


def make_env_func_non_batched(cfg: Any, env_config: Any, render_mode: str | None = None) -> NonBatchedVecEnv:
    """Make the same environment with lists of what each agent sees; arguments as of :func:`make_env_func_batched`."""
    return NonBatchedVecEnv(create_env(cfg.env, cfg, env_config, render_mode))


def make_env(cfg: Any, render_mode: str | None = None) -> BatchedVecEnv:
    """Make the first environment of the first worker."""
    return make_env_func_batched(cfg, AttrDict(worker_index=0, vector_index=0, env_id=0), render_mode)


def extract_env_info(env: Any, cfg: Any) -> EnvInfo:
    """Return what an environment says of itself that one of the functions above has made."""
    return _describe(env.observation_space, env.action_space, env.num_agents, cfg, get_default_reward_shaping(env))


def obtain_env_info_in_a_separate_process(cfg: Any) -> EnvInfo:
    """Return the same of the environment that options name, which is made in a process of its own.

    Raises:
        SampleProfilerError: It cannot be used.
    """
    come_first()
    program: Program = program_of(AttrDict(cfg if isinstance(cfg, Mapping) else vars(cfg)))
    spec = probe_env(parse_run_config(program.argv, extra_parts=program.extra_parts, defaults=program.defaults))
    return _describe(spec.observation_space, spec.action_space, spec.num_agents, cfg, None)


def _describe(
    obs_space: Any, action_space: Any, num_agents: int, cfg: Any, reward_shaping: dict[str, Any] | None
) -> EnvInfo:
    parts: Sequence[Any] | None = action_space.spaces if isinstance(action_space, spaces.Tuple) else None
    return EnvInfo(
        obs_space=obs_space,
        action_space=action_space,
        num_agents=num_agents,
        gpu_actions=False,
        gpu_observations=bool(cfg.env_gpu_observations),
        action_splits=None if parts is None else [action_width(part) for part in parts],
        all_discrete=None if parts is None else all(isinstance(part, spaces.Discrete) for part in parts),
        frameskip=cfg.env_frameskip,
        reward_shaping_scheme=reward_shaping,
    )


def preprocess_actions(env_info: EnvInfo, actions: Any, to_numpy: bool = True) -> Any:
    """Return actions `[num_agents, width]` as environments take them: an array, of a mixed Tuple a list of actions.

    Args:
        env_info: Of the environment.
        actions: A tensor or an array.
        to_numpy: False: return tensors, where that is possible.
    """
    rows = actions.detach().cpu() if isinstance(actions, Tensor) else torch.as_tensor(actions)
    space = env_info.action_space
    if isinstance(space, spaces.Tuple) and not env_info.all_discrete:
        return list(map(action_converter(space), rows.numpy()))
    if not isinstance(space, spaces.Box):
        rows = rows.to(torch.int32)
        rows = rows.squeeze(-1) if rows.shape[-1] == 1 else rows
    return rows.numpy() if to_numpy else rows
