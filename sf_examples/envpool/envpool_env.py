"""EnvPool's pools as vectors, by EnvPool's own ids."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from sample_profiler.config import option
from sample_profiler.errors import EnvError, UnknownEnvError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sample_profiler.envs import EnvPlacement, MakeEnv

__all__ = ["EnvPoolOptions", "PoolVector", "envpool_names", "find_envpool_env", "make_envpool_env"]


@dataclass(frozen=True, kw_only=True)
class EnvPoolOptions:
    """EnvPool."""

    env_agents: int = option(64, minimum=2)
    """Number of environments in one pool."""

    envpool_num_threads: int = option(0, minimum=0)
    """Threads that step a pool; 0: as many as EnvPool thinks right."""

    envpool_thread_affinity_offset: int = option(-1, minimum=-1)
    """First of the processors that these threads are bound to, one each; -1: they are bound to none."""


class PoolVector:
    """A pool, whose observations of doubles are known as floats: half the memory, as the networks compute.

    Attributes:
        num_envs: Number of members.
        metadata: The pool's own, which says when members begin anew.
        observation_space: Of one member.
        action_space: Of one member.
    """

    def __init__(self, make: Callable[[int], Any], num_members: int) -> None:
        """Make a pool.

        Args:
            make: Makes a pool of gymnasium's kind with a seed; a pool has the one that it was made with.
            num_members: Number of environments in it.
        """
        self._make = make
        self._pool = pool = make(0)
        self.num_envs = num_members
        self.metadata = pool.metadata
        self.observation_space = _in_floats(pool.single_observation_space)
        self.action_space = pool.single_action_space

    def reset(self, *, seed: int | None = None) -> Any:
        """Begin an episode everywhere."""
        if seed is not None:
            self._pool.close()
            self._pool = self._make(seed % 2**31)
        return self._pool.reset()

    def step(self, actions: Any) -> Any:
        """Take one step; members whose episode has ended begin the next one with it."""
        return self._pool.step(actions)

    def render(self) -> Any:
        """Return a picture of the first member, ``[height, width, 3]``."""
        return self._pool.render()[0]

    def close(self) -> None:
        """End the pool's threads."""
        self._pool.close()


def make_envpool_env(
    full_env_name: str,
    cfg: Any,
    env_config: EnvPlacement | None,  # noqa: ARG001
    render_mode: str | None = None,
) -> PoolVector:
    """Make a pool.

    Raises:
        EnvError: EnvPool is not installed.
        UnknownEnvError: It has no such id.
    """
    envpool = _import_envpool()
    if full_env_name not in envpool.list_all_envs():
        raise UnknownEnvError(f"EnvPool has no environment {full_env_name!r}; see envpool.list_all_envs()")
    size = cfg.env_agents
    threads = {"num_threads": cfg.envpool_num_threads, "thread_affinity_offset": cfg.envpool_thread_affinity_offset}

    def make(seed: int) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*precision lowered by casting", category=UserWarning)
            return envpool.make(
                full_env_name, env_type="gymnasium", num_envs=size, seed=seed, render_mode=render_mode, **threads
            )

    return PoolVector(make, size)


def find_envpool_env(_name: str) -> MakeEnv:
    """Return :func:`make_envpool_env`, which knows what ids there are: to ask takes a second, and EnvPool."""
    return make_envpool_env


def envpool_names() -> Iterable[str]:
    """Return EnvPool's ids.

    Raises:
        EnvError: EnvPool is not installed.
    """
    names: list[str] = _import_envpool().list_all_envs()
    return names


def _import_envpool() -> Any:
    try:
        import envpool
    except ImportError as error:
        raise EnvError(f"EnvPool cannot be imported ({error}): install sample-profiler[envpool]") from error
    return envpool


def _in_floats(space: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _in_floats(item) for key, item in space.items()})
    if isinstance(space, spaces.Box) and space.dtype == np.float64:
        return spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
    return space
