"""Owns how Sample Factory's code evaluates: many episodes, whose figures are kept as a table."""

from __future__ import annotations

import csv
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sample_profiler.cli.playing.playing import describe_episodes, play_as_told
from sample_profiler.compat.running.statuses import status_of_exit
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.compat.settings.carrying import program_of, run_folder_of

__all__ = ["do_eval"]

logger = logging.getLogger(__name__)


def do_eval(cfg: Mapping[str, Any]) -> int:
    """Play `sample_env_episodes` episodes with each policy, without a window, and write what each was like.

    The tables have the names of those of `sample-profiler eval`, in the run's folder or in `csv_folder_name` there.

    Args:
        cfg: Options, from `parse_full_cfg`, those of playing among them.

    Returns:
        How it ended, as of `ExperimentStatus`.
    """
    cfg = AttrDict(cfg if isinstance(cfg, Mapping) else vars(cfg))
    run = run_folder_of(cfg)
    folder = run.path / (cfg.csv_folder_name or "")
    for policy in range(cfg.num_policies):
        chosen = {"max_num_episodes": cfg.sample_env_episodes, "policy_index": policy, "no_render": True}
        episodes: list[Any] = []
        status = play_as_told(program_of(AttrDict({**cfg, **chosen}), plays=True), episodes)
        if status:
            return status_of_exit(status)
        folder.mkdir(parents=True, exist_ok=True)
        _write(episodes, folder / f"{run.evaluation(policy).name}.csv")
        logger.info("Policy %d: %s", policy, describe_episodes(episodes))
    return status_of_exit(0)


def _write(episodes: list[Any], path: Path) -> None:
    rows = [{"reward": each.reward, "len": each.num_frames, **each.extra} for each in episodes]
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, ["", *names])
        table.writeheader()
        table.writerows({"": number, **row} for number, row in enumerate(rows))
