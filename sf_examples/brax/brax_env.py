"""Brax's environments as vectors: one compiled function steps all members, and begins anew those who have ended."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from sample_profiler.errors import EnvError
from sample_profiler.profiling import get_timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sample_profiler.envs import EnvPlacement

__all__ = ["BRAX_ENVS", "BraxVector", "make_brax_env", "refuse_pictures"]

logger = logging.getLogger(__name__)

BRAX_ENVS = ("ant", "halfcheetah", "humanoid", "walker2d", "hopper", "inverted_pendulum", "reacher", "swimmer")
"""Brax's own names."""

EPISODE_STEPS = 1000
_BOUND = 10.0  # of rewards and observations that are clipped


class _Members(NamedTuple):
    """Where all N members are; a tree of JAX's arrays.

    Attributes:
        state: Brax's own.
        firsts: States of the simulator and observations, `[N, ...]`, in one of which each further episode begins.
        steps: `[N]`, taken in the episode.
        key: Of the random numbers to come.
    """

    state: Any
    firsts: Any
    steps: Any
    key: Any


class _Simulation(NamedTuple):
    """The compiled functions of so many members, and the sizes of what goes in and comes out."""

    reset: Callable[[Any], _Members]
    step: Callable[[_Members, Any], tuple[_Members, tuple[Any, ...]]]
    as_array: Callable[[Any], Any]
    compile: Callable[[], None]
    num_observations: int
    num_actions: int


