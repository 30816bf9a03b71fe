"""Values of flags: which ones a field's type allows, and how they are read from text or checked when already typed."""

from __future__ import annotations

import difflib
import json
import math
import re
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, Union, get_args, get_origin

from sample_profiler.config.free_values import FREE_VALUES, NotDataError, plain_data, read_data
from sample_profiler.config.limits import NO_LIMITS, Limits, TextRule

_TRUE_WORDS = ("true", "1", "yes")
_FALSE_WORDS = ("false", "0", "no")
_LARGEST_INT = 2**63 - 1
SMALLEST_FLOAT, LARGEST_FLOAT = 1e-30, 1e30  # networks count in 32 bits, whose numbers end at 3e38
_TOO_LARGE = f"is beyond the largest whole number, {_LARGEST_INT}"

_NAME_OF_ONE = {bool: "True or False", int: "a whole number", float: "a number", str: "text"}
_NAME_OF_MANY = {bool: "True or False each", int: "whole numbers", float: "numbers", str: "words"}


class DisallowedValueError(ValueError):
    """A value its flag does not allow; the message completes "--flag=value …"."""


@dataclass(frozen=True, kw_only=True)
class ValueType:
    """What a field's annotation and limits allow.

    Attributes:
        scalar: Type of the value, or of each item of a list: bool, int, float or str; dict, if its form is free.
        is_list: Whether the value is a tuple of scalars.
        is_optional: Whether ``None`` is allowed.
        choices: The allowed words; empty if any are.
        limits: Bounds on numbers.
        text_rule: What a text may be.
    """

    scalar: type
    is_list: bool = False
    is_optional: bool = False
    choices: tuple[str, ...] = ()
    limits: Limits = NO_LIMITS
    text_rule: TextRule | None = None

    def from_words(self, words: Sequence[str]) -> Any:
        """Read the words given after a flag.

        Args:
            words: One word; for lists any number of them, each of which may hold several split by commas or spaces.

        Returns:
            A value of the field's type.

        Raises:
            DisallowedValueError: A word does not read as an allowed value.
        """
        if self.is_optional and len(words) == 1 and words[0].lower() == "none":
            return None
        if self.scalar is dict:
            return self._check_free(words[0], read_data)
        if self.is_list:
            items = [item for word in words for item in re.split(r"[,\s]+", word) if item]
            return tuple(self._check_item(item, self._read_scalar) for item in items)
        return self._check_scalar(self._read_scalar(words[0]))

    def check(self, value: object) -> Any:
        """Check a value that is already typed: from a family's defaults or from config.json.

        Args:
            value: The value; lists are accepted for tuples and whole numbers for floats.

        Returns:
            The value in the field's exact type.

        Raises:
            DisallowedValueError: The type or the value is not allowed.
        """
        if value is None and self.is_optional:
            return None
        if self.scalar is dict:
            return self._check_free(value, plain_data)
        if not self.is_list:
            return self._check_scalar(value)
        if not isinstance(value, list | tuple):
            raise DisallowedValueError(f"is not {self._type_name()}")
        return tuple(self._check_item(item) for item in value)

    def describe(self) -> str:
        """Return what is allowed in words, such as ``a whole number, at least 1``."""
        words = self.text_rule.allowed if self.text_rule is not None else self._type_name()
        if self.choices:
            words = ", ".join(self.choices[:-1]) + (" or " if len(self.choices) > 1 else "") + self.choices[-1]
        if limits := self.limits.describe():
            words += f", {'each ' if self.is_list else ''}{limits}"
        return words + (", or None" if self.is_optional else "")

    def _check_free(self, value: Any, read: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        try:
            return read(value)
        except NotDataError as error:
            raise DisallowedValueError(str(error)) from None

    def _type_name(self) -> str:
        if self.scalar is dict:
            return f"{FREE_VALUES}; as JSON on the command line"
        return f"a list of {_NAME_OF_MANY[self.scalar]}" if self.is_list else _NAME_OF_ONE[self.scalar]

    def _read_scalar(self, word: str) -> object:
        if self.scalar is bool:
            return _read_bool(word)
        if self.scalar is int:
            return _read_int(word)
        if self.scalar is float:
            return _read_float(word)
        return word

    def _check_item(self, item: object, read: Callable[[str], object] | None = None) -> object:
        """Check one item of a list, after reading it if it is text still, and name it where it is wrong."""
        try:
            return self._check_scalar(item if read is None else read(str(item)))
        except DisallowedValueError as error:
            raise DisallowedValueError(f"holds {item!r}, which {error}") from None

    def _check_scalar(self, value: object) -> object:
        # bool is a subclass of int: True must not pass as the number 1.
        if self.scalar is float and isinstance(value, int) and not isinstance(value, bool):
            value = _to_float(value)
        if type(value) is not self.scalar:
            raise DisallowedValueError(f"is not {_NAME_OF_ONE[self.scalar]}")
        if isinstance(value, float) and not math.isfinite(value):
            raise DisallowedValueError("is not a finite number")
        if isinstance(value, int) and abs(value) > _LARGEST_INT:
            raise DisallowedValueError(_TOO_LARGE)
        if isinstance(value, int | float) and not self.limits.allows(value):
            raise DisallowedValueError("is out of range")
        if isinstance(value, float) and value and not SMALLEST_FLOAT <= abs(value) <= LARGEST_FLOAT:
            raise DisallowedValueError(f"is beyond {LARGEST_FLOAT:g}, or closer to 0 than {SMALLEST_FLOAT:g}")
        if self.choices and value not in self.choices:
            nearest = difflib.get_close_matches(str(value), self.choices, n=1)
            raise DisallowedValueError(
                "is not one of the choices" + (f" (did you mean {nearest[0]}?)" if nearest else "")
            )
        if isinstance(value, str) and self.text_rule is not None and (reason := self.text_rule.find_reason(value)):
            raise DisallowedValueError(reason)
        return value


def make_value_type(annotation: Any, limits: Limits, text_rule: TextRule | None = None) -> ValueType:
    """Build the value type of a dataclass field.

    Args:
        annotation: The resolved annotation: bool, int, float, str, a Literal of strings, a ``tuple[scalar, ...]``, a
            ``dict[str, Any]``, or one of these or ``None``.
        limits: Bounds on numbers.
        text_rule: What a text may be.

    Raises:
        TypeError: The annotation is something else.
    """
    if get_origin(annotation) in (Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        if len(members) != 1 or len(get_args(annotation)) != 2:
            raise TypeError(f"a flag cannot have the type {annotation}: of unions, only `X | None` is allowed")
        return replace(make_value_type(members[0], limits, text_rule), is_optional=True)
    if get_origin(annotation) is Literal and all(isinstance(choice, str) for choice in get_args(annotation)):
        return ValueType(scalar=str, choices=get_args(annotation))
    if get_origin(annotation) is tuple and len(get_args(annotation)) == 2 and get_args(annotation)[1] is Ellipsis:
        item = make_value_type(get_args(annotation)[0], limits, text_rule)
        if not item.is_list and not item.is_optional:
            return replace(item, is_list=True)
    if annotation == dict[str, Any]:
        return ValueType(scalar=dict)
    if annotation in (bool, int, float, str):
        return ValueType(scalar=annotation, limits=limits, text_rule=text_rule)
    raise TypeError(
        f"a flag cannot have the type {annotation}: use bool, int, float, str, a Literal of strings, "
        "tuple[<one of these>, ...], dict[str, Any] for values of free form, or one of these with `| None`"
    )


def show_value(value: object) -> str:
    """Return a value as it is written on the command line, such as ``512 512``, ``120`` or ``{"size": 5}``."""
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return " ".join(show_value(item) for item in value)
    if isinstance(value, float):
        text = repr(value)
        return text[:-2] if text.endswith(".0") else text
    return str(value)


def _read_bool(word: str) -> bool:
    if word.lower() in _TRUE_WORDS:
        return True
    if word.lower() in _FALSE_WORDS:
        return False
    raise DisallowedValueError("is not True or False (1, 0, yes and no are understood too)")


def _read_int(word: str) -> int:
    # Decimal reads 1e7 exactly; a float would lose digits of large numbers.
    try:
        number = Decimal(word)
    except InvalidOperation:
        raise DisallowedValueError("is not a whole number") from None
    if not number.is_finite():
        raise DisallowedValueError("is not a whole number")
    # Looked at before the conversion: the digits of 1e999999999 would fill the memory.
    if not -_LARGEST_INT <= number <= _LARGEST_INT:
        raise DisallowedValueError(_TOO_LARGE)
    if number != int(number):
        raise DisallowedValueError("is not a whole number")
    return int(number)


def _read_float(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise DisallowedValueError("is not a number") from None


def _to_float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        raise DisallowedValueError("is not a finite number") from None
