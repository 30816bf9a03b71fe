"""Owns what code for Sample Factory expects of Gymnasium below 1.0: names of wrappers, games that register alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import gymnasium
from gymnasium import wrappers

__all__ = ["made_with_plugins", "supply_older_names"]

_NEW_NAMES = {
    "AutoResetWrapper": "Autoreset",
    "FrameStack": "FrameStackObservation",
    "GrayScaleObservation": "GrayscaleObservation",
}
_PLUGINS = ("ale_py", "shimmy")
"""What registered its environments by itself."""


def supply_older_names() -> None:
    """Have wrappers found under the names that they had."""
    for old, new in _NEW_NAMES.items():
        if old not in vars(wrappers):
            setattr(wrappers, old, getattr(wrappers, new))


def made_with_plugins(make: Callable[[], Any]) -> Any:
    """Make an environment; once more, with all games registered, if Gymnasium does not know one.

    Args:
        make: Makes it.
    """
    try:
        return make()
    except (gymnasium.error.NameNotFound, gymnasium.error.NamespaceNotFound):
        found = [importlib.import_module(name) for name in _PLUGINS if find_spec(name) is not None]
        if not found:
            raise
        for module in found:
            gymnasium.register_envs(module)
        return make()
