"""config.json: the value of every flag of a run and where it came from.

::

    {"format": 1, "version": "1.0.0", "flags": {"rollout": {"value": 32, "origin": "default"}, ...}}

What a part of the options has there beside it, by its method ``beside_flags(config)``, is for programs of its own kind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import field, make_dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Any, get_args

from sample_profiler.config.assembly import Draft, all_flags
from sample_profiler.config.config import RESERVED_NAMES, Config, Origin
from sample_profiler.errors import ConfigError
from sample_profiler.files import find_obstacle, written_whole
from sample_profiler.run_folder import read_config_file
from sample_profiler.version import __version__

FORMAT = 1

_SCALARS = (bool, int, float, str)
_CURE = "restore the file; training begins anew with --restart_behavior=restart"


def save_config(config: Config, path: str | os.PathLike[str]) -> None:
    """Write a configuration; a crash leaves either the old file or the new one.

    Args:
        config: The configuration.
        path: The file to write; its folder must exist.

    Raises:
        OSError: The file cannot be written.
    """
    flags = {name: {"value": value, "origin": config.origin(name)} for name, value in config.values().items()}
    document = {"format": FORMAT, "version": __version__, "flags": flags}
    for part in config.extra_parts:
        if callable(beside_flags := getattr(part, "beside_flags", None)):
            document = {**beside_flags(config), **document}
    with written_whole(path) as partial:
        partial.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def load_config(
    path: str | os.PathLike[str], extra_parts: Sequence[type] = (), *, keeps_unknown: bool = False
) -> Config:
    """Read a configuration written by :func:`save_config`.

    The file is data: every value is checked against its field, and nothing in it is executed. Flags that the file does
    not have, because they are newer, have their defaults.

    Args:
        path: The file.
        extra_parts: Dataclasses with the options of the environment family.
        keeps_unknown: Whether flags of a family that is not known here are options like any other, of a last part of
            their own, instead of problems; those that no option can be are left out.

    Raises:
        ConfigError: The file cannot be read, or with all values that are not allowed.
    """
    saved = _read_flags(Path(path))
    if keeps_unknown:
        extra_parts = (*extra_parts, _part_of_unknown(saved, all_flags(extra_parts)))
        known = all_flags(extra_parts)
        saved = {name: entry for name, entry in saved.items() if name in known}
    draft = Draft(extra_parts)
    for name, entry in saved.items():
        if isinstance(entry, dict) and "value" in entry and entry.get("origin") in get_args(Origin):
            draft.assign(name, entry["value"], entry["origin"], source=f"in {path}")
        else:
            found = repr(entry)[:80]
            draft.reject(name, f"{path}: the entry of {name!r} is {found}, without a value or a known origin; {_CURE}")
    try:
        return draft.finish()
    except ConfigError as error:
        # Some problems are about values alone: say where these were found.
        problems = [text if str(path) in text else f"{path}: {text}" for text in error.problems]
        raise ConfigError(problems) from None


def _part_of_unknown(saved: dict[str, Any], known: Iterable[str]) -> type:
    """Return a part that has those of the saved flags that are not known, of the types that their values have."""
    options: list[tuple[str, Any, Any]] = []
    for name in sorted(saved.keys() - {*known, *RESERVED_NAMES}):
        kind = _type_of(saved[name].get("value")) if isinstance(saved[name], dict) else None
        if kind is not None and name.isidentifier() and not iskeyword(name) and not name.startswith("_"):
            options.append((name, kind | None, field(default=None)))
    return make_dataclass("SavedOptions", options, frozen=True, kw_only=True)


def _type_of(value: Any) -> Any:
    """Return the type of an option that can have a value, as JSON has it; None: none can."""
    if isinstance(value, dict):
        return dict[str, Any]
    if not isinstance(value, list):
        return str if value is None else type(value) if type(value) in _SCALARS else None
    kinds = set(map(type, value)) or {str}
    kind = float if kinds == {int, float} else kinds.pop() if len(kinds) == 1 else None
    return tuple[kind, ...] if kind in _SCALARS else None  # type: ignore[valid-type]


def names_in(path: Path) -> frozenset[str]:
    """Return the flags that a configuration written by :func:`save_config` has.

    Args:
        path: The file.

    Raises:
        ConfigError: The file cannot be read.
    """
    return frozenset(_read_flags(path))


def _read_flags(path: Path) -> dict[str, Any]:
    try:
        document = read_config_file(path)
    except OSError as error:
        reason = find_obstacle(path, os.R_OK, is_folder=False)
        reason = reason or f"{error.strerror or error}; check the path and its permissions"
        raise ConfigError([f"{path} cannot be read: {reason}"]) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{path} is not a configuration: {error}; {_CURE}"]) from error
    if document.get("format") != FORMAT:
        found = repr(document.get("format"))[:80]
        raise ConfigError([f"{path} has the format {found}; this version reads format {FORMAT} only: {_CURE}"])
    flags: dict[str, Any] = document["flags"]
    return flags
