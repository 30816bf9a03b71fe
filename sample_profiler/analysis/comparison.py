"""Whether one setting is faster than another, from pairs of runs that took turns.

Each pair gives the logarithm of a ratio, so a machine that slows down in the course of a comparison slows both down.
That the two are alike is tested by flipping signs: if they are, each pair could as well have come out the other way
round (Fisher 1935, "The design of experiments", section 21). Nothing is assumed about how run times are distributed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, stdev
from typing import Literal

__all__ = ["Outcome", "PairedComparison", "compare_pairs", "holm"]

Outcome = Literal["higher", "lower", "equivalent", "inconclusive"]
"""Of B against A; "equivalent": the difference is smaller than the margin."""

LEVEL = 0.05
_MOST_EXACT = 14  # pairs: 16,384 ways to flip their signs
_NUM_DRAWS = 10_000
_NORMAL_QUANTILE = 1.96


@dataclass(frozen=True)
class PairedComparison:
    """B against A.

    Attributes:
        ratio: B / A, geometric mean over the pairs.
        interval: ends of its 95 % bootstrap interval; None: one pair has none.
        p_value: of the sign-flip test; with several quantities corrected by `holm`.
        outcome: in one word.
        num_pairs: that it rests on.
        num_more: further pairs that are probably needed to tell; 0 unless inconclusive.
    """

    ratio: float
    interval: tuple[float, float] | None
    p_value: float
    outcome: Outcome
    num_pairs: int
    num_more: int


def compare_pairs(
    pairs: Sequence[tuple[float, float]], margin: float = 0.02, p_value: float | None = None
) -> PairedComparison:
    """Compare two settings.

    Args:
        pairs: figures of A and B, all above 0, of runs that took turns.
        margin: differences up to this share do not matter.
        p_value: instead of that of this comparison alone, such as one corrected by `holm`.

    Raises:
        ValueError: there are no pairs, or figures that are not above 0.
    """
    if not pairs:
        raise ValueError("there are no pairs to compare")
    if not all(value > 0 and math.isfinite(value) for pair in pairs for value in pair):
        raise ValueError(f"figures have to be above 0: {list(pairs)}")
    logs = [math.log(b / a) for a, b in pairs]
    interval = _bootstrap(logs) if len(logs) > 1 else None
    p_value = sign_flip_p_value(logs) if p_value is None else p_value
    mean = fmean(logs)
    outcome: Outcome = "inconclusive"
    if p_value < LEVEL:
        outcome = "higher" if mean > 0 else "lower"
    elif interval is not None and 1 - margin < interval[0] and interval[1] < 1 + margin:
        outcome = "equivalent"
    more = _num_more(logs, margin) if outcome == "inconclusive" else 0
    return PairedComparison(math.exp(mean), interval, p_value, outcome, len(logs), more)


def sign_flip_p_value(logs: Sequence[float]) -> float:
    """Return how probable a mean at least as far from 0 is if signs are arbitrary: exact up to 14 pairs."""
    observed = abs(sum(logs)) * (1 - 1e-12)
    if len(logs) <= _MOST_EXACT:
        # The first sign may stay: flipping all of them changes nothing but the side.
        sums = (
            sum(map(math.prod, zip((1, *signs), logs, strict=True))) for signs in product((1, -1), repeat=len(logs) - 1)
        )
        hits = [abs(total) >= observed for total in sums]
        return sum(hits) / len(hits)
    draw = random.Random(1)
    num_hits = sum(
        abs(sum(value if draw.random() < 0.5 else -value for value in logs)) >= observed for _ in range(_NUM_DRAWS)
    )
    return (num_hits + 1) / (_NUM_DRAWS + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for being several (Holm 1979, "A simple sequentially rejective … procedure")."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def _bootstrap(logs: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a 95 % interval for the geometric mean of the ratios."""
    draw = random.Random(1)
    means = sorted(fmean(draw.choices(logs, k=len(logs))) for _ in range(_NUM_DRAWS // 2))
    return math.exp(means[round(0.025 * (len(means) - 1))]), math.exp(means[round(0.975 * (len(means) - 1))])


def _num_more(logs: Sequence[float], margin: float) -> int:
    """Return about how many more pairs would tell the mean from 0, or show that it is within the margin."""
    if len(logs) < 2:
        return 5
    # Fewer than 6 pairs cannot be significant, however clear they are.
    wanted = max(abs(fmean(logs)), math.log1p(margin) / 2)
    needed = math.ceil((_NORMAL_QUANTILE * stdev(logs) / wanted) ** 2)
    return max(1, max(needed, 6) - len(logs))
