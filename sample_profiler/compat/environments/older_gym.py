"""Owns how environments of OpenAI's Gym become Gymnasium's: through `shimmy`, which knows both."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import gymnasium
from gymnasium import spaces

from sample_profiler.errors import EnvError

__all__ = ["as_gymnasium", "convert_space", "patch_non_gymnasium_env"]

_PASSED_ON = ("num_agents", "is_multiagent")


def as_gymnasium(env: Any) -> Any:
    """Return an environment of Gym as Gymnasium's; any other as it is.

    Raises:
        EnvError: `shimmy` is missing.
    """
    gym = sys.modules.get("gym")  # whoever has made one has imported it
    is_of_gym = gym is not None and isinstance(env, gym.Env) and isinstance(env.observation_space, gym.Space)
    return patch_non_gymnasium_env(env) if is_of_gym else env


def patch_non_gymnasium_env(env: Any) -> Any:
    """Return an environment that is Gymnasium's; one that is already as it is.

    Raises:
        EnvError: It is neither of Gymnasium nor of Gym, or `shimmy` is missing.
    """
    if isinstance(env, gymnasium.Env):
        return env
    shimmy = _shimmy_for(env, "Env")
    is_newer = "seed" in inspect.signature(env.unwrapped.reset).parameters
    wrapped = (shimmy.GymV26CompatibilityV0 if is_newer else shimmy.GymV21CompatibilityV0)(env=env)
    for name in _PASSED_ON:
        if hasattr(env, name):
            setattr(wrapped, name, getattr(env, name))
    for name in ("observation_space", "action_space"):
        setattr(wrapped, name, convert_space(getattr(wrapped, name)))
    return wrapped


def convert_space(space: Any) -> spaces.Space[Any]:
    """Return a space that is Gymnasium's; one that is already as it is.

    Raises:
        EnvError: It is neither of Gymnasium nor of Gym, or `shimmy` is missing.
    """
    if isinstance(space, spaces.Space):
        return space
    converted: spaces.Space[Any] = _shimmy_for(space, "Space").openai_gym_compatibility._convert_space(space)
    return converted


def _shimmy_for(thing: Any, kind: str) -> Any:
    """Return the package that converts something of Gym.

    Raises:
        EnvError: It is nothing of Gym, or a package is missing.
    """
    try:
        import gym
        import shimmy
    except ImportError as error:
        raise EnvError(
            f"{thing!r:.200} is no {kind} of Gymnasium, and {error.name} is missing to make one: install it"
        ) from None
    if not isinstance(thing, getattr(gym, kind)):
        raise EnvError(f"{thing!r:.200} is a {kind} neither of Gymnasium nor of Gym")
    return shimmy
