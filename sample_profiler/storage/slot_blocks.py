"""Owns how slots that come back become blocks again, as groups that write into one block each take them."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["SlotBlocks"]


class SlotBlocks:
    """Slots that have come back, of blocks that others are still missing of.

    Groups finish their blocks whole, one after another, and datasets are made in that order: so as many blocks are
    whole as there are slots for. Only what a lost worker has left behind may lie scattered; it is taken as it comes.

    Args:
        block_size: how many neighbouring slots one group takes; block b begins with slot b * block_size.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._parts: dict[int, list[int]] = {}

    def add(self, slots: Iterable[int]) -> list[int]:
        """Take slots back, and return those that may be taken by groups, whole blocks one after another."""
        if self._block_size == 1:
            return list(slots)
        whole: list[int] = []
        for slot in slots:
            part = self._parts.setdefault(slot // self._block_size, [])
            part.append(slot)
            if len(part) == self._block_size:
                whole += sorted(self._parts.pop(slot // self._block_size))
        return whole or self._take_scattered()

    def held(self) -> list[int]:
        """Return the slots that nobody may take yet."""
        return [slot for part in self._parts.values() for slot in part]

    def _take_scattered(self) -> list[int]:
        """Return slots of several blocks, if there are enough for a group."""
        held = self.held()
        if len(held) < self._block_size:
            return []
        self._parts.clear()
        return held[: self._block_size] + self.add(held[self._block_size :])
