"""Owns functions that make environments as Sample Factory calls them, registered for runs of this package."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import gymnasium

from sample_profiler.compat.environments.agents import WholeEpisodes, as_agents, is_multiagent
from sample_profiler.compat.environments.older_gym import as_gymnasium
from sample_profiler.compat.environments.older_gymnasium import supply_older_names
from sample_profiler.compat.environments.wrappers import EpisodeCounterWrapper
from sample_profiler.compat.serving.place import come_first
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.compat.settings.carrying import view_of
from sample_profiler.config import Config
from sample_profiler.config.parts import EvaluationOptions
from sample_profiler.envs import register_env as register
from sample_profiler.envs.contract import EnvPlacement
from sample_profiler.envs.registry import registered_envs, unregister_env

__all__ = ["CreateEnv", "create_env", "forget_envs", "global_env_registry", "register_env"]

CreateEnv = Callable[..., Any]


class _Creators(UserDict[str, CreateEnv]):
    """What makes each environment; what is put in is registered, and no longer when it is taken out."""

    def __setitem__(self, name: str, make: CreateEnv) -> None:
        register(name, _EnvMaker(make))
        super().__setitem__(name, make)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        unregister_env(name)


_creators = _Creators()

supply_older_names()  # wherever such environments are made
come_first()  # the functions that make them are about to be imported there


def register_env(env_name: str, make_env_func: CreateEnv) -> None:
    """Register what makes an environment.

    Args:
        env_name: Its full name, for `--env`.
        make_env_func: Called as `make(full_env_name, cfg, env_config, render_mode)`.
    """
    _creators[env_name] = make_env_func


def global_env_registry() -> MutableMapping[str, CreateEnv]:
    """Return what makes each environment, by name; a new entry is registered as by :func:`register_env`."""
    return _creators


def forget_envs() -> None:
    """Have no environment registered any more, of those that were here."""
    _creators.clear()


def create_env(full_env_name: str, cfg: Any = None, env_config: Any = None, render_mode: str | None = None) -> Any:
    """Make an environment as it was registered, by the contract of Sample Factory: several agents reset themselves.

    Raises:
        ValueError: There is none of that name.
    """
    if full_env_name not in _creators:
        known = ", ".join(registered_envs()) or "none"
        raise ValueError(f"no environment is registered as {full_env_name!r} (registered: {known}): see register_env")
    return _made(_creators[full_env_name], full_env_name, cfg, env_config, render_mode)


@dataclass(frozen=True)
class _EnvMaker:
    """Makes an environment of this package out of what a function written for Sample Factory returns.

    Attributes:
        make: The function.
    """

    make: CreateEnv

    def __call__(
        self, full_env_name: str, cfg: Config, env_config: EnvPlacement | None, /, *, render_mode: str | None = None
    ) -> Any:
        view = view_of(cfg)
        placement = _placement(cfg, env_config)
        env = _made(self.make, full_env_name, view, placement, render_mode)
        if view.use_record_episode_statistics and not is_multiagent(env):
            env = WholeEpisodes(env)
        return as_agents(env, full_env_name, batched=view.batched_sampling)


def _made(make: CreateEnv, full_env_name: str, cfg: Any, env_config: Any, render_mode: str | None) -> Any:
    """Return what a function makes, of Gymnasium; with `episode_counter` its episodes are numbered."""
    env = as_gymnasium(make(full_env_name, cfg, env_config, render_mode))
    is_counted = getattr(cfg, "episode_counter", False) and isinstance(env, gymnasium.Env) and not is_multiagent(env)
    return EpisodeCounterWrapper(env) if is_counted else env


def _placement(cfg: Config, env_config: EnvPlacement | None) -> AttrDict | None:
    if env_config is not None:
        return AttrDict(vars(env_config))
    plays = any(isinstance(part, EvaluationOptions) for part in cfg.extra_parts)
    return AttrDict(worker_index=0, vector_index=0, env_id=0) if plays else None
