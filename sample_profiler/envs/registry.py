"""Environments by name: what a run's ``--env`` stands for, in this process and in the processes it starts.

A name belongs to one function that makes the environment. Families whose names nobody can list in advance, such as all
of gymnasium's, add a fallback that is asked for names that are not registered.

A worker is a fresh process. It imports the main script again, which repeats what the script registers at import, but
not what it registered inside a function. So the registration itself travels too: :func:`export_registration` in the
process that starts the workers, :func:`import_registration` in the worker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol

from sample_profiler.envs.images.pixel_order import ChannelsMoved
from sample_profiler.envs.pettingzoo import ParallelAgents, is_parallel, takes_turns
from sample_profiler.envs.vectors.vector_agents import OnlyMember, VectorAgents, is_vector
from sample_profiler.errors import EnvContractError, EnvError, UnknownEnvError
from sample_profiler.portable import pack_function, unpack_function

if TYPE_CHECKING:
    from sample_profiler.envs.contract import EnvPlacement

__all__ = [
    "MakeEnv",
    "export_registration",
    "import_registration",
    "make_env",
    "register_env",
    "register_env_fallback",
    "registered_envs",
    "unregister_env",
]

logger = logging.getLogger(__name__)

_MAX_LISTED_NAMES = 20


class MakeEnv(Protocol):
    """A function that makes an environment."""

    def __call__(
        self, full_env_name: str, cfg: Any, env_config: EnvPlacement | None, /, *, render_mode: str | None = None
    ) -> Any:
        """Make one environment.

        Args:
            full_env_name: The name given with ``--env``.
            cfg: The run's configuration; every flag is an attribute.
            env_config: Where the environment will run; ``None`` outside a run.
            render_mode: As in gymnasium; ``None`` while training.

        Returns:
            An environment as :mod:`sample_profiler.envs.contract` describes it.
        """
        ...


@dataclass(frozen=True)
class _Fallback:
    find: Callable[[str], MakeEnv | None]
    names: Callable[[], Iterable[str]]


@dataclass(frozen=True)
class _Renamed:
    """Makes an environment that is asked for as module:name, and knows itself by its name alone."""

    make: MakeEnv
    name: str

    def __call__(self, _: str, cfg: Any, env_config: EnvPlacement | None, /, *, render_mode: str | None = None) -> Any:
        return self.make(self.name, cfg, env_config, render_mode=render_mode)


_makers: dict[str, MakeEnv] = {}
_fallbacks: list[_Fallback] = []


def register_env(name: str, make: MakeEnv) -> None:
    """Register an environment; a name registered before now stands for the new one.

    Args:
        name: Full name of the environment, for ``--env``.
        make: Called as ``make(full_env_name, cfg, env_config, render_mode=None)``; see :class:`MakeEnv`.

    Raises:
        EnvError: The name is not a text or is empty, or ``make`` cannot be called.
    """
    if not isinstance(name, str) or not name.strip():
        raise EnvError(f"cannot register an environment as {name!r}: its name has to be text that is not empty")
    if not callable(make):
        raise EnvError(
            f"cannot register {name!r}: {make!r} is not a function; give one that makes the environment, called as "
            "make(full_env_name, cfg, env_config, render_mode=None)"
        )
    if name in _makers and _makers[name] is not make:
        logger.debug("Environment %r is registered again; the new function counts", name)
    _makers[name] = make


def unregister_env(name: str) -> None:
    """Forget an environment, if it is registered."""
    _makers.pop(name, None)


def register_env_fallback(find: Callable[[str], MakeEnv | None], names: Callable[[], Iterable[str]]) -> None:
    """Add a family of environments without registering each: asked for names that are not registered.

    Args:
        find: Returns the function that makes the environment of a name, or ``None`` if the name is not of the family.
        names: Returns names of the family, for suggestions.
    """
    fallback = _Fallback(find, names)
    if fallback not in _fallbacks:
        _fallbacks.append(fallback)


def registered_envs() -> list[str]:
    """Return the registered names in alphabetical order, without those of fallbacks."""
    return sorted(_makers)


def make_env(full_env_name: str, cfg: Any, env_config: EnvPlacement | None, render_mode: str | None = None) -> Any:
    """Make an environment.

    Args:
        full_env_name: A registered name, or one that a fallback knows.
        cfg: The run's configuration.
        env_config: Where the environment will run; ``None`` outside a run.
        render_mode: As in gymnasium; ``None`` while training.

    Returns:
        What the registered function returned. With ``--batched_sampling=True`` the members of a vector become the
        agents of one environment; what is no vector stays what it is. Agents of PettingZoo's parallel interface become
        those of an environment by the contract of several agents. With ``--pixel_format=HWC`` images get their
        channels first.

    Raises:
        UnknownEnvError: Nothing is registered under that name.
        EnvContractError: It is a vector that does not say how many members it has, or its agents take turns,
            or there are none.
    """
    env = _find_maker(full_env_name)(full_env_name, cfg, env_config, render_mode=render_mode)
    if takes_turns(env):
        raise EnvContractError(
            f"environment {full_env_name}: its agents take turns (agent_iter), and here all act at once: return "
            "pettingzoo.utils.conversions.aec_to_parallel(env), or its parallel_env()"
        )
    if is_parallel(env):
        if not list(env.possible_agents):
            raise EnvContractError(
                f"environment {full_env_name}: possible_agents is empty: name all agents that there can be"
            )
        agents = ParallelAgents(env)
        env = OnlyMember(agents) if agents.num_agents == 1 else agents
    if getattr(cfg, "batched_sampling", False) and is_vector(env):
        vector = VectorAgents(env, full_env_name)
        env = OnlyMember(vector) if vector.num_agents == 1 else vector
    return ChannelsMoved(env) if getattr(cfg, "pixel_format", "CHW") == "HWC" else env


def export_registration(name: str) -> bytes:
    """Pack the function that makes an environment, for :func:`import_registration` in another process.

    Raises:
        UnknownEnvError: Nothing is registered under that name.
    """
    return pack_function(_find_maker(name), repr(name), EnvError)


def import_registration(name: str, payload: bytes) -> None:
    """Register an environment packed by :func:`export_registration`, unless the name is registered already.

    What the re-imported main script registered counts: it is the same code, and can use what cannot be packed.

    Args:
        name: Full name of the environment.
        payload: From :func:`export_registration`, of a process of the same run: unpacking executes code.
    """
    if name not in _makers:
        register_env(name, unpack_function(payload, repr(name), EnvError))


def _find_maker(name: str) -> MakeEnv:
    if name in _makers:
        return _makers[name]
    for fallback in _fallbacks:
        make = fallback.find(name)
        if make is not None:
            return make
    own_name = name.rpartition(":")[2]
    if own_name in _makers:  # a fallback has imported the module in front of it, which has registered it
        return _Renamed(_makers[own_name], own_name)
    raise UnknownEnvError(_describe_unknown(name))


def _describe_unknown(name: str) -> str:
    names = {*_makers, *(other for fallback in _fallbacks for other in fallback.names())}
    spelling = {other.lower(): other for other in sorted(names)}
    nearest = [spelling[match] for match in get_close_matches(name.lower(), spelling, n=3)]
    message = f"no environment is registered as {name!r}"
    if nearest:
        message += f": did you mean {' or '.join(repr(other) for other in nearest)}?"
    elif 0 < len(names) <= _MAX_LISTED_NAMES:
        message += f"; there are {', '.join(sorted(names))}."
    else:
        message += (
            f"; none of the {len(names)} known names is near."
            if names
            else "; nothing is registered: each family has a function for that, such as "
            "sf_examples.gym.train_gym.register_gym_envs."
        )
    return f"{message} Register your own with register_env(name, make) before training starts"
