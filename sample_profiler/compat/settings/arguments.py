"""Owns the two passes over a command line in which Sample Factory's scripts read it, over the flags of this package.

Between them a script adds flags of its own and sets defaults for its environments.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.config.assembly import all_flags
from sample_profiler.config.flags import Flag
from sample_profiler.config.foreign_flags import FOREIGN_FLAGS, ForeignFlag
from sample_profiler.config.help import describe_parts
from sample_profiler.config.parts import EvaluationOptions
from sample_profiler.config.parts.run import is_surely_on_cpu
from sample_profiler.config.values import DisallowedValueError, ValueType

__all__ = [
    *("SHOWN_DEFAULTS", "default_cfg", "foreign_defaults", "parse_full_cfg", "parse_sf_args", "postprocess_args"),
    "shown_default",
]

_HUGE = 1_000_000_000
SHOWN_DEFAULTS: dict[str, int | None] = {
    "num_envs_per_worker": 2,
    "max_num_episodes": _HUGE,
    "max_num_frames": _HUGE,
    "video_frames": _HUGE,
    "video_name": None,
}
"""Flags whose default means "chosen" or "no limit" here, and is a number there that scripts compute with; and a name
that there is none of unless it is given."""

_BOOLEANS = ValueType(scalar=bool)
_NO_MATTER = "nothing here depends on it"


def parse_sf_args(
    argv: Sequence[str] | None = None, evaluation: bool = False
) -> tuple[argparse.ArgumentParser, AttrDict]:
    """Make a parser of all flags, and parse those that it knows: the first pass.

    Args:
        argv: The command line without the program's name; None: of this process.
        evaluation: Whether the flags of playing are among them.

    Returns:
        The parser, which takes further flags and other defaults, and what is known so far.
    """
    parser = argparse.ArgumentParser(
        formatter_class=argparse.ArgumentDefaultsHelpFormatter, add_help=False, conflict_handler="resolve"
    )
    parser.add_argument("-h", "--help", action="store_true", help="Print this and end.")
    passes = _Passes()
    for flag in _own_flags(evaluation).values():
        _add_flag(parser, flag, passes)
    for name, foreign in FOREIGN_FLAGS.items():
        if not foreign.is_of_doom:
            _add_foreign(parser, name, foreign)
    known, _ = parser.parse_known_args(sys.argv[1:] if argv is None else list(argv))
    passes.are_values_final = True
    return parser, AttrDict(vars(known))


def parse_full_cfg(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> AttrDict:
    """Parse a whole command line: the second pass.

    Args:
        parser: From :func:`parse_sf_args`, with the script's own flags and defaults.
        argv: As there.

    Returns:
        The value of every flag; under `cli_args` those that the command line has, under `command_line` its text.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    return postprocess_args(parser.parse_args(words), words, parser)


def postprocess_args(args: argparse.Namespace, argv: Sequence[str], parser: argparse.ArgumentParser) -> AttrDict:
    """Return the same of a command line that a script has parsed itself.

    Args:
        args: What the parser made of it.
        argv: Its words.
        parser: As above.
    """
    words = list(argv)
    parsed = vars(args)
    if parsed["help"]:
        _explain(parser)
        parser.print_help()
        sys.exit(0)
    absent = object()
    marked = argparse.Namespace(**dict.fromkeys(parsed, absent))
    given = {name: value for name, value in vars(parser.parse_args(words, marked)).items() if value is not absent}
    actions = {action.dest: action for action in parser._actions}
    redefined = [name for name in all_flags((EvaluationOptions,)) if _is_redefined(actions.get(name))]
    unknown = "unknown"
    bookkeeping = {"git_hash": unknown, "git_repo_name": unknown, "redefined_flags": redefined}
    return AttrDict(parsed, cli_args=given, command_line=" ".join(words), **bookkeeping)


def _explain(parser: argparse.ArgumentParser) -> None:
    """Add what flags mean, for those of which the script says nothing else."""
    parts = describe_parts((EvaluationOptions,))
    meanings = {flag.name: flag.meaning for part in parts for flag in part.flags}
    meanings |= {name: f"Of Sample Factory: {foreign.reason or _NO_MATTER}." for name, foreign in FOREIGN_FLAGS.items()}
    for action in parser._actions:
        if action.help is None:
            action.help = meanings.get(action.dest, "").replace("%", "%%") or None


def default_cfg(algo: str = "APPO", env: str = "env", experiment: str = "test") -> AttrDict:
    """Return the options of a run of which nothing else is said."""
    argv = [f"--algo={algo}", f"--env={env}", f"--experiment={experiment}"]
    return parse_full_cfg(parse_sf_args(argv)[0], argv)


@cache
def _own_flags(evaluation: bool) -> Mapping[str, Flag]:
    return all_flags((EvaluationOptions,) if evaluation else ())


def shown_default(flag: Flag) -> Any:
    """Return what scripts read of a flag that nobody has set: a number or name that they can compute with."""
    if flag.name == "device":
        return "cpu" if is_surely_on_cpu("auto") else "gpu"
    if flag.name == "train_dir":
        return os.path.join(os.getcwd(), "train_dir")
    if flag.name in SHOWN_DEFAULTS:
        return SHOWN_DEFAULTS[flag.name]
    value = None if flag.is_required else flag.make_default()
    return list(value) if isinstance(value, tuple) else value


def foreign_defaults() -> dict[str, Any]:
    """Return what scripts read of flags that only Sample Factory has, but for those of Doom."""
    return {
        name: list(foreign.default) if isinstance(foreign.default, tuple) else foreign.default
        for name, foreign in FOREIGN_FLAGS.items()
        if not foreign.is_of_doom
    }


@dataclass
class _Passes:
    """How far the parsing has come.

    Attributes:
        are_values_final: Whether a value that is not allowed is a mistake: a script may define its flag anew before the
            second pass.
    """

    are_values_final: bool = False


class _Reader:
    """Reads a word of a flag's value; tells flags of this package from those that a script defines anew."""

    def __init__(self, value_type: ValueType, passes: _Passes) -> None:
        self._value_type = replace(value_type, is_list=False)
        self._passes = passes

    def __call__(self, word: str) -> Any:
        try:
            return self._value_type.from_words([word])
        except DisallowedValueError as error:
            if not self._passes.are_values_final:
                return word
            raise argparse.ArgumentTypeError(f"{word!r} {error}. Allowed: {self._value_type.describe()}") from None


def _is_redefined(action: argparse.Action | None) -> bool:
    return action is not None and not isinstance(action.type, _Reader)


def _add_flag(parser: argparse.ArgumentParser, flag: Flag, passes: _Passes) -> None:
    parser.add_argument(
        f"--{flag.name}",
        default=shown_default(flag),
        type=_Reader(flag.value_type, passes),
        required=flag.is_required,
        **_shape(flag.value_type.scalar is bool, flag.value_type.is_list),
    )


def _add_foreign(parser: argparse.ArgumentParser, name: str, foreign: ForeignFlag) -> None:
    is_bool, is_list = isinstance(foreign.default, bool), isinstance(foreign.default, tuple)
    scalar: Any = str if foreign.default is None or is_list else type(foreign.default)
    parser.add_argument(
        f"--{name}",
        default=foreign_defaults()[name],
        type=_Reader(_BOOLEANS, _Passes(are_values_final=True)) if is_bool else scalar,
        **_shape(is_bool, is_list),
    )


def _shape(is_bool: bool, is_list: bool) -> dict[str, Any]:
    """Return how many words a value has: of a bare flag it is True."""
    if is_list:
        return {"nargs": "*"}
    return {"nargs": "?", "const": True} if is_bool else {}
