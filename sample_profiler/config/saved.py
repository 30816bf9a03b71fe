"""config.json: the value of every flag of a run and where it came from.

::

    {"format": 1, "version": "0.1.0", "flags": {"rollout": {"value": 32, "origin": "default"}, ...}}
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from sample_profiler import __version__
from sample_profiler.config.assembly import Draft
from sample_profiler.config.config import Config, Origin
from sample_profiler.errors import ConfigError
from sample_profiler.files import find_obstacle, read_small_text, written_whole

FORMAT = 1

_CURE = "restore the file, or start anew with --restart_behavior=restart"


def config_path(folder: Path) -> Path:
    """Return the path of the configuration in a run's folder."""
    return folder / "config.json"


def earlier_config_path(folder: Path) -> Path:
    """Return the path of what a resumed run's configuration was before; it is there until that run has trained."""
    return folder / "config.json.earlier"


def resumable_config_path(folder: Path) -> Path:
    """Return the path of the configuration to resume with: not that of a run that was killed before it had trained."""
    earlier = earlier_config_path(folder)
    return earlier if earlier.exists() else config_path(folder)


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
    with written_whole(path) as partial:
        partial.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def load_config(path: str | os.PathLike[str], extra_parts: Sequence[type] = ()) -> Config:
    """Read a configuration written by :func:`save_config`.

    The file is data: every value is checked against its field, and nothing in it is executed. Flags that the file does
    not have, because they are newer, have their defaults.

    Args:
        path: The file.
        extra_parts: Dataclasses with the options of the environment family.

    Raises:
        ConfigError: The file cannot be read, or with all values that are not allowed.
    """
    draft = Draft(extra_parts)
    for name, entry in _read_flags(Path(path)).items():
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
        document = json.loads(read_small_text(path), object_pairs_hook=_make_unique)
    except OSError as error:
        reason = find_obstacle(path, os.R_OK, is_folder=False)
        reason = reason or f"{error.strerror or error}; check the path and its permissions"
        raise ConfigError([f"{path} cannot be read: {reason}"]) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{path} is not a configuration: {error}; {_CURE}"]) from error
    if not isinstance(document, dict) or not isinstance(document.get("flags"), dict):
        raise ConfigError([f"{path} is not a configuration: it has no flags; {_CURE}"])
    if document.get("format") != FORMAT:
        found = repr(document.get("format"))[:80]
        raise ConfigError([f"{path} has the format {found}; this version reads format {FORMAT} only: {_CURE}"])
    flags: dict[str, Any] = document["flags"]
    return flags


def _make_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object, refusing a name that stands there twice: which value counts would be a guess."""
    unique: dict[str, Any] = {}
    for name, value in pairs:
        if name in unique:
            raise ValueError(f"{name!r} stands there twice")
        unique[name] = value
    return unique
