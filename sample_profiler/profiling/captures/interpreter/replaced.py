"""Owns functions of others that are ours while a capture goes on, so that it learns of whoever is about to come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Replaced"]


class Replaced:
    """Functions that have been replaced in their modules, until they are put back."""

    def __init__(self) -> None:
        self._all: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
        """Put another function in the place of an attribute.

        Args:
            owner: a module.
            name: of its attribute.
            make: gets the function that is there, and returns the other one. That has to do what the first does, and
                no harm, also after it has been put back: whoever has it by then may keep it.
        """
        original = getattr(owner, name)
        own = make(original)
        setattr(owner, name, own)
        self._all.append((owner, name, original, own))

    def put_back(self) -> None:
        """Undo all of it, but for what somebody else has replaced meanwhile; doing so again does nothing."""
        while self._all:
            owner, name, original, own = self._all.pop()
            if getattr(owner, name, None) is own:
                setattr(owner, name, original)
