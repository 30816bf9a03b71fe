"""The composed limits that `benchmarks.limit` has found: how fast a task could go at most on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["PARTS", "compose", "limit_path", "read_limits"]

PARTS = ("environment", "inference", "training")
"""What a step needs a core for."""


def compose(core_seconds: Mapping[str, float], num_cores: int, frames_per_step: int) -> float:
    """Return the frames per second at which all cores do nothing but these parts and never wait.

    Args:
        core_seconds: that a step takes in each part.
        num_cores: of the machine.
        frames_per_step: what a step counts for.
    """
    return num_cores / sum(core_seconds[part] for part in PARTS) * frames_per_step


def limit_path(folder: Path, task: str) -> Path:
    """Return where the limits of a task are kept."""
    return folder / f"limit-{task}.json"


def read_limits(folder: Path, task: str) -> dict[str, float]:
    """Return the limits of a task in frames per second, by arm; none if they have not been measured."""
    path = limit_path(folder, task)
    if not path.exists():
        return {}
    return {arm: float(parts["limit"]) for arm, parts in json.loads(path.read_text())["arms"].items()}
