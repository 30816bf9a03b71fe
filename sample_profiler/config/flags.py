"""Flags: the fields of all parts under their unique names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from difflib import get_close_matches
from typing import Any, get_type_hints

from sample_profiler.config.foreign_flags import describe_foreign
from sample_profiler.config.limits import AUTOMATIC_KEY, LIMITS_KEY, NO_LIMITS, TEXT_RULE_KEY
from sample_profiler.config.values import ValueType, make_value_type, show_value


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One flag of the command line: one field of one part.

    Attributes:
        name: Name of the field, and of the flag after its two dashes.
        part: The dataclass the field belongs to.
        value_type: Which values are allowed.
        automatic: For a default chosen by looking at the machine: what it is, in words; else empty.
    """

    name: str
    part: type
    value_type: ValueType
    automatic: str
    field: Field[Any]

    @property
    def is_required(self) -> bool:
        """Whether the flag has no default."""
        return self.field.default is MISSING and self.field.default_factory is MISSING

    def make_default(self) -> Any:
        """Return the default value; the flag must not be required."""
        if self.field.default_factory is not MISSING:
            return self.field.default_factory()
        return self.field.default

    def describe_problem(self, value: object, reason: str, source: str = "") -> str:
        """Return the whole message about a value that is not allowed.

        Args:
            value: The value, as given.
            reason: Completes "--flag=value …".
            source: Where the value was found, unless on the command line.
        """
        # A family or a file holds a typed value: repr tells "32" from 32.
        shown = repr(value) if source else str(value)
        message = f"--{self.name}={shown}{f' ({source})' if source else ''} {reason}."
        message += f" Allowed: {self.value_type.describe()}."
        return message if self.is_required else f"{message} For example {self.show_example()}."

    def show_example(self) -> str:
        """Return the flag with a value that is allowed."""
        value = show_value(self.make_default())
        if self.value_type.is_list:
            return f"--{self.name} {value}".rstrip()
        return f"--{self.name}={value}"


def flags_of(part: type) -> list[Flag]:
    """Return the flags of one part, in the order of its fields.

    Args:
        part: A dataclass of options.

    Raises:
        TypeError: ``part`` is no dataclass, or a field has a type that no flag can have.
    """
    if not (isinstance(part, type) and is_dataclass(part)):
        raise TypeError(f"a part of the configuration must be a dataclass, not {part!r}: add @dataclass to it")
    annotations = get_type_hints(part)
    return [
        Flag(
            name=field.name,
            part=part,
            value_type=make_value_type(
                annotations[field.name],
                field.metadata.get(LIMITS_KEY, NO_LIMITS),
                field.metadata.get(TEXT_RULE_KEY),
            ),
            automatic=field.metadata.get(AUTOMATIC_KEY, ""),
            field=field,
        )
        for field in fields(part)
    ]


def add_flags(flags: dict[str, Flag], parts: Iterable[type], *, reserved: Iterable[str] = ()) -> None:
    """Add the flags of parts, in order, to others.

    Args:
        flags: Flags by name; changed in place.
        parts: Dataclasses of options.
        reserved: Names that no flag may have.

    Raises:
        TypeError: Two flags have the same name, a name is reserved, or a part is not usable.
    """
    for flag in (flag for part in parts for flag in flags_of(part)):
        if flag.name in flags:
            owner = flags[flag.name].part.__name__
            raise TypeError(f"{flag.part.__name__}.{flag.name} is already a flag of {owner}: choose another name")
        if flag.name in reserved:
            raise TypeError(f"{flag.part.__name__}.{flag.name} is a name that Config itself uses: choose another name")
        flags[flag.name] = flag


def describe_unknown(name: str, flags: Iterable[str]) -> str:
    """Return the message about a flag that does not exist, with the nearest one that does if it looks misspelled."""
    if foreign := describe_foreign(name):
        return foreign
    # 0.75 still finds --env_framestack for --env_stack, and nothing for names that merely share some letters with a
    # flag: bad advice is worse than none. Dashes are what other tools write, and --workers for --num_workers.
    spelling = {flag.removeprefix("num_"): flag for flag in flags} | {flag: flag for flag in flags}
    nearest = get_close_matches(name.replace("-", "_"), spelling, n=1, cutoff=0.75)
    if nearest:
        return f"--{name} is not a flag: did you mean --{spelling[nearest[0]]}? (--help lists all flags)"
    return f"--{name} is not a flag: leave it out (--help lists all flags)"
