"""Owns the dictionary whose entries are attributes: what Sample Factory's code is handed its options in."""

from __future__ import annotations

from typing import Any

__all__ = ["AttrDict"]


class AttrDict(dict[str, Any]):
    """A dictionary whose entries are its attributes, both to read and to write.

    So `cfg.rollout`, `cfg["rollout"]`, `"rollout" in cfg`, `cfg.get("rollout")`, `hasattr(cfg, "rollout")` and
    `vars(cfg)["rollout"]` are one and the same.
    """

    def __init__(self, *entries: Any, **further: Any) -> None:
        super().__init__(*entries, **further)
        self.__dict__ = self

    def __getattr__(self, name: str) -> Any:
        """Say that there is no such entry: all others have been found before this is asked."""
        raise AttributeError(f"there is no option {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)

    def __copy__(self) -> AttrDict:
        return type(self)(self)

    def copy(self) -> AttrDict:
        """Return another one with the same entries."""
        return type(self)(self)
