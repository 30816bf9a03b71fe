"""What a faster stage would give, from what a slower one costs.

A stage is made slower by a known share of its own time, and how much longer a frame takes then is measured. If a frame
takes x of its time longer for each 1 of the stage's, the stage has the weight x: one that is on the way of every frame
and shares it with nobody has 1, one that is always waited for by nobody has 0. Making it faster gives back in the same
proportion, as long as nothing else becomes the limit (Curtsinger and Berger 2015, "Coz: finding code that counts with
causal profiling", where everything else is slowed instead).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

__all__ = ["StageWeight", "gain", "stage_weight"]

_NUM_DRAWS = 4000


@dataclass(frozen=True)
class StageWeight:
    """How much of the time of a frame hangs on a stage.

    Attributes:
        stage: its name.
        weight: 0 to about 1.
        low, high: ends of its 95 % bootstrap interval.
        num_pairs: that it rests on.
    """

    stage: str
    weight: float
    low: float
    high: float
    num_pairs: int


def stage_weight(stage: str, pairs: Sequence[tuple[float, float]], share: float) -> StageWeight:
    """Return the weight of a stage.

    Args:
        stage: its name.
        pairs: throughput without and with the slowdown, taken one after the other.
        share: of the stage's own time that was added.

    Raises:
        ValueError: there are no pairs, or no slowdown.
    """
    if not pairs or share <= 0:
        raise ValueError("a weight takes pairs of measurements, and a slowdown above 0")
    weights = [(base / slowed - 1) / share for base, slowed in pairs]
    draw = random.Random(1)
    means = sorted(fmean(draw.choices(weights, k=len(weights))) for _ in range(_NUM_DRAWS))
    low, high = means[round(0.025 * (_NUM_DRAWS - 1))], means[round(0.975 * (_NUM_DRAWS - 1))]
    return StageWeight(stage, fmean(weights), low, high, len(weights))


def gain(weight: float, speedup: float) -> float:
    """Return by which share throughput grows if a stage of this weight becomes `speedup` times as fast."""
    left = 1 - min(max(weight, 0.0), 1.0) * (1 - 1 / speedup)
    return 1 / left - 1 if left > 0 else math.inf
