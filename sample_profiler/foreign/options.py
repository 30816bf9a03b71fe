"""Owns how the options of a run of Sample Factory become flags of this package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sample_profiler.config import Config
from sample_profiler.config.assembly import Draft
from sample_profiler.config.foreign_flags import CARRIED
from sample_profiler.errors import UsageError
from sample_profiler.files import read_small_text
from sample_profiler.run_folder import RunFolder

__all__ = ["CARRIED_KEY", "read_options", "translate_options"]

CARRIED_KEY = CARRIED
"""In config.json, beside the flags: options of an imported run that are no flags here."""

_EARLIER_NAME = "cfg.json"  # until 2.0.2
_OF_THE_COMMAND = {
    "cli_args",
    "command_line",
    "git_hash",
    "git_repo_name",
    "help",
    "restart_behavior",
    "wandb_unique_id",
}
_OF_THE_MACHINE = {"num_workers", "device"}
"""Were chosen by looking at the machine, unless they were given."""


def read_options(folder: Path) -> dict[str, Any]:
    """Read the options that a run has kept.

    Args:
        folder: Of the run.

    Raises:
        UsageError: There are none, or they are not those of a run of Sample Factory 2.
    """
    places = (RunFolder(folder).config, folder / _EARLIER_NAME)
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise UsageError(f"there is no run of Sample Factory in {folder}: it has no config.json")
    try:
        options = json.loads(read_small_text(path))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} cannot be read: {reason}") from error
    if not isinstance(options, dict) or "env" not in options:
        is_own = isinstance(options, dict) and "flags" in options
        what = (
            "of a run of this package, which needs no import" if is_own else "no options of a run of Sample Factory 2"
        )
        raise UsageError(f"{path} is {what}")
    return options


def translate_options(
    options: Mapping[str, Any], changed: Mapping[str, Any]
) -> tuple[Config, dict[str, Any], list[str]]:
    """Return the flags of a run.

    What was on the command line there counts as such, all else as chosen by the environment's family.

    Args:
        options: Of the original.
        changed: Values that are others here, by flag.

    Returns:
        The configuration; the options that are no flags here; and what could not be taken over, in words.

    Raises:
        ConfigError: What is left does not fit together.
    """
    draft = Draft()
    given = options.get("cli_args")
    given = given if isinstance(given, Mapping) else {}
    rest: dict[str, Any] = {}
    for name, value in {**options, **changed}.items():
        if name in _OF_THE_COMMAND:
            continue
        if name not in draft.flags:
            rest[name] = value
        elif name in changed or name in given or name not in _OF_THE_MACHINE:
            draft.assign(name, value, "command line" if name in given else "family", source="in the imported run")
    notes, draft.problems = draft.problems, []
    draft.rejected.clear()
    return draft.finish(), rest, notes
