"""Owns how many episodes become figures: they are played at once, told of, and written into a table and a document."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sample_profiler.cli.common.problems import describe_os_error
from sample_profiler.cli.common.program import Program
from sample_profiler.cli.common.progress import progress_shown
from sample_profiler.cli.playing.playing import find_problems_of_run, load_played, told
from sample_profiler.config import Config, parse_run_config
from sample_profiler.config.parts import ManyEpisodesOptions
from sample_profiler.config.seeds import draw_seed
from sample_profiler.errors import ConfigError
from sample_profiler.files import expand_home, try_to_write, written_whole
from sample_profiler.profiling.tree.render import printable
from sample_profiler.run.env_probe import probe_env
from sample_profiler.run.many_episodes import ManyEpisodes, NumberedEpisode, play_many
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.processes.main_module import check_main_module

if TYPE_CHECKING:
    from sample_profiler.components.evaluation import PlayedEpisode

__all__ = ["evaluate_as_told"]

_ENDINGS = (".csv", ".json")


def evaluate_as_told(program: Program, episodes: list[PlayedEpisode]) -> int:
    """Play many episodes, and tell what is in the way if it cannot be done.

    Args:
        program: that plays, with `ManyEpisodesOptions` among its parts.
        episodes: takes those that were played.

    Returns:
        Exit status, as of `enjoy`.
    """
    return told(partial(_evaluate, program), episodes)


def _evaluate(program: Program, episodes: list[PlayedEpisode]) -> None:
    config = parse_run_config(program.argv, extra_parts=program.extra_parts, defaults=program.defaults)
    options = config.part(ManyEpisodesOptions)
    check_main_module()
    if problems := find_problems_of_run(config, options.policy_index):
        raise ConfigError(problems)
    results = _find_place_of_results(config)
    spec = probe_env(config)
    many = ManyEpisodes(
        config=config,
        spec=spec,
        played=load_played(config, spec, options.policy_index),
        num_episodes=options.max_num_episodes,
        num_workers=options.eval_workers,
        deterministic=options.eval_deterministic,
        seed=draw_seed() if config.run.seed is None else config.run.seed,
    )

    def tell(played: NumberedEpisode) -> None:
        episodes.append(played.episode)
        reward, frames = played.episode.reward, played.episode.num_frames
        print(f"Episode {len(episodes)}: reward {reward:.3f}, {frames:,} frames", flush=True)

    with progress_shown("playing", many.num_episodes, lambda: len(episodes)):
        played = play_many(many, tell)
    _write(config, many, played, results)


def _find_place_of_results(config: Config) -> Path:
    """Return what the files of the results are called, without their endings.

    Raises:
        ConfigError: they cannot be written; nobody shall play for hours for that.
    """
    options = config.part(ManyEpisodesOptions)
    folder = config.run.folder
    if options.eval_folder:
        folder = expand_home(options.eval_folder, "--eval_folder", ConfigError).absolute()
    path = RunFolder(folder).evaluation(options.policy_index)
    try:
        for ending in _ENDINGS:
            try_to_write(path.with_suffix(ending))
    except OSError as error:
        problem = f"the results cannot be written: {describe_os_error(error)}: give an --eval_folder where they can"
        raise ConfigError([problem]) from error
    return path


def _write(config: Config, many: ManyEpisodes, played: Sequence[NumberedEpisode], path: Path) -> None:
    """Write the results; they come in the same order whichever episode was over first."""
    options = config.part(ManyEpisodesOptions)
    rows = [_row_of(number, each) for number, each in enumerate(played)]
    of_table, of_document = _ENDINGS
    _write_table(rows, path.with_suffix(of_table))
    document = {
        "env": config.run.env,
        "run_folder": str(config.run.folder),
        "policy": options.policy_index,
        "checkpoint_kind": config.saving.load_checkpoint_kind,
        "trained_frames": many.played.states[options.policy_index]["frames"],
        "deterministic": many.deterministic,
        "seed": many.seed,
        "num_episodes": len(rows),
        "means": _figures_of(rows, np.mean),
        "stddevs": _figures_of(rows, _stddev),
        "episodes": rows,
    }
    with written_whole(path.with_suffix(of_document)) as partial_path:
        partial_path.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    print(f"Results: {printable(str(path))}.csv and .json")


def _row_of(number: int, played: NumberedEpisode) -> dict[str, Any]:
    episode = played.episode
    rewards = {} if len(episode.rewards) == 1 else {f"reward_{i}": value for i, value in enumerate(episode.rewards)}
    own = {"episode": number, "worker": played.worker, "reward": episode.reward}
    own |= {**rewards, "num_frames": episode.num_frames}
    figures = own | {name: value for name, value in episode.extra.items() if name not in own}
    return {name: value if math.isfinite(value) else None for name, value in figures.items()}


def _write_table(rows: Sequence[dict[str, Any]], path: Path) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with written_whole(path) as partial_path, partial_path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        table.writerows(rows)


def _figures_of(rows: Sequence[dict[str, Any]], summarize: Any) -> dict[str, float | None]:
    """Summarize each figure over the episodes that have it."""
    names = dict.fromkeys(name for row in rows for name in row if name not in ("episode", "worker"))
    summarized = {}
    for name in names:
        with np.errstate(all="ignore"):  # huge numbers have an infinite sum
            value = float(summarize([row[name] for row in rows if row.get(name) is not None] or [math.nan]))
        summarized[name] = value if math.isfinite(value) else None
    return summarized


def _stddev(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
