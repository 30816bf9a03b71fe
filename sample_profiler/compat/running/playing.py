"""Owns how Sample Factory's code plays what was trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sample_profiler.cli.playing.playing import play_as_told
from sample_profiler.compat.running.statuses import status_of_exit
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.compat.settings.carrying import program_of

__all__ = ["enjoy"]


def enjoy(cfg: Mapping[str, Any]) -> tuple[int, float]:
    """Play a policy of a run.

    Args:
        cfg: Options, from `parse_full_cfg`, those of playing among them.

    Returns:
        How it ended, as of `ExperimentStatus`, and the mean reward of an episode; NaN: none was played to its end.
    """
    cfg = AttrDict(cfg if isinstance(cfg, Mapping) else vars(cfg))
    episodes: list[Any] = []
    status = status_of_exit(play_as_told(program_of(cfg, plays=True), episodes))
    return status, float(np.mean([episode.reward for episode in episodes])) if episodes else float("nan")
