"""gymnax's environments as vectors, by gymnax's own ids."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sample_profiler.config import option
from sample_profiler.errors import UnknownEnvError
from sf_examples.vectors.device_options import check_device, refuse_pictures
from sf_examples.vectors.jax_vector import JaxSimulation, JaxVector, importing_jax

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sample_profiler.envs import EnvPlacement, MakeEnv

__all__ = ["GymnaxOptions", "find_gymnax_env", "gymnax_names", "make_gymnax_env"]


@dataclass(frozen=True, kw_only=True)
class GymnaxOptions:
    """gymnax."""

    env_agents: int = option(64, minimum=1)
    """Number of environments in the vector."""


def make_gymnax_env(
    full_env_name: str,
    cfg: Any,
    env_config: EnvPlacement | None,  # noqa: ARG001
    render_mode: str | None = None,
) -> JaxVector:
    """Make a vector.

    Raises:
        EnvError: gymnax is not installed; or pictures are wanted, of which there are none; or flags do not fit it.
        UnknownEnvError: It has no such id.
    """
    refuse_pictures(render_mode, "gymnax's environments")
    vector = _make_vector(full_env_name, cfg.env_agents, may_use_gpu=bool(cfg.actor_worker_gpus))
    check_device(cfg, is_on_gpu=vector.is_on_gpu)
    return vector


def find_gymnax_env(_name: str) -> MakeEnv:
    """Return :func:`make_gymnax_env`, which knows what ids there are: to ask takes seconds, and gymnax."""
    return make_gymnax_env


def gymnax_names() -> Iterable[str]:
    """Return gymnax's ids.

    Raises:
        EnvError: gymnax is not installed.
    """
    with importing_jax("gymnax", "gymnax"):
        import gymnax
    names: list[str] = gymnax.registered_envs
    return names


def _make_vector(name: str, num_members: int, *, may_use_gpu: bool) -> JaxVector:
    if name not in gymnax_names():
        raise UnknownEnvError(f"gymnax has no environment {name!r}; see gymnax.registered_envs")
    return JaxVector(*_make_simulation(name, num_members, may_use_gpu))


@functools.cache
def _make_simulation(name: str, num_members: int, may_use_gpu: bool) -> tuple[JaxSimulation, Any, Any]:
    """Return a simulation, and what one of its members observes and does."""
    with importing_jax("gymnax", "gymnax"):
        import gymnax
        import jax
        from gymnax.environments.spaces import gymnax_space_to_gym_space

        env, parameters = gymnax.make(name)
        of_member = env.observation_space(parameters), env.action_space(parameters)
        observation_space, action_space = map(gymnax_space_to_gym_space, of_member)

    def observed(observations: Any) -> Any:
        """Return observations as their space says: some environments return numbers of another type."""
        dtype = getattr(of_member[0], "dtype", None)
        return observations if dtype is None else observations.astype(dtype)

    def reset(keys: Any) -> tuple[Any, Any]:
        observations, state = jax.vmap(env.reset, (0, None))(keys, parameters)
        return observed(observations), state

    def step(state: Any, key: Any, actions: Any) -> tuple[Any, tuple[Any, ...]]:
        keys = jax.random.split(key, num_members)
        observations, state, rewards, terminated, truncated, infos = jax.vmap(env.step, (0, 0, 0, None))(
            keys, state, actions, parameters
        )
        outcome = observed(observations), rewards, terminated, truncated, observed(infos["final_observation"])
        return state, outcome

    return JaxSimulation(name, num_members, reset, step, may_use_gpu=may_use_gpu), observation_space, action_space
