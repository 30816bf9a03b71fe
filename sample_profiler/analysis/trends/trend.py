"""What is said of a change over the time of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Trend", "TrendCause"]

TrendCause = Literal[
    "throttling",
    "another program",
    "slower processors",
    "episodes",
    "environments",
    "slow worker",
    "inference",
    "batching",
    "learner",
    "memory leak",
    "unknown",
]
"""What changed with a figure."""


@dataclass(frozen=True)
class Trend:
    """A figure that changed over the time of a run.

    Attributes:
        cause: in one term.
        component: whom it concerns; of several the first one; empty: nobody in particular.
        headline: since when, by how much, and what changed with it, in one sentence.
        evidence: what shows it, one sentence each.
        advice: what to do; empty: nothing.
        ratio: of the figure afterwards to before.
        begin_s: when it began, in seconds since the run did.
    """

    cause: TrendCause
    component: str
    headline: str
    evidence: tuple[str, ...]
    advice: str
    ratio: float
    begin_s: float
