"""Finds methods of an environment that are no part of its contract, through whatever is wrapped around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from gymnasium.vector import VectorEnv

__all__ = ["find_method"]

_MOST_LAYERS = 100  # one that says it wraps itself would be looked through for ever
_INNER = ("env", "_vector", "_env")  # of gymnasium's wrappers, and of ours around vectors


def find_method(env: Any, name: str) -> Callable[..., Any] | None:
    """Return a method of an environment, from the outermost layer that has it; None: it has none.

    Of Gymnasium's vectors without such a method of their own it is that of all members.

    Args:
        env: what the registered function returned, or a view of it.
        name: of the method.
    """
    for layer in _layers_of(env):
        method: Callable[..., Any] | None = getattr(layer, name, None)
        if callable(method):
            return method
        if isinstance(layer, VectorEnv) and not hasattr(layer, "env") and _members_have(layer, name):
            return partial(layer.call, name)  # type: ignore[attr-defined]
    return None


def _layers_of(env: Any) -> Iterator[Any]:
    for _ in range(_MOST_LAYERS):
        yield env
        inner = next((each for each in (getattr(env, name, None) for name in _INNER) if each is not None), None)
        if inner is None:
            return
        env = inner


def _members_have(vector: VectorEnv[Any, Any, Any], name: str) -> bool:
    """Tell whether the members of a vector have a method; where they cannot be looked at, calling it will tell."""
    members = getattr(vector, "envs", None)
    if not hasattr(vector, "call"):
        return False
    return members is None or all(find_method(member, name) is not None for member in members)
