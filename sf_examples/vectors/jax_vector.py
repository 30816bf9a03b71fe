"""Simulators in JAX as vectors: one compiled function steps all members, and begins anew those who have ended."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import create_empty_array

from sample_profiler.errors import EnvError
from sample_profiler.profiling import get_timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import gymnasium

__all__ = ["JaxSimulation", "JaxVector", "importing_jax"]

logger = logging.getLogger(__name__)


class _Members(NamedTuple):
    """Where all N members are; a tree of JAX's arrays.

    Attributes:
        state: The simulator's own.
        key: Of the random numbers to come.
    """

    state: Any
    key: Any


class JaxSimulation:
    """The functions of N members, compiled: once in a process, however many vectors have them.

    Attributes:
        num_members: N.
        is_on_gpu: Whether they run on a GPU.
    """

    def __init__(
        self,
        name: str,
        num_members: int,
        reset: Callable[[Any], tuple[Any, Any]],
        step: Callable[[Any, Any, Any], tuple[Any, tuple[Any, ...]]],
        *,
        may_use_gpu: bool,
    ) -> None:
        """Prepare them, after :func:`importing_jax`.

        Args:
            name: Of what is simulated.
            num_members: N.
            reset: Takes N keys of random numbers, ``[N, …]``; returns observations, batched, and the state of all.
            step: Takes the state, one key, and actions, batched; returns the state, and observations, rewards, who was
                terminated, who was cut off, and final observations. Who has ended begins anew within it.
            may_use_gpu: Whether they run on a GPU, if JAX has one.
        """
        import jax

        self._jax = jax
        self.num_members = num_members
        self._place = jax.devices()[0] if may_use_gpu else jax.devices("cpu")[0]
        self.is_on_gpu = self._place.platform != "cpu"
        if may_use_gpu and not self.is_on_gpu:
            logger.info("JAX finds no GPU: %d environments of %s are simulated on the processors", num_members, name)
        self._is_compiled = False

        def reset_all(seed: Any) -> tuple[Any, _Members]:
            keys = jax.random.split(jax.random.PRNGKey(seed), num_members + 1)
            observations, state = reset(keys[1:])
            return observations, _Members(state, keys[0])

        def step_all(members: _Members, actions: Any) -> tuple[_Members, tuple[Any, ...]]:
            key, drawn = jax.random.split(members.key)
            state, outcome = step(members.state, drawn, actions)
            return _Members(state, key), outcome

        self._reset, self._step = jax.jit(reset_all), jax.jit(step_all)

    def compile(self, action_space: gymnasium.Space[Any]) -> None:
        """Compile what has not been.

        Args:
            action_space: Of one member.
        """
        if self._is_compiled:
            return
        zeros: Any = create_empty_array(action_space, self.num_members, fn=np.zeros)
        # On a device they will come from there, which to JAX is something else.
        actions = self._jax.device_put(zeros, self._place) if self.is_on_gpu else zeros
        _, members = self.reset(0)
        for _ in range(2):  # what a step returns may be something else to it than what a reset does
            members, _ = self._step(members, actions)
        self._jax.block_until_ready(members)
        self._is_compiled = True

    def reset(self, seed: int) -> tuple[Any, _Members]:
        """Begin an episode everywhere; return observations, and where the members are."""
        # What follows is computed where this is.
        result: tuple[Any, _Members] = self._reset(self._jax.device_put(np.uint32(seed % 2**32), self._place))
        return result

    def step(self, members: _Members, actions: Any) -> tuple[_Members, tuple[Any, ...]]:
        """Take one step; return where the members are, and what `step` of the constructor says.

        Args:
            members: From a reset or the step before.
            actions: Arrays of numpy, or whatever has ``__dlpack__``; batched.
        """
        there = self._jax.tree.map(
            lambda values: values if isinstance(values, np.ndarray) else self._jax.dlpack.from_dlpack(values), actions
        )
        result: tuple[_Members, tuple[Any, ...]] = self._step(members, there)
        return result


class JaxVector:
    """A vector of a simulation's members; its arrays are JAX's, on the device where they are simulated.

    Attributes:
        num_envs: Number of members.
        is_on_gpu: Whether they are simulated on a GPU.
        observation_space: Of one member.
        action_space: Of one member.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        simulation: JaxSimulation,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
    ) -> None:
        """Make it; the simulation is compiled with its first reset.

        Args:
            simulation: Of the members.
            observation_space: Of one member.
            action_space: Of one member.
        """
        self.num_envs = simulation.num_members
        self.is_on_gpu = simulation.is_on_gpu
        self.observation_space = observation_space
        self.action_space = action_space
        self._simulation = simulation
        self._members: _Members | None = None
        # What a device still reads when the host has gone on: the members of the step before, and the actions.
        self._before: tuple[_Members, Any] | None = None

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode everywhere."""
        with get_timing().add_time("compile_simulator"):
            self._simulation.compile(self.action_space)
        seed = np.random.randint(2**31) if seed is None else seed
        observations, self._members = self._simulation.reset(seed)
        return observations, {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Take one step; final observations are in the infos, under ``final_obs``."""
        assert self._members is not None
        self._before = self._members, actions
        self._members, outcome = self._simulation.step(self._members, actions)
        *results, final_observations = outcome
        return *results, {"final_obs": final_observations}


@contextlib.contextmanager
def importing_jax(simulator: str, extra: str) -> Iterator[None]:
    """Let JAX be imported, and find its devices, without a trace in this process.

    It would take most of a GPU's memory for itself, and multiply in less than single precision. Brax and MJX print and
    log what they can do without, and warn of Brax's own physics, which are not developed any further.

    Args:
        simulator: That is imported, too.
        extra: Of this package, that installs it.

    Raises:
        EnvError: Something cannot be imported.
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
            import jax

            jax.devices()
    except ImportError as error:
        raise EnvError(f"{simulator} cannot be imported ({error}): install sample-profiler[{extra}]") from error
    finally:
        logging.disable(disabled)
        for name in os.environ.keys() - variables.keys():
            del os.environ[name]
