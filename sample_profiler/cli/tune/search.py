"""Owns the search for the best setting within a budget: which runs next, and what is known of all of them.

Successive halving (Jamieson and Talwalkar 2016, "Non-stochastic best arm identification and hyperparameter
optimization"): settings run once, the better half of them again, and so on; then what differs from the best in one
thing; in the end the best and the command as it is take turns. The command as it is runs in each round, too. So what a
setting is worth and how fast the machine was in a round are told apart by least squares: a machine that becomes slower
makes all settings of a round slower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sample_profiler.analysis.comparing.comparison import PairedComparison, compare_pairs
from sample_profiler.cli.tune.settings import Base, Setting, first_settings, neighbours, num_processes

__all__ = ["AS_IT_IS", "Measured", "Outcome", "Search", "worths"]

AS_IT_IS: Setting = ()
"""The command without further flags."""

MARGIN = 0.02
"""Differences up to this share do not matter: who is not faster by more gets no further flags, who is not slower by
more may have fewer processes."""

_FIRST_SHARE, _NEIGHBOUR_SHARE, _LEANER_SHARE = 0.45, 0.15, 0.15
_BETTER_SHARE, _BETTER_NEIGHBOURS = 0.5, 0.25
_WORTH_OF_A_FLAG = 0.006  # what each has to give: who wants a command line with flags that do nothing
_MOST_PAIRS = 8
_ALIKE = 0.1  # weight of the assumption that the machine is as fast in one round as in another


@dataclass(frozen=True)
class Measured:
    """A run of a setting.

    Attributes:
        setting: that ran.
        round: in which; those of one round ran right after one another.
        fps: frames per second.
    """

    setting: Setting
    round: int
    fps: float


@dataclass(frozen=True)
class Outcome:
    """What a search came to.

    Attributes:
        best: the setting that is worth most; `AS_IT_IS` if none is worth more.
        worths: of all settings, as multiples of the command as it is; the best first.
        comparison: of the best with the command as it is, where they took turns; None: they did not, or are the same.
        leaner: a setting with fewer processes that is as fast, within the margin; None: there is none.
        runs: all that were made.
        num_untried: settings for which the budget was too small.
        is_complete: whether the search came to its end before Ctrl+C.
    """

    best: Setting
    worths: Mapping[Setting, float]
    comparison: PairedComparison | None
    leaner: Setting | None
    runs: Sequence[Measured]
    num_untried: int
    is_complete: bool


class Search:
    """Searches.

    Args:
        base: what the command sets.
        measure: runs a setting, in a round; returns frames per second, or None if it cannot run.
        num_left: returns how many more runs the budget allows for.
        hints: flags that a verdict advises, the best first.
        earlier: runs that are there.
    """

    def __init__(
        self,
        base: Base,
        measure: Callable[[Setting, int], float | None],
        num_left: Callable[[], int],
        hints: Sequence[Mapping[str, object]] = (),
        earlier: Iterable[Measured] = (),
    ) -> None:
        self._base = base
        self._measure = measure
        self._num_left = num_left
        self._hints = hints
        self.runs = list(earlier)
        self._refused: set[Setting] = set()
        self._round = max((run.round for run in self.runs), default=0)
        self._is_complete = False

    def run(self) -> None:
        """Search until the end, or until the budget is used up. What is known so far, `outcome` tells at any time."""
        total = self._num_left()
        self._halve(
            self._new(first_settings(self._base, self._hints))[: max(1, round(_FIRST_SHARE * total))], _BETTER_SHARE
        )
        around = self._new(neighbours(self._base, self._ranked()[0]))
        self._halve(around[: round(_NEIGHBOUR_SHARE * total)], _BETTER_NEIGHBOURS)
        num_pairs = max(1, round((1 - _LEANER_SHARE) * self._num_left() / 2))
        self._take_turns(self._ranked()[0], min(_MOST_PAIRS, num_pairs))
        self._make_leaner()
        self._is_complete = True

    def outcome(self) -> Outcome:
        """Return what is known."""
        worth = worths(self.runs)
        ranked = dict(sorted(worth.items(), key=lambda item: -item[1]))
        best = self._ranked()[0]
        comparison = compare_pairs(pairs, MARGIN) if (pairs := self._pairs(best)) else None
        if worth.get(best, 1.0) < 1 + MARGIN or (comparison is not None and comparison.ratio < 1 + MARGIN):
            best, comparison = AS_IT_IS, None
        num_untried = len(self._new(first_settings(self._base)))
        leaner = self._leaner_than(best)
        return Outcome(best, ranked, comparison, leaner, self.runs, num_untried, self._is_complete)

    def _ranked(self) -> list[Setting]:
        """Return the settings that ran, the best first; who ran seldom, or has many flags, has to be better by more."""
        worth = worths(self.runs)
        counts = {setting: sum(run.setting == setting for run in self.runs) for setting in worth}

        def caution(setting: Setting) -> float:
            return worth[setting] * (1 - MARGIN / counts[setting]) * (1 - _WORTH_OF_A_FLAG) ** len(setting)

        return sorted(worth, key=caution, reverse=True) or [AS_IT_IS]

    def _new(self, settings: Iterable[Setting]) -> list[Setting]:
        known = {run.setting for run in self.runs} | self._refused
        return [setting for setting in settings if setting not in known]

    def _halve(self, settings: Sequence[Setting], share: float) -> None:
        """Run settings, then a share of them, the better ones, and so on, until there are one or two."""
        left = list(settings)
        while left:
            self._run_round(left)
            ran = {run.setting for run in self.runs}
            order = [setting for setting in self._ranked() if setting in left and setting in ran]
            if len(left) <= 2 or self._num_left() < len(left):
                return
            left = order[: max(1, round(share * len(left)))]

    def _run_round(self, settings: Sequence[Setting]) -> None:
        """Run some settings once and, among them, the command as it is and the best so far."""
        self._round += 1
        best = self._ranked()[0]
        others = [setting for setting in settings if setting not in (AS_IT_IS, best)]
        for setting in dict.fromkeys([AS_IT_IS, *others, *([best] if best != AS_IT_IS else [])]):
            self._run(setting)

    def _run(self, setting: Setting) -> None:
        if self._num_left() <= 0 or setting in self._refused:
            return
        fps = self._measure(setting, self._round)
        if fps:
            self.runs.append(Measured(setting, self._round, fps))
        elif setting != AS_IT_IS:
            self._refused.add(setting)

    def _take_turns(self, best: Setting, num_pairs: int, other: Setting = AS_IT_IS) -> None:
        if best == other:
            return
        for number in range(num_pairs):
            if self._num_left() < 2:
                return
            self._round += 1
            for setting in (other, best) if number % 2 == 0 else (best, other):
                self._run(setting)

    def _make_leaner(self) -> None:
        """Look whether fewer workers do as well as the best."""
        best = self._ranked()[0]
        fewer = [
            setting
            for setting in neighbours(self._base, best)
            if num_processes(self._base, setting) < num_processes(self._base, best)
        ]
        if fewer:
            self._take_turns(fewer[0], self._num_left() // 2, best)

    def _leaner_than(self, best: Setting) -> Setting | None:
        worth = worths(self.runs)
        size = num_processes(self._base, best)
        found = [
            setting
            for setting in worth
            if num_processes(self._base, setting) < size and worth[setting] >= worth.get(best, 1.0) * (1 - MARGIN)
        ]
        return min(found, key=lambda each: (num_processes(self._base, each), -worth[each]), default=None)

    def _pairs(self, best: Setting) -> list[tuple[float, float]]:
        """Return the figures of the command as it is and of the best in the rounds that have both."""
        if best == AS_IT_IS:
            return []
        fps = {(run.round, run.setting): run.fps for run in self.runs}
        rounds = sorted({run.round for run in self.runs})
        return [
            (fps[number, AS_IT_IS], fps[number, best])
            for number in rounds
            if (number, AS_IT_IS) in fps and (number, best) in fps
        ]


def worths(runs: Sequence[Measured]) -> dict[Setting, float]:
    """Return how fast each setting is, as a multiple of the command as it is; nothing if that has not run.

    The logarithm of a figure is that of the setting and that of the round together, by least squares. Rounds are taken
    to be alike as far as the figures do not say otherwise, so that one in which the command itself did not run says
    something, too.

    Args:
        runs: of some settings.
    """
    settings = list(dict.fromkeys(run.setting for run in runs))
    rounds = list(dict.fromkeys(run.round for run in runs))
    if AS_IT_IS not in settings:
        return {}
    columns = [setting for setting in settings if setting != AS_IT_IS]
    table = np.zeros((len(runs) + len(rounds), len(columns) + len(rounds) + 1))
    figures = np.zeros(len(table))
    for row, run in enumerate(runs):
        if run.setting != AS_IT_IS:
            table[row, columns.index(run.setting)] = 1.0
        table[row, len(columns) + rounds.index(run.round)] = table[row, -1] = 1.0
        figures[row] = math.log(run.fps)
    for number in range(len(rounds)):
        table[len(runs) + number, len(columns) + number] = _ALIKE
    solved = np.linalg.lstsq(table, figures, rcond=None)[0]
    return {AS_IT_IS: 1.0} | {setting: math.exp(solved[index]) for index, setting in enumerate(columns)}
