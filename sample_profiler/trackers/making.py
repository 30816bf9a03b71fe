"""Owns which trackers there are, whether their packages are installed, and how they are made."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from sample_profiler.trackers.tracker import TrackedRun, Tracker

__all__ = ["TRACKERS", "describe_missing", "make_tracker"]

TRACKERS = ("wandb", "trackio", "mlflow")
"""By the names of their packages and of the extras that install them."""


def describe_missing(name: str) -> str:
    """Say what is to be installed for a tracker; empty: it is there."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None:  # not a folder of that name, such as wandb makes
        return ""
    return f"{name} is not installed: pip install 'sample_profiler[{name}]'"


def make_tracker(name: str, run: TrackedRun, folder: Path) -> Tracker:
    """Begin a run of a tracker, or go on with it.

    Args:
        name: one of `TRACKERS`.
        run: of this package.
        folder: for files, as long as the tracker is used.

    Raises:
        Exception: whatever the tracker's package raises.
    """
    if name == "wandb":
        from sample_profiler.trackers.to_wandb import WandbTracker

        return WandbTracker(run, folder)
    if name == "trackio":
        from sample_profiler.trackers.to_trackio import TrackioTracker

        return TrackioTracker(run, folder)
    from sample_profiler.trackers.to_mlflow import MlflowTracker

    return MlflowTracker(run, folder)