class BraxVector:
    """A vector of one of Brax's environments; its arrays are JAX's, on the device that JAX uses.

    Attributes:
        num_envs: Number of members.
        observation_space: Of one member.
        action_space: Of one member.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        name: str,
        num_members: int,
        backend: str = "spring",
        *,
        clamp_actions: bool = True,
        clamp_rew_obs: bool = False,
    ) -> None:
        """Make it; compiled with its first reset and step, once in a process.

        Args:
            name: Brax's name of the environment.
            num_members: How many.
            backend: Physics.
            clamp_actions: Whether the bounds of actions are -1 to 1; else there are none.
            clamp_rew_obs: Whether rewards and observations are clipped to -10 to 10.

        Raises:
            EnvError: Brax is not installed.
        """
        self.num_envs = num_members
        self._simulation = _make_simulation(name, num_members, backend, clamp_rew_obs)
        bound = 1.0 if clamp_actions else np.inf
        self.observation_space = spaces.Box(-np.inf, np.inf, (self._simulation.num_observations,), np.float32)
        self.action_space = spaces.Box(-bound, bound, (self._simulation.num_actions,), np.float32)
        self._members: _Members | None = None
        # What a device still reads when the host has gone on: the members of the step before, and the actions.
        self._before: tuple[_Members, Any] | None = None

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode everywhere."""
        seed = np.random.randint(2**31) if seed is None else seed
        with get_timing().add_time("compile_simulator"):
            self._simulation.compile()
        self._members = self._simulation.reset(np.uint32(seed % 2**32))
        return self._members.state.obs, {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Take one step; final observations are in the infos, under ``final_obs``."""
        assert self._members is not None
        self._before = self._members, actions
        self._members, outcome = self._simulation.step(self._members, self._simulation.as_array(actions))
        *results, final_observations = outcome
        return *results, {"final_obs": final_observations}


def make_brax_env(full_env_name: str, cfg: Any, env_config: EnvPlacement | None, render_mode: str | None = None) -> Any:  # noqa: ARG001
    """Make a vector of one of :data:`BRAX_ENVS`.

    Raises:
        EnvError: Brax is not installed; or pictures are wanted, of which there are none.
    """
    refuse_pictures(render_mode)
    return BraxVector(
        full_env_name,
        cfg.env_agents,
        cfg.brax_backend,
        clamp_actions=cfg.clamp_actions,
        clamp_rew_obs=cfg.clamp_rew_obs,
    )


def refuse_pictures(render_mode: str | None) -> None:
    """Say that there are none.

    Raises:
        EnvError: They are wanted.
    """
    if render_mode is not None:
        raise EnvError(
            "the simulators of Brax and MJX show no pictures here: play with --no_render, and no --save_video"
        )


@functools.cache
def _make_simulation(name: str, num_members: int, backend: str, clamp_rew_obs: bool) -> _Simulation:
    with _quiet_start():
        try:
            import jax
            from brax import envs
            from jax import numpy as jnp
        except ImportError as error:
            raise EnvError(f"Brax cannot be imported ({error}): install sample-profiler[brax]") from error
        env = envs.get_environment(name, backend=backend)
        is_on_cpu, there = jax.default_backend() == "cpu", jax.devices()[0]
    if is_on_cpu:
        logger.info("JAX finds no GPU: %d environments of %s are simulated on the processors", num_members, name)

    def clipped(values: Any) -> Any:
        return jnp.clip(values, -_BOUND, _BOUND) if clamp_rew_obs else values

    def reset(seed: Any) -> _Members:
        key, *keys = jax.random.split(jax.random.PRNGKey(seed), num_members + 1)
        state = jax.vmap(env.reset)(jnp.stack(keys))
        state = state.replace(obs=clipped(state.obs))
        return _Members(state, (state.pipeline_state, state.obs), jnp.zeros(num_members, jnp.int32), key)

    def step(members: _Members, actions: Any) -> tuple[_Members, tuple[Any, ...]]:
        state = jax.vmap(env.step)(members.state, actions)
        steps, final_observations = members.steps + 1, clipped(state.obs)
        terminated = state.done > 0
        truncated = (steps >= EPISODE_STEPS) & ~terminated
        ended = terminated | truncated
        key, drawn = jax.random.split(members.key)
        # Brax's own way of beginning anew always leads a member back to the same state, and hides the final one.
        begins_as = jax.random.randint(drawn, (num_members,), 0, num_members)

        def begin(first: Any, now: Any) -> Any:
            if first.shape[:1] != (num_members,):
                return now
            return jnp.where(ended.reshape(-1, *[1] * (now.ndim - 1)), first[begins_as], now)

        pipeline_state, obs = jax.tree.map(begin, members.firsts, (state.pipeline_state, final_observations))
        state = state.replace(pipeline_state=pipeline_state, obs=obs, done=jnp.zeros_like(state.done))
        members = _Members(state, members.firsts, jnp.where(ended, 0, steps), key)
        return members, (obs, clipped(state.reward), terminated, truncated, final_observations)

    def as_array(actions: Any) -> Any:
        return actions if isinstance(actions, np.ndarray) else jax.dlpack.from_dlpack(actions)

    (num_observations,) = jax.eval_shape(env.reset, jax.random.PRNGKey(0)).obs.shape
    compiled_reset, compiled_step = jax.jit(reset), jax.jit(step)

    @functools.cache
    def compile_all() -> None:
        actions = np.zeros((num_members, env.action_size), np.float32)
        # On a device they will come from there, which to JAX is something else.
        placed = actions if is_on_cpu else jax.device_put(actions, there)
        members = compiled_reset(np.uint32(0))
        for _ in range(2):  # what a step returns may be something else to it than what a reset does
            members, _ = compiled_step(members, placed)
        jax.block_until_ready(members.steps)

    return _Simulation(compiled_reset, compiled_step, as_array, compile_all, num_observations, env.action_size)


@contextlib.contextmanager
def _quiet_start() -> Iterator[None]:
    """Let JAX be imported, and find its devices, without a trace in this process.

    It would take most of a GPU's memory for itself, and multiply in less than single precision. Brax and MJX print and
    log what they can do without, and warn of Brax's own physics, which are not developed any further.
    """
    variables = dict(os.environ)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("JAX_DEFAULT_MATMUL_PRECISION", "highest")
    for name in ("jax", "absl"):
        logging.getLogger(name).setLevel(logging.WARNING)
    disabled = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        for name in os.environ.keys() - variables.keys():
            del os.environ[name]
