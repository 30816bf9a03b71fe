"""Where the level of a figure over time changes: split in two again and again, as long as that is beyond its noise.

The figure's values are noisy, have neighbours that are alike, and now and then one that is far off. So single values
that are far from their neighbours count for no more than others (`_clip`), and a difference of means is compared with
the noise of a mean of values that hang together: the *long-run* deviation, of an autoregressive process of first order
around a line in each of the two parts. With lines, a slow slope is no noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["MAD", "ChangePoint", "Values", "find_change_points"]

_SIGNIFICANT = 5.0
"""Long-run deviations from which on a difference of two means is one, and more where values are few. Of simulated
series of 20 and of 45 values around one level, one in fifty or fewer is split where neighbours correlate by 0.4, with
heavy tails, too, and one in ten by 0.7."""

_OF_FEW = 8.0  # values: of so many twice that, for their noise is not known well
_NEIGHBOURS = 2  # on each side
_FAR = 4.0  # deviations from neighbours
MAD = 1.4826  # a median of deviations, of normal noise, is that much less than its standard deviation
_MOST_ALIKE = 0.9  # correlation of neighbours
_LIKELIHOOD = 7.35
"""Twice the logarithm of the likelihood ratio that the place of a change in a mean has with a chance of 0.95: where
``(1 - exp(-x / 2))² = 0.95`` (Eo and Morley 2015, Quantitative Economics 6, "Likelihood-ratio-based confidence sets for
the timing of structural breaks")."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ChangePoint:
    """Where a level begins.

    Attributes:
        index: of its first value.
        earliest, latest: between which that lies with a chance of 95 %.
    """

    index: int
    earliest: int
    latest: int


_NOWHERE = ChangePoint(0, 0, 0)


def find_change_points(values: Values, fewest: int = 5) -> list[ChangePoint]:
    """Return where levels begin, but the first one, in order.

    Args:
        values: `[n]`, finite, at even distances in time.
        fewest: values of each level.
    """
    clipped = _clip(values)
    found: list[ChangePoint] = []
    parts = [(0, len(values))]
    while parts:
        begin, end = parts.pop()
        intervals = [(begin + first, begin + last) for first, last in _intervals(end - begin, 2 * fewest)]
        splits = [(*_split(clipped[first:last], fewest), first) for first, last in intervals]
        strength, point, first = max(splits, key=lambda split: split[0], default=(0.0, _NOWHERE, 0))
        if strength > 1:
            found.append(ChangePoint(first + point.index, first + point.earliest, first + point.latest))
            parts += [(begin, first + point.index), (first + point.index, end)]
    return sorted(found, key=lambda point: point.index)


def _intervals(num: int, fewest: int) -> Iterator[tuple[int, int]]:
    """Yield where parts of so many values begin and end: all of them, and ever shorter ones, which overlap by half.

    A level that comes back after a while changes no mean before or after any one place of the whole; it does in a part
    (Kovács et al. 2023, Biometrika 110, "Seeded binary segmentation").
    """
    length = float(num)
    while length >= max(fewest, num / 4):
        number = max(1, 2 * math.ceil(num / length) - 1)
        for place in range(number):
            begin = round(place * (num - length) / max(1, number - 1))
            yield begin, min(num, begin + math.ceil(length))
        length /= math.sqrt(2)


def _clip(values: Values) -> Values:
    """Return values none of which is farther from the median of its neighbours than most are."""
    if len(values) <= 2 * _NEIGHBOURS:
        return values
    padded = np.pad(values, _NEIGHBOURS, mode="edge")
    medians = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOURS + 1), axis=1)
    apart = values - medians
    most = _FAR * MAD * float(np.median(np.abs(apart)))
    return medians + np.clip(apart, -most, most)


def _split(values: Values, fewest: int) -> tuple[float, ChangePoint]:
    """Return the best place to split values in two, and by how many times it is beyond what noise does."""
    num = len(values)
    sums = np.cumsum(values)
    lengths = np.arange(fewest, num - fewest + 1)
    before, after = sums[lengths - 1] / lengths, (sums[-1] - sums[lengths - 1]) / (num - lengths)
    differences = np.abs(after - before) * np.sqrt(lengths * (num - lengths) / num)
    best = int(differences.argmax())
    noise = _long_run_deviation(values, int(lengths[best]))
    strength = float(differences[best]) / max(1e-12, _SIGNIFICANT * (1 + _OF_FEW / num) * noise)
    likely = lengths[differences**2 >= differences[best] ** 2 - _LIKELIHOOD * noise**2]
    return strength, ChangePoint(int(lengths[best]), int(likely[0]), int(likely[-1]))


def _long_run_deviation(values: Values, split: int) -> float:
    """Return the standard deviation of a mean of values times the root of their number, around a line on each side."""
    parts = [part - _line(part) for part in (values[:split], values[split:])]
    residuals = np.concatenate(parts)
    total = float(residuals @ residuals)
    if total <= 1e-18 * float(values @ values):
        return 0.0
    alike = sum(float(part[1:] @ part[:-1]) for part in parts) / total
    # Lines that were fitted, and few values, make neighbours seem less alike than they are.
    alike = min(_MOST_ALIKE, max(0.0, alike + 4 * (1 + alike) / len(values)))
    return math.sqrt(total / max(1, len(values) - 4) * (1 + alike) / (1 - alike))


def _line(values: Values) -> Values:
    places = np.arange(len(values)) - (len(values) - 1) / 2
    slope = float(places @ values) / max(1e-9, float(places @ places))
    fitted: Values = values.mean() + slope * places
    return fitted
