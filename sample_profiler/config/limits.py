"""Limits of a flag's value, and the field helpers with which a part declares them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

LIMITS_KEY = "limits"
TEXT_RULE_KEY = "text_rule"
AUTOMATIC_KEY = "automatic"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a number may be; for lists, what each of its numbers may be.

    Attributes:
        minimum: Smallest allowed value.
        above: Every allowed value is larger than this.
        maximum: Largest allowed value.
        below: Every allowed value is smaller than this.
        also: One value allowed outside the others, usually ``-1`` for "never" or "choose for me".
    """

    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    also: float | None = None

    def allows(self, number: float) -> bool:
        """Return whether ``number`` is within the limits."""
        if self.also is not None and number == self.also:
            return True
        return (
            (self.minimum is None or number >= self.minimum)
            and (self.above is None or number > self.above)
            and (self.maximum is None or number <= self.maximum)
            and (self.below is None or number < self.below)
        )

    def describe(self) -> str:
        """Return the limits in words, such as ``at least 1``; empty if there are none."""
        bounds = [("at least", self.minimum), ("above", self.above), ("at most", self.maximum), ("below", self.below)]
        words = " and ".join(f"{relation} {_show(bound)}" for relation, bound in bounds if bound is not None)
        if words and self.also is not None:
            return f"{words}, or {_show(self.also)}"
        return words


NO_LIMITS = Limits()


@dataclass(frozen=True, kw_only=True)
class TextRule:
    """What a text may be.

    Attributes:
        find_reason: Returns why a text is not allowed, completing "the text …"; empty if it is allowed.
        allowed: What is allowed, in words.
    """

    find_reason: Callable[[str], str]
    allowed: str


def option(
    default: T,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    also: float | None = None,
) -> T:
    """Declare a dataclass field with limits.

    Written as ``rollout: int = option(32, minimum=1)``.

    Args:
        default: The field's default value.
        minimum: See :class:`Limits`, as the others.
        above: See :class:`Limits`.
        maximum: See :class:`Limits`.
        below: See :class:`Limits`.
        also: See :class:`Limits`.

    Returns:
        A dataclass field; typed as the default, which is what readers of the field get.
    """
    limits = Limits(minimum=minimum, above=above, maximum=maximum, below=below, also=also)
    return field(default=default, metadata={LIMITS_KEY: limits})


def automatic_option(
    choose: Callable[[], T], meaning: str, *, minimum: float | None = None, maximum: float | None = None
) -> T:
    """Declare a dataclass field whose default depends on the machine.

    Args:
        choose: Returns the value for this machine.
        meaning: What ``choose`` returns, in words, for the help text.
        minimum: See :class:`Limits`.
        maximum: See :class:`Limits`.

    Returns:
        A dataclass field, typed as its value.
    """
    metadata: dict[str, Any] = {LIMITS_KEY: Limits(minimum=minimum, maximum=maximum), AUTOMATIC_KEY: meaning}
    return field(default_factory=choose, metadata=metadata)


def text_option(default: str, rule: TextRule) -> str:
    """Declare a text field with a rule.

    Args:
        default: The field's default value.
        rule: What the text may be.

    Returns:
        A dataclass field, typed as its value.
    """
    return field(default=default, metadata={TEXT_RULE_KEY: rule})


def _show(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else str(bound)


def _find_emptiness(text: str) -> str:
    return "" if text.strip() else "is empty"


NOT_EMPTY = TextRule(find_reason=_find_emptiness, allowed="text that is not empty")
