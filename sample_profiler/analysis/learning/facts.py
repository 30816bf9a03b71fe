"""What is known of how the training of a policy goes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from sample_profiler.profiling.session.session import Session
from sample_profiler.vocabulary import LEARNING_FIGURES

__all__ = ["RETURNS", "RETURN_DEVIATION", "LearningFacts", "learning_facts"]

_FEWEST = 4  # of the points of a figure: two seconds apart
RETURNS, RETURN_DEVIATION = "episode_return", "episode_return_deviation"
_EPISODES = (RETURNS, RETURN_DEVIATION, "episode_length")
_OF_POLICY, _DEVIATION = "_policy_", "_deviation"


@dataclass(frozen=True)
class LearningFacts:
    """The training of one policy.

    Attributes:
        policy: its number.
        figures: of `vocabulary.LEARNING_FIGURES`, and return of episodes, its deviation and their length, over time,
            by name.
        config: values of the run's flags.
    """

    policy: int
    figures: Mapping[str, Sequence[float]]
    config: Mapping[str, Any]

    def late(self, name: str) -> float | None:
        """Return the median of the second half of a figure; None: too little is known."""
        values = self.figures.get(name, ())
        return median(values[len(values) // 2 :]) if len(values) >= _FEWEST else None

    def early(self, name: str) -> float | None:
        """Return the median of the first quarter of a figure; None: too little is known."""
        values = self.figures.get(name, ())
        return median(values[: max(1, len(values) // 4)]) if len(values) >= _FEWEST else None

    def largest(self, name: str, share: float = 0.25) -> float | None:
        """Return what a figure reaches in this share of its points; None: too little is known."""
        values = sorted(self.figures.get(name, ()), reverse=True)
        return values[int(share * len(values))] if len(values) >= _FEWEST else None

    def flag(self, name: str, default: float) -> float:
        """Return a flag that is a number, or a default where it is not known."""
        value = self.config.get(name)
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else default

    @property
    def steps_per_dataset(self) -> float:
        """How many optimizer steps a dataset is trained on with."""
        return max(1.0, self.flag("num_epochs", 1) * self.flag("num_batches_per_epoch", 1))

    @property
    def episode_steps(self) -> float | None:
        """How many steps of an agent an episode lasts; None: it is not known."""
        frames = self.late("episode_length")
        return None if frames is None else frames / max(1.0, self.flag("env_frameskip", 1))


def learning_facts(session: Session) -> list[LearningFacts]:
    """Return what is known of each policy of a run that Learners have told of, in order."""
    history = session.run.get("history")
    found: dict[int, dict[str, list[float]]] = {}
    for name, points in history.items() if isinstance(history, dict) else ():
        figure, is_one, policy = str(name).removesuffix(_DEVIATION).rpartition(_OF_POLICY)
        figure += _DEVIATION if str(name).endswith(_DEVIATION) else ""
        is_known = figure in (*LEARNING_FIGURES, *_EPISODES)
        if is_one and is_known and policy.isdecimal() and len(policy) < 9 and (values := _values(points)):
            found.setdefault(int(policy), {})[figure] = values
    return [LearningFacts(policy, found[policy], session.config) for policy in sorted(found)]


def _values(points: object) -> list[float]:
    try:
        values = [float(value) for _, value in points]  # type: ignore[attr-defined]  # of somebody else's session, maybe
    except (TypeError, ValueError, OverflowError):
        return []
    return [value for value in values if math.isfinite(value)]
