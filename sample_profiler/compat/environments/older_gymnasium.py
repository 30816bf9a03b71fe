"""Owns what code for Sample Factory expects of Gymnasium below 1.0: names of wrappers, games that register alone."""

from __future__ import annotations

import functools
import importlib
import sys
from importlib.util import find_spec
from typing import Any

import gymnasium
from gymnasium import wrappers

__all__ = ["supply_older_names"]

_NEW_NAMES = {
    "AutoResetWrapper": "Autoreset",
    "GrayScaleObservation": "GrayscaleObservation",
}
_OLDER_MODULES = (
    *("autoreset", "clip_action", "filter_observation", "flatten_observation", "frame_stack"),
    *("gray_scale_observation", "normalize", "order_enforcing", "record_episode_statistics", "record_video"),
    *("rescale_action", "resize_observation", "time_aware_observation", "time_limit"),
)
"""That had one wrapper each."""

_PLUGINS = ("ale_py", "shimmy")
"""What registered its environments by itself."""


class _FrameStack(wrappers.FrameStackObservation):
    """Shows the latest observations, with the arguments that it had."""

    def __init__(self, env: Any, num_stack: int, lz4_compress: bool = False) -> None:  # noqa: ARG002
        super().__init__(env, num_stack)


def _attribute_within(wrapper: Any, name: str) -> Any:
    """Return an attribute of what a wrapper is around, as each wrapper of Gymnasium below 1.0 did by itself."""
    if name.startswith("_") or "env" not in vars(wrapper):  # or it is being unpickled
        raise AttributeError(f"{type(wrapper).__name__} has no attribute {name!r}")
    return getattr(wrapper.env, name)


def supply_older_names() -> None:
    """Have wrappers, and their modules, found under their old names, and show what they wrap; all games known."""
    gymnasium.make = _make
    if not hasattr(gymnasium.Wrapper, "__getattr__"):
        gymnasium.Wrapper.__getattr__ = _attribute_within  # type: ignore[attr-defined]
    for old, new in _NEW_NAMES.items():
        if old not in vars(wrappers):
            setattr(wrappers, old, getattr(wrappers, new))
    if "FrameStack" not in vars(wrappers):
        wrappers.FrameStack = _FrameStack
    for module in _OLDER_MODULES:
        if find_spec(f"{wrappers.__name__}.{module}") is None:
            sys.modules[f"{wrappers.__name__}.{module}"] = wrappers


_make_known = gymnasium.make


@functools.wraps(_make_known)
def _make(*args: Any, **kwargs: Any) -> Any:
    try:
        return _make_known(*args, **kwargs)
    except (gymnasium.error.NameNotFound, gymnasium.error.NamespaceNotFound):
        found = [importlib.import_module(name) for name in _PLUGINS if find_spec(name) is not None]
        if not found:
            raise
        for module in found:
            gymnasium.register_envs(module)
        return _make_known(*args, **kwargs)
