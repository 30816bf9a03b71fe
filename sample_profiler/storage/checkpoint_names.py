"""Owns the names of checkpoint files, which tell what is in them without PyTorch."""

from __future__ import annotations

import contextlib
import math
import re
from pathlib import Path

from sample_profiler.run_folder import RunFolder

__all__ = [
    "best_name",
    "has_trained",
    "holds_training",
    "latest_name",
    "metric_in_name",
    "newest_frames",
    "newest_steps",
    "sorted_checkpoints",
]

_MOST_CHARACTERS = 100  # of one byte each: names of files have 255
_HUGE = 1e15
_PREFIXES = {"latest": "checkpoint", "best": "best"}
_NAME = re.compile(
    r"(?P<kind>checkpoint|best)_(?P<steps>\d{9,18})_(?P<frames>\d{1,18})(_(?P<metric>.+)_(?P<value>[-\d.einf]+))?\.pth"
)


def sorted_checkpoints(folder: Path, kind: str) -> list[tuple[int, Path]]:
    """Return the optimizer steps and paths of the checkpoints in a folder, oldest first.

    Args:
        folder: of checkpoints of one policy; need not exist.
        kind: "checkpoint" or "best".
    """
    found = []
    for path in folder.glob(f"{kind}_*.pth"):
        match = _NAME.fullmatch(path.name)
        if match:
            found.append((int(match["steps"]), int(match["frames"]), path))
    return [(steps, path) for steps, _, path in sorted(found)]


def latest_name(num_steps: int, num_frames: int) -> str:
    """Return the name of a checkpoint that is the latest when it is saved, or of a milestone."""
    return f"checkpoint_{num_steps:09}_{num_frames}.pth"


def best_name(num_steps: int, num_frames: int, metric: str, value: float) -> str:
    """Return the name of a best checkpoint, which tells by which metric it is the best, and its value."""
    digits = f"{value:.3f}" if abs(value) < _HUGE else f"{value:.3e}".replace("+", "")
    return f"best_{num_steps:09}_{num_frames}_{_as_text_of_name(metric)}_{digits}.pth"


def metric_in_name(path: Path, metric: str) -> float:
    """Return the value of a metric that the name of a best checkpoint tells, to three digits.

    Infinity where it tells none, NaN where it is of another metric.
    """
    match = _NAME.fullmatch(path.name)
    with contextlib.suppress(ValueError):
        if match and match["metric"]:
            return float(match["value"]) if match["metric"] == _as_text_of_name(metric) else math.nan
    return math.inf


def has_trained(run_folder: Path) -> bool:
    """Tell whether a run has saved anything that it had learned, by the names of its checkpoints."""
    return any(map(holds_training, RunFolder(run_folder).all_checkpoints()))


def holds_training(folder: Path) -> bool:
    """Tell the same of one policy's folder of checkpoints; it need not exist."""
    places = ((folder, "checkpoint"), (folder, "best"), (RunFolder.milestones(folder), "checkpoint"))
    return any(steps > 0 for place in places for steps, _ in sorted_checkpoints(*place))


def _as_text_of_name(metric: str) -> str:
    """Return the name of a metric, which may have any characters, as part of the name of a file."""
    return re.sub(r"[^\w.-]", "-", metric, flags=re.ASCII)[:_MOST_CHARACTERS]


def newest_steps(run_folder: Path, num_policies: int) -> tuple[int, ...]:
    """Return the optimizer steps of the newest checkpoint of each policy; 0 where there is none."""
    folders = map(RunFolder(run_folder).checkpoints, range(num_policies))
    found = (sorted_checkpoints(folder, "checkpoint") for folder in folders)
    return tuple(checkpoints[-1][0] if checkpoints else 0 for checkpoints in found)


def newest_frames(run_folder: Path, policy: int, kind: str) -> int:
    """Return the frames that a policy had been trained on when a checkpoint was saved; 0 where there is none.

    Args:
        run_folder: the run's folder.
        policy: index of the policy.
        kind: "latest" or "best".
    """
    checkpoints = sorted_checkpoints(RunFolder(run_folder).checkpoints(policy), _PREFIXES[kind])
    match = _NAME.fullmatch(checkpoints[-1][1].name) if checkpoints else None
    return int(match["frames"]) if match else 0
