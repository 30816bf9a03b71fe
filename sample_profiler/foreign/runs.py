"""Owns the import of a run: its folder becomes one of this package that resumes, evaluates and plays."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sample_profiler.config import Config, save_config
from sample_profiler.errors import CheckpointError, UsageError
from sample_profiler.foreign.layout import named_moments, translate_model
from sample_profiler.foreign.options import CARRIED_KEY, read_options, translate_options
from sample_profiler.foreign.reading import read_checkpoint
from sample_profiler.ppo.named_moments import NAMED_STATE
from sample_profiler.run_folder import RunFolder
from sample_profiler.storage.checkpoint_names import sorted_checkpoints
from sample_profiler.storage.checkpoints import FORMAT_VERSION

__all__ = ["ImportedRun", "import_run"]

_LEARNED_STDDEV = "action_parameterization.learned_stddev"


@dataclass(frozen=True)
class ImportedRun:
    """What was imported.

    Attributes:
        folder: The run's folder.
        env: Name of its environment.
        checkpoints: By policy: frames that its latest checkpoint has been trained on.
        notes: What could not be taken over, in words.
    """

    folder: Path
    env: str
    checkpoints: dict[int, int]
    notes: list[str]


def import_run(source: Path, target: Path) -> ImportedRun:
    """Make a run of this package of one of Sample Factory 2.

    Args:
        source: Its folder, which stays as it is.
        target: The new folder; it must not exist, or be empty.

    Raises:
        CheckpointError: A checkpoint cannot be read, or is of a network that there is none of here.
        ConfigError: Its options do not fit together here.
        UsageError: There is no such run, or there is something in the new folder.
    """
    source, target = source.absolute(), target.absolute()
    options = read_options(source)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} is there already: give the imported run a folder of its own")
    with _made_whole(target) as folder:
        states = dict(_translated(source, folder, options))
        if not states:
            raise CheckpointError(f"there are no checkpoints in {source}: it has no checkpoint_p0/checkpoint_*.pth")
        has_learned_stddev = any(state.has_learned_stddev for state in states.values())
        changed: dict[str, Any] = {
            "train_dir": str(target.parent),
            "experiment": target.name,
            # The network says whether one deviation stands for all states; where none does, means are not bounded.
            "adaptive_stddev": not has_learned_stddev,
            **({} if has_learned_stddev else {"continuous_tanh_scale": 0.0}),
        }
        config, rest, notes = translate_options(options, changed)
        _save_options(config, rest, RunFolder(folder).config)
    return ImportedRun(target, config.run.env, {policy: state.frames for policy, state in states.items()}, notes)


@contextlib.contextmanager
def _made_whole(target: Path) -> Iterator[Path]:
    """Have a folder filled under another name first: nobody finds half a run."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        yield folder
        if target.exists():
            target.rmdir()
        folder.chmod(0o777 & ~_umask())
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@dataclass(frozen=True)
class _Translated:
    """What is known of a policy's latest checkpoint."""

    frames: int
    has_learned_stddev: bool


def _translated(source: Path, target: Path, options: Mapping[str, Any]) -> Iterator[tuple[int, _Translated]]:
    """Write the checkpoints of each policy anew, and yield what is known of its latest one."""
    metric = str(options.get("save_best_metric", "reward"))
    for folder in RunFolder(source).all_checkpoints():
        index = folder.name.rpartition("p")[2]
        if not index.isdecimal():
            continue
        latest = None
        ours = RunFolder(target).checkpoints(int(index))
        milestones = (RunFolder.milestones(folder), RunFolder.milestones(ours))
        for (place, kind), goal in {
            (folder, "best"): ours,
            (milestones[0], "checkpoint"): milestones[1],
            (folder, "checkpoint"): ours,
        }.items():
            for _, path in sorted_checkpoints(place, kind):
                state = read_checkpoint(path)
                goal.mkdir(parents=True, exist_ok=True)
                torch.save(_translate(state, path, metric), goal / path.name)
                latest = _Translated(int(state["env_steps"]), _LEARNED_STDDEV in state["model"])
        if latest is not None:
            yield int(index), latest


def _translate(state: dict[str, Any], path: Path, metric: str) -> dict[str, Any]:
    """Return what a checkpoint of this package holds.

    Raises:
        CheckpointError: It is of a network that there is none of here.
    """
    try:
        best = float(state.get("best_performance", -math.inf))
        return {
            "format_version": FORMAT_VERSION,
            "model": translate_model(state["model"]),
            "optimizer": {NAMED_STATE: named_moments(state["optimizer"], state["model"])},
            "schedule": {"learning_rate": float(state["curr_lr"])} if state.get("curr_lr") is not None else {},
            "optimizer_steps": int(state["train_step"]),
            "frames": int(state["env_steps"]),
            "best_metric": best,
            "best_metric_name": metric,
            "latest_metrics": torch.zeros(0, dtype=torch.float64),
            "random": np.random.default_rng().bit_generator.state,
        }
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} is not as Sample Factory 2 writes them ({type(error).__name__}: {error})"
        ) from error
    except CheckpointError as error:
        raise CheckpointError(f"{path} cannot be imported: {error}") from None


def _save_options(config: Config, rest: dict[str, Any], path: Path) -> None:
    save_config(config, path)
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, CARRIED_KEY: rest}, indent=2) + "\n", encoding="utf-8")
