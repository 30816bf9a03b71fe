"""Finds methods of an environment that are no part of its contract, through whatever is wrapped around it.

Whoever has `set_training_info` is told how far the training is: a wrapper, the environment inside, members of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gymnasium.vector import VectorEnv

__all__ = ["TRAINING_STEPS", "find_listeners", "find_method", "training_info"]

TRAINING_STEPS = "approx_total_training_steps"
"""Key of the frames that the policy has been trained on, earlier starts of the run included."""

_SET_TRAINING_INFO = "set_training_info"
_MOST_LAYERS = 1000  # one that says it wraps another one each time it is asked would be looked through for ever
_INNER = ("env", "_vector", "_env")  # of gymnasium's wrappers, and of ours around vectors

Listener = Callable[[Mapping[str, Any]], Any]


def find_method(env: Any, name: str) -> Callable[..., Any] | None:
    """Return a method of an environment, from the outermost layer that has it; None: it has none.

    Of Gymnasium's vectors without such a method of their own it is that of all members.

    Args:
        env: what the registered function returned, or a view of it.
        name: of the method.
    """
    for layer in _layers(env):
        method: Callable[..., Any] | None = getattr(layer, name, None)
        if callable(method):
            return method
        if isinstance(layer, VectorEnv) and not hasattr(layer, "env"):
            return _find_method_of_members(layer, name)
    return None


def find_listeners(env: Any) -> list[Listener]:
    """Return the methods `set_training_info` of an environment, of all that it is wrapped in and of vectors' members.

    Args:
        env: the outermost wrapper.
    """
    found: dict[int, Listener] = {}  # by whom they are of: a wrapper may pass on the method of what is inside
    for layer in _layers(env):
        members = getattr(layer, "envs", None)
        method = getattr(layer, _SET_TRAINING_INFO, None)
        if callable(method):
            found.setdefault(id(getattr(method, "__self__", method)), method)
        elif isinstance(members, list | tuple):
            found |= {id(member): member for each in members for member in find_listeners(each)}
        elif callable(getattr(layer, "call_async", None)) and all(layer.call("has_wrapper_attr", _SET_TRAINING_INFO)):
            found[id(layer)] = partial(layer.call, _SET_TRAINING_INFO)  # of members in processes of their own
    return list(found.values())


def training_info(num_frames: int) -> dict[str, Any]:
    """Return what environments are told of the training.

    Args:
        num_frames: that the policy has been trained on.
    """
    return {TRAINING_STEPS: int(num_frames)}


def _layers(env: Any) -> list[Any]:
    """Return an environment and what is in it, the outermost first."""
    layers = [env]
    while len(layers) < _MOST_LAYERS:
        found = (getattr(layers[-1], name, None) for name in _INNER)
        inner = next((each for each in found if each is not None), None)
        if inner is None or any(inner is layer for layer in layers):
            break
        layers.append(inner)
    innermost = getattr(env, "unwrapped", env)
    return layers if any(innermost is layer for layer in layers) else [*layers, innermost]


def _find_method_of_members(vector: VectorEnv[Any, Any, Any], name: str) -> Callable[..., Any] | None:
    """Return what calls a method of all members; where they cannot be looked at, calling it will tell who has none."""
    members = getattr(vector, "envs", None)
    if members is None:
        return partial(vector.call, name) if hasattr(vector, "call") else None
    methods = [find_method(member, name) for member in members]
    found = [method for method in methods if method is not None]
    return partial(_call_all, found) if len(found) == len(methods) else None


def _call_all(methods: Sequence[Callable[..., Any]], *arguments: Any) -> tuple[Any, ...]:
    return tuple(method(*arguments) for method in methods)
