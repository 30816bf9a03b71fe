"""Owns how MLflow is told of a run: metrics and parameters of a run of an experiment, and its files as artifacts.

Where to is said as MLflow has it: MLFLOW_TRACKING_URI and its like, else a store in the current folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import mlflow
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from sample_profiler.trackers.tracker import Outcome, Point, TrackedRun, ending_of

__all__ = ["MlflowTracker"]

_PATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
"""Unless they are set: its own would have a server that does not answer asked for a quarter of an hour."""

_MOST_METRICS, _MOST_PARAMETERS, _LONGEST_VALUE, _LONGEST_NAME = 1000, 100, 6000, 250  # that its interface takes
_STATUS: dict[Outcome, str] = {"finished": "FINISHED", "failed": "FAILED", "killed": "KILLED"}

T = TypeVar("T")


class MlflowTracker:
    """A run of MLflow.

    Args:
        run: of this package.
        folder: for pictures, while they are on their way.
    """

    def __init__(self, run: TrackedRun, folder: Path) -> None:
        os.environ |= {name: value for name, value in _PATIENCE.items() if name not in os.environ}
        self._folder = folder
        self._flags: dict[str, object] = dict(run.config)  # that are still to be added
        self._client = mlflow.MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or str(run.config["track_project"])
        experiment_id = mlflow.set_experiment(name).experiment_id
        if run.earlier_id:
            self._go_on(run.earlier_id)
        # All else may fail and be tried again: with this, one more run would begin each time.
        self.run_id: str = run.earlier_id or self._client.create_run(experiment_id, run_name=run.name).info.run_id
        self.place = f"run {self.run_id} of the experiment {name}, {mlflow.get_tracking_uri()}"

    def log(self, points: Sequence[Point]) -> None:
        """Take points, in order."""
        self._add_parameters()
        metrics = [
            Metric(_allowed(name), value, round(point.time_s * 1000), point.step)
            for point in points
            for name, value in point.values.items()
        ]
        for part in _parts(metrics, _MOST_METRICS):
            self._client.log_batch(self.run_id, metrics=part)
        for point in points:
            for name, text in point.texts.items():
                self._client.log_text(self.run_id, text, f"{_allowed(name)}/{point.step}.md")
            for name, picture in point.pictures.items():
                self._add_picture(_allowed(name), point.step, picture)

    def add_files(self, paths: Sequence[Path]) -> None:
        """Take files as artifacts of the run, in the place of earlier ones of their names."""
        for path in paths:
            self._client.log_artifact(self.run_id, str(path))

    def close(self, outcome: Outcome) -> None:
        """Say how the run has ended; all else has arrived."""
        self._client.set_terminated(self.run_id, _STATUS[outcome])

    def _go_on(self, run_id: str) -> None:
        try:
            self._client.update_run(run_id, status="RUNNING")
        except MlflowException as error:
            raise RuntimeError(
                f"run {run_id} cannot be gone on with in {mlflow.get_tracking_uri()}: set MLFLOW_TRACKING_URI to the "
                f"store that it was begun in, or start where that was: {error}"
            ) from error

    def _add_parameters(self) -> None:
        """Add the flags that are not there yet: parameters cannot change, and a run that is resumed may have others."""
        if not self._flags:
            return
        known = self._client.get_run(self.run_id).data.params
        new = [Param(name, str(value)[:_LONGEST_VALUE]) for name, value in self._flags.items() if name not in known]
        for part in _parts(new, _MOST_PARAMETERS):
            self._client.log_batch(self.run_id, params=part)
        self._flags = {}

    def _add_picture(self, name: str, step: int, picture: bytes) -> None:
        path = self._folder / f"{step}{ending_of(picture)}"
        path.write_bytes(picture)
        self._client.log_artifact(self.run_id, str(path), name)
        path.unlink()


def _allowed(name: str) -> str:
    """Return a name that MLflow takes, which are paths, too: environments may choose others."""
    parts = re.sub(r"[^\w\-. /:]", "_", name)[:_LONGEST_NAME].split("/")
    return "/".join(part for part in parts if part.strip(". ")) or "_"


def _parts(items: list[T], most: int) -> Iterator[list[T]]:
    return (items[first : first + most] for first in range(0, len(items), most))
