"""Whether one setting is faster than another, from pairs of runs that took turns.

Each pair gives the logarithm of a ratio, so a machine that slows down in the course of a comparison slows both down.
That the two are alike is tested by flipping signs: if they are, each pair could as well have come out the other way
round (Fisher 1935, "The design of experiments", section 21). The 95 % interval has all differences that this test
does not rule out; its ends are means of subsets of the pairs (Hartigan 1969, "Using subsample values as typical
values"). Fewer than six pairs rule nothing out, so they have none. Nothing is assumed about how run times are
distributed but that pairs are off to both sides alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from statistics import NormalDist, fmean, stdev
from typing import Literal

import numpy as np

__all__ = ["LEVEL", "MOST_EXACT", "Outcome", "PairedComparison", "compare_pairs", "holm", "sign_flip_p_value"]

Outcome = Literal["higher", "lower", "equivalent", "inconclusive"]
"""Of B against A; "equivalent": the difference is smaller than the margin, whether or not there is one."""

LEVEL = 0.05
"""P-values below it tell settings apart."""

MOST_EXACT = 20
"""Pairs up to which the test tries every way to flip their signs, a million; with more it draws some of them."""

_POWER = 0.8
_NUM_DRAWS = 10_000


@dataclass(frozen=True)
class PairedComparison:
    """B against A.

    Attributes:
        ratio: B / A, geometric mean over the pairs.
        interval: ends of its 95 % interval; None: fewer than six pairs have none.
        p_value: of the sign-flip test, drawn if there are more than `MOST_EXACT` pairs; with several quantities
            corrected by `holm`.
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
    pairs: Sequence[tuple[float, float]], margin: float = 0.02, p_value: float | None = None, num_tests: int = 1
) -> PairedComparison:
    """Compare two settings. What is surely within the margin is equivalent, also if it is surely a difference.

    Args:
        pairs: figures of A and B, all above 0, of runs that took turns.
        margin: differences up to this share do not matter.
        p_value: instead of that of this comparison alone, such as one corrected by `holm`.
        num_tests: for how many quantities it is corrected; more of them take more pairs.

    Raises:
        ValueError: there are no pairs, or figures that are not above 0.
    """
    if not pairs:
        raise ValueError("there are no pairs to compare")
    if not all(value > 0 and math.isfinite(value) for pair in pairs for value in pair):
        raise ValueError(f"figures have to be above 0: {list(pairs)}")
    logs = [math.log(b / a) for a, b in pairs]
    flips = _SignFlips(logs)
    interval = flips.interval()
    p_value = flips.p_value() if p_value is None else p_value
    mean = fmean(logs)
    outcome: Outcome = "inconclusive"
    if interval is not None and 1 - margin < interval[0] and interval[1] < 1 + margin:
        outcome = "equivalent"
    elif p_value < LEVEL:
        outcome = "higher" if mean > 0 else "lower"
    more = _num_more(logs, margin, num_tests) if outcome == "inconclusive" else 0
    return PairedComparison(math.exp(mean), interval, p_value, outcome, len(logs), more)


def sign_flip_p_value(differences: Sequence[float]) -> float:
    """Return how often a sum is at least as far from 0 if each difference could as well have the other sign."""
    return _SignFlips(differences).p_value()


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for being several (Holm 1979, "A simple sequentially rejective … procedure")."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


class _SignFlips:
    """Ways to flip signs, by the subset of the pairs whose signs are flipped: the empty one, then others.

    Args:
        logs: of the ratios of the pairs, or other differences.
    """

    def __init__(self, logs: Sequence[float]) -> None:
        self._total = math.fsum(logs)
        self._rounding = 1e-12 * math.fsum(map(abs, logs))
        self._sums, self._sizes = np.zeros(1), np.zeros(1)
        if len(logs) <= MOST_EXACT:
            for value in logs:
                self._sums = np.concatenate([self._sums, self._sums + value])
                self._sizes = np.concatenate([self._sizes, self._sizes + 1])
        else:
            is_flipped = np.random.default_rng(1).random((_NUM_DRAWS, len(logs))) < 0.5
            self._sums = np.concatenate([self._sums, is_flipped @ np.array(logs)])
            self._sizes = np.concatenate([self._sizes, is_flipped.sum(axis=1)])

    def p_value(self) -> float:
        """Return the share of them that take the sum at least as far from 0 as it is."""
        flipped = np.abs(self._total - 2 * self._sums)
        return float(np.mean(flipped >= abs(self._total) - self._rounding))

    def interval(self) -> tuple[float, float] | None:
        """Return the lowest and the highest ratio that the test does not reject; None: it rejects none."""
        # Means of subsets are where the p-value changes, by the share of one subset on each side.
        is_any = self._sizes > 0
        rank = math.floor(LEVEL / 2 * len(self._sums))
        if rank < 1:
            return None
        means = np.sort(self._sums[is_any] / self._sizes[is_any])
        return math.exp(means[rank - 1]), math.exp(means[-rank])


def _num_more(logs: Sequence[float], margin: float, num_tests: int) -> int:
    """Return about how many more pairs tell the mean from 0, or show it to be within the margin, in 8 of 10 cases.

    That is the usual sample size of a paired comparison, (1.96 + 0.84)² (deviation / difference)² for a level of 5 %,
    both sides together, and a power of 80 % (Cohen 1988, "Statistical power analysis for the behavioral sciences"). The
    level is divided by the number of tests, and 1.96² / 2 is added since the deviation is an estimate, too (Guenther
    1981, "Sample size formulas for normal theory t tests"). There are at least so many pairs that the test could tell.
    """
    # The smallest p-value of a test is 2 / 2 ** pairs, of the first of several tests that much times their number.
    least = next(number for number in count(1) if num_tests / 2 ** (number - 1) < LEVEL)
    if len(logs) < 2:
        return least - len(logs)
    normal = NormalDist()
    level, power = normal.inv_cdf(1 - LEVEL / 2 / num_tests), normal.inv_cdf(_POWER)
    mean = abs(fmean(logs))
    difference = max(mean, math.log1p(margin) - mean)
    needed = math.ceil(((level + power) * stdev(logs) / difference) ** 2 + level**2 / 2)
    return max(1, max(needed, least) - len(logs))
