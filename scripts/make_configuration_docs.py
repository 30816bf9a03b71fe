"""Writes docs/configuration.md from the options themselves; with ``--check`` says whether it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generated_pages import write_or_check

from sample_profiler.config import FlagDescription, describe_parts
from sample_profiler.config.parts import EvaluationOptions, ManyEpisodesOptions
from sample_profiler.config.values import LARGEST_FLOAT, SMALLEST_FLOAT
from sample_profiler.envs.gymnasium_ids import GYM_DEFAULTS, TASK_DEFAULTS
from sf_examples.atari.atari_env import ATARI_DEFAULTS
from sf_examples.mujoco.mujoco_env import MUJOCO_DEFAULTS
from sf_examples.vizdoom.doom_options import VIZDOOM_DEFAULTS, VizdoomOptions

FAMILIES = {"ViZDoom": VIZDOOM_DEFAULTS, "MuJoCo": MUJOCO_DEFAULTS, "Atari": ATARI_DEFAULTS, "Gymnasium": GYM_DEFAULTS}

PATH = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"

_INTRODUCTION = f"""\
# Configuration

This page is made from the options in `sample_profiler/config/parts` by `make docs`; change it there.

Options are written `--flag=value` or `--flag value`. A bare `--flag` means `True`; booleans take `True`, `False`, `1`,
`0`, `yes` and `no`; whole numbers may be written `1e7`, others be 0 or of a size from {SMALLEST_FLOAT:g} to
{LARGEST_FLOAT:g}; lists take several words (`--encoder_mlp_layers 512 512`) or none. Of a flag given twice the last
counts. A flag that does not exist is an error, never ignored, and one error lists all problems of a command line.

A value comes from the command line, else from the `config.json` of the run that is resumed, else from the defaults of
the environment family, which may have some for single environments, else from the default below. `config.json` in the
run's folder keeps every value and where it came from. When a run is resumed, values that were chosen automatically are
chosen again.

The flags of the last two parts are those of `enjoy_*` and of `sample-profiler eval`, which take all others from the
run's `config.json`.
"""

_OF_TASKS = """They hold where `--encoder_mlp_layers`, `--nonlinearity` and `--use_rnn` are the family's: with any other
network all is as for other environments.

"""


def make_page() -> str:
    """Return the text of docs/configuration.md."""
    blocks = [_INTRODUCTION]
    # Of the last two parts each program has one; some of their flags are the same.
    *_, many_episodes = describe_parts([ManyEpisodesOptions])
    for part in (*describe_parts([VizdoomOptions, EvaluationOptions]), many_episodes):
        rows = ["| flag | default | allowed | meaning |", "| --- | --- | --- | --- |"]
        rows += [_make_row(flag) for flag in part.flags]
        blocks.append(f"## {part.title}\n\n" + "\n".join(rows) + "\n")
    families = _make_defaults_section("environment families", FAMILIES, {})
    tasks = _make_defaults_section("some of Gymnasium's environments", TASK_DEFAULTS, GYM_DEFAULTS, _OF_TASKS)
    return "\n".join([*blocks, families, tasks])


def main(argv: list[str]) -> int:
    """Write the page, or with ``--check`` compare it; return the exit status."""
    return write_or_check(argv, PATH, make_page)


def _make_defaults_section(
    of: str, columns: Mapping[str, Mapping[str, Any]], common: Mapping[str, Any], about: str = ""
) -> str:
    """Return the defaults that some have instead of those of all others.

    Args:
        of: who has them.
        columns: the defaults of each.
        common: what others have instead of the flags' own.
        about: comes before the table.
    """
    of_column = [_describe_by_name(defaults) for defaults in columns.values()]
    of_others = _describe_by_name(common)
    rows = [_make_cells(["flag", *columns, "else"]), _make_cells(["---"] * (len(columns) + 2))]
    for name in (name for name in of_others if any(name in defaults for defaults in columns.values())):
        cells = [
            _show_default(flags[name]) if name in defaults else ""
            for flags, defaults in zip(of_column, columns.values(), strict=True)
        ]
        rows.append(_make_cells([f"`--{name}`", *cells, _show_default(of_others[name])]))
    return f"## Defaults of {of}\n\n{about}" + "\n".join(rows) + "\n"


def _describe_by_name(defaults: Mapping[str, Any]) -> dict[str, FlagDescription]:
    parts = describe_parts([VizdoomOptions, EvaluationOptions], defaults)
    return {flag.name: flag for part in parts for flag in part.flags}


def _make_row(flag: FlagDescription) -> str:
    return _make_cells([f"`--{flag.name}`", _show_default(flag), flag.allowed, flag.meaning])


def _show_default(flag: FlagDescription) -> str:
    return flag.default if flag.is_default_in_words else f"`{flag.default}`"


def _make_cells(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
