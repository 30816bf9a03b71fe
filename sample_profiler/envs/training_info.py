"""How far the training is, for environments that want to know: whoever has a method ``set_training_info`` is told.

That may be a wrapper, the environment inside, or members of a vector; all of them are told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

__all__ = ["TRAINING_STEPS", "find_listeners", "training_info"]

TRAINING_STEPS = "approx_total_training_steps"
"""Key of the frames that the policy has been trained on, earlier starts of the run included."""

_METHOD = "set_training_info"
_MOST_LAYERS = 1000
_INNER = ("env", "_vector", "_env")  # of gymnasium's wrappers, and of ours around vectors

Listener = Callable[[Mapping[str, Any]], Any]


def training_info(num_frames: int) -> dict[str, Any]:
    """Return what environments are told.

    Args:
        num_frames: that the policy has been trained on.
    """
    return {TRAINING_STEPS: int(num_frames)}


def find_listeners(env: Any) -> list[Listener]:
    """Return the methods ``set_training_info`` of an environment, of all that it is wrapped in and of vectors' members.

    Args:
        env: The outermost wrapper.
    """
    found: dict[int, Listener] = {}  # by whom they are of: a wrapper may pass on the method of what is inside
    for layer in _layers(env):
        members = getattr(layer, "envs", None)
        method = getattr(layer, _METHOD, None)
        if callable(method):
            found.setdefault(id(getattr(method, "__self__", method)), method)
        elif isinstance(members, list | tuple):
            found |= {id(member): member for each in members for member in find_listeners(each)}
        elif callable(getattr(layer, "call_async", None)) and all(layer.call("has_wrapper_attr", _METHOD)):
            found[id(layer)] = partial(layer.call, _METHOD)  # of gymnasium's members in processes of their own
    return list(found.values())


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
