"""Owns the names of checkpoint files, which tell what is in them without PyTorch."""

from __future__ import annotations

import contextlib
import math
import re
from pathlib import Path

__all__ = [
    "MILESTONES",
    "best_name",
    "checkpoint_folder",
    "has_trained",
    "holds_training",
    "metric_in_name",
    "newest_steps",
    "sorted_checkpoints",
]

MILESTONES = "milestones"
"""The subfolder of checkpoints that are never removed."""

_MOST_CHARACTERS = 100  # of one byte each: names of files have 255
_HUGE = 1e15
_NAME = re.compile(
    r"(?P<kind>checkpoint|best)_(?P<steps>\d{9,18})_(?P<frames>\d{1,18})(_(?P<metric>.+)_(?P<value>[-\d.einf]+))?\.pth"
)


def checkpoint_folder(run_folder: Path, policy: int) -> Path:
    """Return where the checkpoints of a policy are."""
    return run_folder / f"checkpoint_p{policy}"


def sorted_checkpoints(folder: Path, kind: str) -> list[tuple[int, Path]]:
    """Return the optimizer steps and paths of the checkpoints in a folder, oldest first.

    Args:
        folder: from `checkpoint_folder`; need not exist.
        kind: "checkpoint" or "best".
    """
    found = []
    for path in folder.glob(f"{kind}_*.pth"):
        match = _NAME.fullmatch(path.name)
        if match:
            found.append((int(match["steps"]), int(match["frames"]), path))
    return [(steps, path) for steps, _, path in sorted(found)]


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
    return any(map(holds_training, run_folder.glob("checkpoint_p*")))


def holds_training(folder: Path) -> bool:
    """Tell the same of one policy's folder of checkpoints; it need not exist."""
    places = ((folder, "checkpoint"), (folder, "best"), (folder / MILESTONES, "checkpoint"))
    return any(steps > 0 for place in places for steps, _ in sorted_checkpoints(*place))


def _as_text_of_name(metric: str) -> str:
    """Return the name of a metric, which may have any characters, as part of the name of a file."""
    return re.sub(r"[^\w.-]", "-", metric, flags=re.ASCII)[:_MOST_CHARACTERS]


def newest_steps(run_folder: Path, num_policies: int) -> tuple[int, ...]:
    """Return the optimizer steps of the newest checkpoint of each policy; 0 where there is none."""
    found = (sorted_checkpoints(checkpoint_folder(run_folder, policy), "checkpoint") for policy in range(num_policies))
    return tuple(checkpoints[-1][0] if checkpoints else 0 for checkpoints in found)
