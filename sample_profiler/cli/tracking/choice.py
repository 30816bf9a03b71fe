"""Owns which trackers a run is to be shown in, and whether it can be."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sample_profiler.config import Config
from sample_profiler.config.parts import TrackingOptions
from sample_profiler.errors import ConfigError
from sample_profiler.trackers.making import TRACKERS, describe_missing

__all__ = ["chosen_trackers", "with_usable_trackers"]

logger = logging.getLogger(__name__)


def chosen_trackers(flags: Mapping[str, Any]) -> list[str]:
    """Return the trackers that processes beside a run tell of it, each once.

    Args:
        flags: of the run.
    """
    chosen = {*flags.get("track", ()), *(("wandb",) if flags.get("with_wandb") else ())}
    return [name for name in TRACKERS if name in chosen]


def with_usable_trackers(config: Config) -> Config:
    """Return the configuration of a run whose trackers can be told of it.

    Raises:
        ConfigError: what they need is not installed.
    """
    chosen = chosen_trackers(config.values())
    missing = {name: problem for name in chosen if (problem := describe_missing(name))}
    if missing:
        raise ConfigError(
            [f"{_flag_of(name, config)}: {problem}, or leave it out" for name, problem in missing.items()]
        )
    folder = config.tracking.wandb_dir
    if "wandb" in chosen and config.origin("wandb_dir") == "saved" and not Path(folder).expanduser().is_dir():
        # A config.json that came from another machine does not choose where files are made on this one.
        own = TrackingOptions().wandb_dir
        logger.warning("There is no folder --wandb_dir=%s, as the run's config.json says: using %s", folder, own)
        return replace(config, tracking=replace(config.tracking, wandb_dir=own))
    return config


def _flag_of(name: str, config: Config) -> str:
    flag, text = ("track", name) if name in config.tracking.track else ("with_wandb", "True")
    return f"--{flag}={text}" + (" (saved)" if config.origin(flag) == "saved" else "")
