"""Brax's environments as vectors: members whose episode has ended begin anew with the step that ended it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from sf_examples.vectors.device_options import check_device, refuse_pictures
from sf_examples.vectors.jax_vector import JaxSimulation, JaxVector, importing_jax

if TYPE_CHECKING:
    from sample_profiler.envs import EnvPlacement

__all__ = ["BRAX_ENVS", "BraxVector", "make_brax_env", "make_brax_vector"]

BRAX_ENVS = ("ant", "halfcheetah", "humanoid", "walker2d", "hopper", "inverted_pendulum", "reacher", "swimmer")
"""Brax's own names."""

EPISODE_STEPS = 1000
_BOUND = 10.0  # of rewards and observations that are clipped


class _Members(NamedTuple):
    """Where all N members are; a tree of JAX's arrays.

    Attributes:
        state: Brax's own.
        firsts: Observations and states, `[N, ...]`, with one of which each further episode begins.
        steps: `[N]`, taken in the episode.
    """

    state: Any
    firsts: Any
    steps: Any


class _Sized(NamedTuple):
    """A simulation, and how many numbers go in and come out of one member."""

    simulation: JaxSimulation
    num_observations: int
    num_actions: int


class BraxVector(JaxVector):
    """A vector of one of Brax's environments."""

    def __init__(
        self,
        name: str,
        num_members: int,
        backend: str = "spring",
        *,
        clamp_actions: bool = True,
        clamp_rew_obs: bool = False,
        may_use_gpu: bool = True,
    ) -> None:
        """Make it.

        Args:
            name: Brax's name of the environment.
            num_members: How many.
            backend: Physics.
            clamp_actions: Whether the bounds of actions are -1 to 1; else there are none.
            clamp_rew_obs: Whether rewards and observations are clipped to -10 to 10.
            may_use_gpu: Whether it is simulated on a GPU, if JAX has one.

        Raises:
            EnvError: Brax is not installed.
        """
        sized = _make_simulation(name, num_members, backend, clamp_rew_obs, may_use_gpu)
        bound = 1.0 if clamp_actions else np.inf
        super().__init__(
            sized.simulation,
            spaces.Box(-np.inf, np.inf, (sized.num_observations,), np.float32),
            spaces.Box(-bound, bound, (sized.num_actions,), np.float32),
        )


def make_brax_env(full_env_name: str, cfg: Any, env_config: EnvPlacement | None, render_mode: str | None = None) -> Any:  # noqa: ARG001
    """Make a vector of one of :data:`BRAX_ENVS`.

    Raises:
        EnvError: Brax is not installed; or pictures are wanted, of which there are none; or flags do not fit it.
    """
    clamps = {"clamp_actions": cfg.clamp_actions, "clamp_rew_obs": cfg.clamp_rew_obs}
    return make_brax_vector(full_env_name, cfg.env_agents, cfg, render_mode, **clamps)


def make_brax_vector(name: str, num_members: int, cfg: Any, render_mode: str | None, **clamps: bool) -> BraxVector:
    """Make a vector as flags of a family say.

    Args:
        name: Brax's name of the environment.
        num_members: How many.
        cfg: The run's configuration.
        render_mode: As in gymnasium.
        clamps: As of :class:`BraxVector`.

    Raises:
        EnvError: As of :func:`make_brax_env`.
    """
    refuse_pictures(render_mode, "the simulators of Brax and MJX")
    vector = BraxVector(name, num_members, cfg.brax_backend, may_use_gpu=bool(cfg.actor_worker_gpus), **clamps)
    check_device(cfg, is_on_gpu=vector.is_on_gpu)
    return vector


@functools.cache
def _make_simulation(name: str, num_members: int, backend: str, clamp_rew_obs: bool, may_use_gpu: bool) -> _Sized:
    with importing_jax("Brax", "brax"):
        import jax
        from brax import envs
        from jax import numpy as jnp

        env = envs.get_environment(name, backend=backend)

    def clipped(values: Any) -> Any:
        return jnp.clip(values, -_BOUND, _BOUND) if clamp_rew_obs else values

    def reset(keys: Any) -> tuple[Any, _Members]:
        state = jax.vmap(env.reset)(keys)
        observations = clipped(state.obs)
        return observations, _Members(state, (observations, state.pipeline_state), jnp.zeros(num_members, jnp.int32))

    def step(members: _Members, key: Any, actions: Any) -> tuple[_Members, tuple[Any, ...]]:
        state = jax.vmap(env.step)(members.state, actions)
        steps, final_observations = members.steps + 1, clipped(state.obs)
        terminated = state.done > 0
        truncated = (steps >= EPISODE_STEPS) & ~terminated
        ended = terminated | truncated
        # Brax's own way of beginning anew always leads a member back to the same state, and hides the final one.
        begins_as = jax.random.randint(key, (num_members,), 0, num_members)

        def begin(first: Any, now: Any) -> Any:
            return jnp.where(ended.reshape(-1, *[1] * (now.ndim - 1)), first[begins_as], now)

        observations, pipeline_state = jax.tree.map(begin, members.firsts, (final_observations, state.pipeline_state))
        state = state.replace(pipeline_state=pipeline_state, obs=observations, done=jnp.zeros_like(state.done))
        outcome = observations, clipped(state.reward), terminated, truncated, final_observations
        return _Members(state, members.firsts, jnp.where(ended, 0, steps)), outcome

    (num_observations,) = jax.eval_shape(env.reset, jax.random.PRNGKey(0)).obs.shape
    simulation = JaxSimulation(name, num_members, reset, step, may_use_gpu=may_use_gpu)
    return _Sized(simulation, num_observations, env.action_size)
