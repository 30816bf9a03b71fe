"""Owns what is said of an environment: findings with their evidence and their cure, each kind told once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["GRADES", "Finding", "Findings", "Grade"]

Grade = Literal["error", "warning", "note"]

GRADES: tuple[Grade, ...] = ("error", "warning", "note")
"""What a run breaks or learns nonsense of; what costs it speed, memory or its reproducibility; what is worth a look."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with an environment.

    Attributes:
        grade: how bad that is.
        name: of the kind, in a word or two.
        text: what is wrong, in a sentence without a full stop.
        evidence: what was seen.
        cure: what to do about it.
        count: how often it was seen.
    """

    grade: Grade
    name: str
    text: str
    evidence: str
    cure: str
    count: int = 1


class Findings:
    """Findings in the order in which they were made; one that is made again is counted.

    Args:
        tell: is called with each that is new, at once: what comes next may end the process.
    """

    def __init__(self, tell: Callable[[Finding], None] = lambda _: None) -> None:
        self._tell = tell
        self._found: dict[tuple[str, str], Finding] = {}

    def add(self, finding: Finding, key: str = "") -> None:
        """Note a finding.

        Args:
            finding: that was made.
            key: tells several of one name apart.
        """
        earlier = self._found.get((finding.name, key))
        if earlier is None:
            self._found[finding.name, key] = finding
            self._tell(finding)
        else:
            self._found[finding.name, key] = replace(earlier, count=earlier.count + 1)

    def drop(self, name: str) -> None:
        """Take back what is found of that name: it has a cause that is told by itself."""
        self._found = {key: finding for key, finding in self._found.items() if key[0] != name}

    def has(self, name: str) -> bool:
        """Tell whether there is a finding of that name."""
        return any(name == found for found, _ in self._found)

    def list(self) -> list[Finding]:
        """Return all of them, the worst first."""
        return sorted(self._found.values(), key=lambda finding: GRADES.index(finding.grade))
