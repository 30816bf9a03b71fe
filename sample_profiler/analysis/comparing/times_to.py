"""Whether one setting reaches something sooner than another, from pairs of runs some of which never did.

A run that ended without is censored: it would have taken longer than it went on, nobody knows how much. So runs are
compared as far as that can be known: each scores one for each other run that it took surely longer than, and minus one
for each that took surely longer (Gehan 1965, "A generalized Wilcoxon test for comparing arbitrarily singly-censored
samples"). That the two settings are alike is tested by exchanging the runs of a pair, that is by flipping the signs of
the differences of their scores, as `comparison` does (for pairs: O'Brien and Fleming 1987, "A paired Prentice-Wilcoxon
test for censored paired data"). It rests on nothing but that both runs of a pair were allowed to go on for as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sample_profiler.analysis.comparing.comparison import (
    LEVEL,
    Outcome,
    PairedComparison,
    compare_pairs,
    sign_flip_p_value,
)

__all__ = ["TimeTo", "TimesComparison", "compare_times", "median_time"]


@dataclass(frozen=True)
class TimeTo:
    """When a run reached what it was to reach.

    Attributes:
        seconds: until then; of a run that has not, how long it went on.
        frames: the same.
        is_reached: whether it has.
    """

    seconds: float
    frames: int
    is_reached: bool

    def surely_exceeds(self, other: TimeTo) -> bool:
        """Return whether this run took longer than another, as far as is known."""
        if not other.is_reached:
            return False
        return self.seconds > other.seconds or (not self.is_reached and self.seconds == other.seconds)


@dataclass(frozen=True)
class TimesComparison:
    """B against A.

    Attributes:
        medians: of the seconds of A and of B (`median_time`).
        median_frames: the same of the frames.
        num_reached: runs of A and of B that have reached it.
        num_pairs: that it rests on.
        p_value: of the exchange of runs within pairs, by their scores.
        outcome: "higher": B takes longer; "equivalent" only if all runs have reached it.
        ratios: B / A in seconds; None unless all runs have reached it.
    """

    medians: tuple[float | None, float | None]
    median_frames: tuple[float | None, float | None]
    num_reached: tuple[int, int]
    num_pairs: int
    p_value: float
    outcome: Outcome
    ratios: PairedComparison | None


def compare_times(pairs: Sequence[tuple[TimeTo, TimeTo]], margin: float = 0.02) -> TimesComparison:
    """Compare two settings.

    Args:
        pairs: of runs of A and B that took turns.
        margin: differences of seconds up to this share do not matter.

    Raises:
        ValueError: there are no pairs.
    """
    if not pairs:
        raise ValueError("there are no pairs to compare")
    runs = [run for pair in pairs for run in pair]
    score_changes = [_score(b, runs) - _score(a, runs) for a, b in pairs]
    p_value = sign_flip_p_value(score_changes)
    ratios = None
    if all(run.is_reached for run in runs):
        ratios = compare_pairs([(a.seconds, b.seconds) for a, b in pairs], margin, p_value)
    outcome: Outcome = "inconclusive"
    if ratios is not None and ratios.outcome == "equivalent":
        outcome = "equivalent"
    elif p_value < LEVEL:
        outcome = "higher" if sum(score_changes) > 0 else "lower"
    sides = [[pair[which] for pair in pairs] for which in (0, 1)]
    seconds = [median_time([(run.seconds, run.is_reached) for run in side]) for side in sides]
    frames = [median_time([(run.frames, run.is_reached) for run in side]) for side in sides]
    num_reached = [sum(run.is_reached for run in side) for side in sides]
    return TimesComparison(
        (seconds[0], seconds[1]), (frames[0], frames[1]), (num_reached[0], num_reached[1]), len(pairs), p_value,
        outcome, ratios,
    )  # fmt: skip


def median_time(times: Sequence[tuple[float, bool]]) -> float | None:
    """Return the time by which half of all runs have reached something (Kaplan and Meier 1958); None: not yet half.

    Where all have, that is their lower median.

    Args:
        times: of each run the time until then and True, or for how long it went on without and False.
    """
    surviving = 1.0
    for time in sorted({time for time, is_reached in times if is_reached}):
        num_at_risk = sum(other >= time for other, _ in times)
        surviving *= 1 - sum(each == (time, True) for each in times) / num_at_risk
        if surviving <= 0.5 + 1e-12:
            return time
    return None


def _score(run: TimeTo, runs: Sequence[TimeTo]) -> int:
    return sum(run.surely_exceeds(other) - other.surely_exceeds(run) for other in runs)
