"""Conditions on what episodes tell, such as ``reward>=475``: the grammar of ``--stop_at`` and ``--thresholds``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from sample_profiler.config.limits import TextRule

__all__ = ["CONDITIONS", "Condition", "parse_conditions"]

_REWARD = "reward"
_MOST = 100
_CONDITION = re.compile(r"(?:(?P<statistic>[^<>=@]+)(?:@(?P<policy>\d{1,9}))?(?P<relation>>=|<=))?(?P<value>[^<>=@]+)")


@dataclass(frozen=True)
class Condition:
    """What the mean of a statistic over the latest ``stats_avg`` episodes is to reach.

    Attributes:
        statistic: By its name: reward, len, true_objective, or what the environment tells of its episodes.
        relation: ``>=`` or ``<=``.
        value: What the mean is compared with.
        policy: Whose episodes count; ``None``: those of each policy.
    """

    statistic: str
    relation: str
    value: float
    policy: int | None = None

    def __str__(self) -> str:
        policy = "" if self.policy is None else f"@{self.policy}"
        return f"{self.statistic}{policy}{self.relation}{self.value:.15g}"

    def concerns(self, policy: int) -> bool:
        """Return whether episodes of a policy count."""
        return self.policy in (None, policy)

    def holds(self, mean: float) -> bool:
        """Return whether a mean is what is wanted."""
        return mean >= self.value if self.relation == ">=" else mean <= self.value


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """Return the conditions in a text, each once, in their order.

    Args:
        text: Conditions with commas between them, each ``STATISTIC>=VALUE`` or ``<=``, with ``@POLICY`` behind the
            statistic where it is about one policy alone. A value by itself is one that the reward has to reach.

    Raises:
        ValueError: It has something else; the message completes "the text …".
    """
    if not text.strip():
        return ()
    conditions = tuple(dict.fromkeys(_parse(part.strip()) for part in text.split(",")))
    if len(conditions) > _MOST:
        raise ValueError(f"has {len(conditions)} conditions, and {_MOST} are possible")
    return conditions


def _parse(part: str) -> Condition:
    found = _CONDITION.fullmatch(part)
    try:
        value = float(found["value"]) if found else math.nan
    except ValueError:
        value = math.nan
    if found is None or not math.isfinite(value):
        raise ValueError(f"has {part!r}, which is no condition{_explain(part)}")
    policy = found["policy"]
    statistic = (found["statistic"] or _REWARD).strip()
    return Condition(statistic, found["relation"] or ">=", value, None if policy is None else int(policy))


def _explain(part: str) -> str:
    if part.isidentifier():
        return ": a shell takes > and < for itself, so put conditions in quotes"
    return "" if ">=" in part or "<=" in part or not re.search("[<>=]", part) else ": it compares by >= or <="


def _find_reason(text: str) -> str:
    try:
        parse_conditions(text)
    except ValueError as error:
        return str(error)
    return ""


CONDITIONS = TextRule(
    find_reason=_find_reason,
    allowed="conditions with commas between them, such as reward>=475, len<=200 or reward@1>=20, a number by itself "
    "for the reward, or nothing",
)
