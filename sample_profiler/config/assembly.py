"""Puts a configuration together from values of all origins, collecting problems until the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, cast

from sample_profiler.config.config import CORE_PARTS, RESERVED_NAMES, Config, Origin, PartT
from sample_profiler.config.flags import Flag, add_flags, describe_unknown
from sample_profiler.config.parts import RunOptions
from sample_profiler.config.validation import Assigned, Assignments, choose_automatic, find_problems
from sample_profiler.config.values import DisallowedValueError
from sample_profiler.errors import MOST_PROBLEMS, ConfigError

_PLACE_OF_RUN = ("experiment", "train_dir", "restart_behavior")
"""Flags that say where a run is kept and what to do about it."""


def all_flags(extra_parts: Iterable[type] = ()) -> dict[str, Flag]:
    """Return all flags by name, those of the family's extra parts last.

    Raises:
        TypeError: A part is not usable, or has a flag of a name that is taken.
    """
    flags: dict[str, Flag] = {}
    add_flags(flags, CORE_PARTS.values())
    # `optimizer` is both a part and a flag, as its users know it; families may not add such cases.
    add_flags(flags, extra_parts, reserved=RESERVED_NAMES)
    return flags


class Draft:
    """A configuration in the making: later assignments replace earlier ones, problems wait for :meth:`finish`.

    Attributes:
        flags: All flags by name.
        problems: Every problem found so far.
        rejected: Flags whose value was wrong.
    """

    def __init__(self, extra_parts: Sequence[type] = ()) -> None:
        """Start without any value.

        Args:
            extra_parts: Dataclasses with the options of the environment family.
        """
        self.flags = all_flags(extra_parts)
        self.problems: list[str] = []
        self.rejected: set[str] = set()
        self._extra_parts = tuple(extra_parts)
        self._assigned = Assignments()

    def assign(self, name: str, value: object, origin: Origin, *, source: str = "") -> None:
        """Give a flag a typed value, or note why it cannot have it.

        Args:
            name: Name of the flag.
            value: The value, of the field's type.
            origin: Where the value comes from.
            source: The origin in the words of an error message.
        """
        if name not in self.flags:
            # What nobody will read is not worth the search for what it may have meant.
            is_told = len(self.problems) < MOST_PROBLEMS
            unknown = describe_unknown(name, self.flags) if is_told else f"--{name} is not a flag"
            self.reject(name, f"{source}: {unknown}" if source else unknown)
            return
        try:
            checked = self.flags[name].value_type.check(value)
        except DisallowedValueError as error:
            self.reject(name, self.flags[name].describe_problem(value, str(error), source or origin))
        else:
            self._assigned[name] = Assigned(checked, origin)

    def assign_from(self, config: Config) -> None:
        """Take over all values of a configuration but those to be chosen again, with their origins."""
        for name, value in config.values().items():
            if config.origin(name) not in ("automatic", "default"):
                self.assign(name, value, config.origin(name))

    def reject(self, name: str, problem: str) -> None:
        """Note that a flag's value is wrong."""
        self.problems.append(problem)
        self.rejected.add(name)

    def origin(self, name: str) -> Origin | None:
        """Return the origin of the value a flag has so far, or ``None``."""
        return self._assigned[name].origin if name in self._assigned else None

    def value(self, name: str) -> Any:
        """Return the value a flag has so far, or ``None``."""
        return self._assigned[name].value if name in self._assigned else None

    def run_options(self) -> RunOptions | None:
        """Return the options that say where the run is kept, or ``None`` if one of those is wrong.

        Others of them may be wrong or missing: a run that is resumed knows its environment.
        """
        if any(name in self.rejected for name in _PLACE_OF_RUN):
            return None
        return _make_part(RunOptions, self._fill_in())

    def finish(self) -> Config:
        """Fill in defaults, choose automatic values and check everything.

        Raises:
            ConfigError: With all problems.
        """
        values = self._complete()
        choose_automatic(values)
        problems = [*self.problems, *find_problems(values, self.rejected)]
        extra_parts: list[Any] = []
        for part_type in self._extra_parts:
            if not any(field.name in self.rejected for field in fields(part_type)):
                extra_parts.append(_make_part(part_type, values))
                problems += _find_part_problems(extra_parts[-1])
        if problems:
            raise ConfigError(problems)
        core_parts: dict[str, Any] = {name: _make_part(part_type, values) for name, part_type in CORE_PARTS.items()}
        origins = {name: assigned.origin for name, assigned in values.items()}
        return Config(**core_parts, extra_parts=tuple(extra_parts), origins=origins)

    def _complete(self) -> Assignments:
        """Return a value for every flag; note required flags that have none."""
        for name, flag in self.flags.items():
            if flag.is_required and name not in self._assigned and name not in self.rejected:
                self.reject(name, f"--{name} is required: {flag.value_type.describe()}; write --{name}=value")
        return self._fill_in()

    def _fill_in(self) -> Assignments:
        """Return a value for every flag."""
        values = Assignments()
        for name, flag in self.flags.items():
            if name in self._assigned:
                values[name] = self._assigned[name]
            elif not flag.is_required:
                values[name] = Assigned(flag.make_default(), "automatic" if flag.automatic else "default")
            else:
                # Stands in until finish() raises; no check looks at a rejected flag.
                values[name] = Assigned(None, "default")
        return values


def _make_part(part_type: Callable[..., PartT], values: Assignments) -> PartT:
    return part_type(**{field.name: values.value(field.name) for field in fields(cast(Any, part_type))})


def _find_part_problems(part: object) -> Iterator[str]:
    """Ask a family's part for problems between its values, if it has a method ``find_problems``."""
    find = getattr(part, "find_problems", None)
    if find is not None:
        yield from find()
