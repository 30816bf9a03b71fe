"""What flags mean: the docstring literals under the fields, as ``--help`` and the documentation show them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sample_profiler.config.assembly import all_flags
from sample_profiler.config.flags import Flag
from sample_profiler.config.values import show_value

_WIDTH = 100

_USAGE = """\
Options are written --flag=value or --flag value. A bare --flag means True; a list takes several words
(--encoder_mlp_layers 512 512). Of a flag given twice the last counts. Defaults are in parentheses."""


@dataclass(frozen=True, kw_only=True)
class FlagDescription:
    """A flag in words.

    Attributes:
        name: Its name, without dashes.
        allowed: Which values it takes.
        default: Its default as written on a command line, or in words where there is nothing to write.
        is_default_in_words: Whether ``default`` is words: "required", "empty" or how the default is chosen.
        meaning: What it does and in which unit.
    """

    name: str
    allowed: str
    default: str
    is_default_in_words: bool
    meaning: str


@dataclass(frozen=True, kw_only=True)
class PartDescription:
    """A group of flags in words.

    Attributes:
        title: Its title.
        flags: Its flags in order.
    """

    title: str
    flags: tuple[FlagDescription, ...]


def describe_parts(
    extra_parts: Sequence[type] = (), defaults: Mapping[str, Any] | None = None
) -> tuple[PartDescription, ...]:
    """Describe all flags, group by group.

    Args:
        extra_parts: Dataclasses with the options of the environment family.
        defaults: Values the family has instead of the flags' own defaults, by flag.
    """
    flags_of_part: dict[type, list[Flag]] = {}
    for flag in all_flags(extra_parts).values():
        flags_of_part.setdefault(flag.part, []).append(flag)
    return tuple(
        PartDescription(title=_title_of(part), flags=tuple(_describe_flags(part, flags, defaults or {})))
        for part, flags in flags_of_part.items()
    )


def format_help(
    program: str = "",
    *,
    introduction: str = "",
    extra_parts: Sequence[type] = (),
    defaults: Mapping[str, Any] | None = None,
) -> str:
    """Return the text shown by ``--help``.

    Args:
        program: How the program is called, for the first line.
        introduction: Instead of that line, where the program is called in another way.
        extra_parts: Dataclasses with the options of the environment family.
        defaults: Values the family has instead of the flags' own defaults, by flag.
    """
    blocks = [introduction or f"Usage: {program or 'python -m …'} --env=NAME [--flag=value …]", _USAGE]
    blocks += [
        "\n".join([f"{part.title}:", *(_format_flag(flag) for flag in part.flags)])
        for part in describe_parts(extra_parts, defaults)
    ]
    return "\n\n".join(blocks) + "\n"


def meanings_of(part: type) -> dict[str, str]:
    """Return the docstring literal under each field of a part, on one line, by field.

    Fields of classes it derives from are included; a field without a literal is left out. Without source code, as in an
    interactive session, nothing is known.
    """
    meanings: dict[str, str] = {}
    for owner in reversed(part.__mro__[:-1]):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
        except (OSError, TypeError):
            continue
        definition = tree.body[0]
        if isinstance(definition, ast.ClassDef):
            meanings.update(_read_literals(definition))
    return meanings


def _read_literals(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, literal in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(literal, ast.Expr)
            and isinstance(literal.value, ast.Constant)
            and isinstance(literal.value.value, str)
        ):
            yield field.target.id, " ".join(literal.value.value.split())


def _title_of(part: type) -> str:
    # A dataclass without a docstring gets its signature for one.
    first_line = (part.__doc__ or "").strip().partition("\n")[0]
    return part.__name__ if not first_line or first_line.startswith(f"{part.__name__}(") else first_line.rstrip(".")


def _describe_flags(part: type, flags: Sequence[Flag], defaults: Mapping[str, Any]) -> Iterator[FlagDescription]:
    meanings = meanings_of(part)
    for flag in flags:
        written, in_words = _describe_default(flag, defaults)
        yield FlagDescription(
            name=flag.name,
            allowed=flag.value_type.describe(),
            default=written or in_words,
            is_default_in_words=not written,
            meaning=meanings.get(flag.name, ""),
        )


def _describe_default(flag: Flag, defaults: Mapping[str, Any]) -> tuple[str, str]:
    """Return the default as written on a command line, if it can be, and in words."""
    if flag.name in defaults:
        return show_value(defaults[flag.name]), "empty"
    if flag.is_required:
        return "", "required"
    if flag.automatic:
        return "", flag.automatic
    return show_value(flag.make_default()), "empty"


def _format_flag(flag: FlagDescription) -> str:
    first_line = f"  --{flag.name} ({flag.default})"
    text = f"{flag.meaning} [{flag.allowed}]".strip()
    indent = " " * 6
    return f"{first_line}\n{textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)}"
