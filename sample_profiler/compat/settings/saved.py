"""Owns how Sample Factory's code reads the options that a run has kept, in its format and in that of this package."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sample_profiler.compat.settings.arguments import foreign_defaults
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.compat.settings.carrying import CARRIED, carried_in, run_folder_of
from sample_profiler.errors import UsageError
from sample_profiler.run_folder import RunFolder

__all__ = [
    *("cfg_dict", "cfg_file", "cfg_str", "checkpoint_override_defaults", "experiment_dir", "experiments_dir"),
    *("load_from_checkpoint", "maybe_load_from_checkpoint", "preprocess_cfg", "summaries_dir", "verify_cfg"),
]

logger = logging.getLogger(__name__)


def cfg_dict(cfg: Any) -> AttrDict:
    """Return options as a dictionary whose entries are attributes."""
    return AttrDict(cfg if isinstance(cfg, Mapping) else vars(cfg))


def cfg_str(cfg: Any) -> str:
    """Return options as text, one a line."""
    return "\n".join(f"{name}={value}" for name, value in cfg_dict(cfg).items())


def experiment_dir(cfg: Any, mkdir: bool = True) -> str:
    """Return the run's folder.

    Args:
        cfg: Options.
        mkdir: Whether to make it, if it is not there.
    """
    folder = run_folder_of(cfg_dict(cfg)).path
    if mkdir:
        folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def experiments_dir(cfg: Any, mkdir: bool = True) -> str:
    """Return the folder of all runs; made, if it is not there, unless told not to."""
    folder = run_folder_of(cfg_dict(cfg)).path.parent
    if mkdir:
        folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def summaries_dir(experiment_dir_: str, mkdir: bool = True) -> str:
    """Return where the TensorBoard events of a run are, in a folder for each policy; made as above."""
    folder = RunFolder(Path(experiment_dir_)).summary
    if mkdir:
        folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def cfg_file(cfg: Any) -> str:
    """Return where the run's options are kept."""
    return str(run_folder_of(cfg_dict(cfg)).config)


def load_from_checkpoint(cfg: Any) -> AttrDict:
    """Return the options that the run has kept, but for those of the command line, which count before them.

    Options that it has not kept have the values of `cfg`.

    Args:
        cfg: Options, from `parse_full_cfg`.

    Raises:
        UsageError: There is no such run.
    """
    cfg = cfg_dict(cfg)
    saved = _read(cfg)
    if saved is None:
        raise UsageError(
            f"there is no run in {run_folder_of(cfg).path}: say which with --train_dir and --experiment, as it was "
            "trained"
        )
    given = {name: value for name, value in cfg.get("cli_args", {}).items() if name in cfg}
    return AttrDict({**cfg, **saved, **{name: cfg[name] for name in given}})


def maybe_load_from_checkpoint(cfg: Any) -> AttrDict:
    """Do the same, if there is such a run; else return the options as they are."""
    cfg = cfg_dict(cfg)
    return cfg if _read(cfg) is None else load_from_checkpoint(cfg)


def checkpoint_override_defaults(cfg: Any, parser: argparse.ArgumentParser) -> AttrDict:
    """Make what the run has kept the defaults of a parser.

    Raises:
        UsageError: There is no such run.
    """
    saved = _read(cfg_dict(cfg))
    if saved is None:
        raise UsageError(f"there is no run in {run_folder_of(cfg_dict(cfg)).path}")
    parser.set_defaults(**saved)
    return AttrDict(saved)


def preprocess_cfg(cfg: Any, env_info: Any) -> bool:
    """Choose what was left open; tell whether the options fit each other, which a run here finds out itself."""
    if cfg.recurrence == -1:
        cfg.recurrence = cfg.rollout if cfg.use_rnn else 1
    return verify_cfg(cfg, env_info)


def verify_cfg(cfg: Any, env_info: Any) -> bool:  # noqa: ARG001
    """Tell whether options fit each other: a run here finds that out itself, and says what to do."""
    return True


def _read(cfg: AttrDict) -> dict[str, Any] | None:
    """Return the options that a run has kept; None: there is none, or its file cannot be read."""
    path = run_folder_of(cfg).config_to_resume()
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        logger.warning("Cannot read %s: %s", path, error)
        return None
    flags = document.get("flags") if isinstance(document, dict) else None
    if not isinstance(flags, dict):
        return document if isinstance(document, dict) else None
    values = {name: entry["value"] for name, entry in flags.items() if entry["origin"] != "automatic"}
    values.pop(CARRIED, None)
    carried = carried_in(document)
    place = ("experiment", "train_dir", "restart_behavior")
    return {**foreign_defaults(), **{n: v for n, v in values.items() if n not in place}, **carried}
