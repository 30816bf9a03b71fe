"""From a command line, and perhaps the configuration of the run it resumes, to a :class:`Config`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sample_profiler.config.assembly import Draft, all_flags
from sample_profiler.config.command_line import read_command_line
from sample_profiler.config.config import Config
from sample_profiler.config.saved import load_config, names_in
from sample_profiler.config.values import DisallowedValueError
from sample_profiler.errors import ConfigError
from sample_profiler.run_folder import RunFolder

_FLAGS_OF_THIS_START = ("experiment", "train_dir", "restart_behavior", "load_checkpoint_kind", "timeline_seconds")
"""Where the saved configuration was found, what to do about it, and what concerns one start alone: never taken from the
saved configuration itself."""


def parse_config(
    argv: Sequence[str], *, extra_parts: Sequence[type] = (), defaults: Mapping[str, Any] | None = None
) -> Config:
    """Parse a command line.

    Args:
        argv: The command line without the program's name.
        extra_parts: Dataclasses with the options of the environment family.
        defaults: Values the family has instead of the flags' own defaults, by flag.

    Returns:
        The configuration, with every value checked and every automatic value chosen.

    Raises:
        ConfigError: With all problems of the command line at once.
        TypeError: A part of the family is not usable.
    """
    return _draft_from_command_line(argv, extra_parts, defaults).finish()


def parse_run_config(
    argv: Sequence[str], *, extra_parts: Sequence[type] = (), defaults: Mapping[str, Any] | None = None
) -> Config:
    """Parse a command line and, where it resumes a run, add what that run's config.json says.

    The same as :func:`parse_config`, then :func:`load_config` and :func:`merge_saved`, but checks values against each
    other only once they are all there: ``--batch_size`` may fit the saved rollout and not the default one. Flags that
    config.json does not have, such as those of playing, keep the family's defaults.

    Args:
        argv: The command line without the program's name.
        extra_parts: Dataclasses with the options of the environment family.
        defaults: Values the family has instead of the flags' own defaults, by flag.

    Returns:
        The configuration of the run, new or resumed.

    Raises:
        ConfigError: With all problems of the command line and of config.json at once.
        TypeError: A part of the family is not usable.
    """
    draft = _draft_from_command_line(argv, extra_parts, defaults)
    run = draft.run_options()
    path = None if run is None or run.restart_behavior != "resume" else RunFolder(run.folder).config_to_resume()
    if path is not None and path.exists():
        try:
            saved, names = load_config(path, extra_parts), names_in(path)
        except ConfigError as error:
            draft.problems += error.problems
        else:
            _add_saved(draft, saved, names)
    return draft.finish()


def merge_saved(saved: Config, parsed: Config) -> Config:
    """Merge the configuration of the run that is resumed with the command line that resumes it.

    A saved value counts unless its flag is on the command line. Values that were chosen automatically are chosen again,
    because the machine or the values they depend on may be others now. Flags that say where the saved run was found,
    such as ``experiment``, or concern one start alone count as parsed.

    Args:
        saved: From :func:`load_config`.
        parsed: From :func:`parse_config`, with the same parts.

    Returns:
        The merged configuration; saved values have the origin ``saved``.

    Raises:
        ConfigError: Values do not fit each other; or the saved run's environment is in a module that is imported by its
            name, and only the file says so.
    """
    draft = Draft([type(part) for part in parsed.extra_parts])
    draft.assign_from(parsed)
    _add_saved(draft, saved, draft.flags)
    return draft.finish()


def given_values(argv: Sequence[str]) -> dict[str, Any]:
    """Return what a command line gives flags, for families whose defaults depend on it.

    Args:
        argv: The command line without the program's name.

    Returns:
        Values by flag. What is wrong, or of a family's own parts, is left out: it is told of when the line is parsed.
    """
    flags, values = all_flags(), {}
    words_of_flag, _ = read_command_line(argv, flags)
    for name, words in words_of_flag.items():
        with contextlib.suppress(DisallowedValueError):
            values[name] = flags[name].value_type.from_words(words)
    return values


def _draft_from_command_line(
    argv: Sequence[str], extra_parts: Sequence[type], defaults: Mapping[str, Any] | None
) -> Draft:
    draft = Draft(extra_parts)
    for name, value in (defaults or {}).items():
        draft.assign(name, value, "family", source="default of the environment family")
    words_of_flag, problems = read_command_line(argv, draft.flags)
    draft.problems += problems
    for name, words in words_of_flag.items():
        flag = draft.flags[name]
        try:
            value = flag.value_type.from_words(words)
        except DisallowedValueError as error:
            draft.reject(name, flag.describe_problem(" ".join(words), str(error)))
        else:
            draft.assign(name, value, "command line")
    return draft


def _add_saved(draft: Draft, saved: Config, names: Iterable[str]) -> None:
    """Let saved values of these flags count, unless they are on the command line or of one start alone."""
    values = saved.values()
    for name in sorted(names):
        is_of_this_start = draft.origin(name) == "command line" or name in _FLAGS_OF_THIS_START
        if is_of_this_start or saved.origin(name) == "automatic":
            continue
        value = values[name]
        if name == "env" and ":" in value and value != draft.value(name):
            # Files are read without executing anything: code of the user's choice is named by the user.
            draft.reject(
                name,
                f"the run in this folder was made with --env={value}, which imports a module of that name: give --env "
                "on the command line, if that module is yours",
            )
        else:
            draft.assign(name, value, "saved")
