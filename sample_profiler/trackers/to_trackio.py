"""Owns how Trackio is told of a run.

Where to is said as Trackio has it: TRACKIO_DIR, TRACKIO_SPACE_ID, TRACKIO_SERVER_URL, else its own store.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trackio

from sample_profiler.trackers.tracker import Outcome, Point, TrackedRun, ending_of

__all__ = ["TrackioTracker"]


class TrackioTracker:
    """A run of Trackio.

    Args:
        run: of this package.
        folder: for pictures, while they are on their way.
    """

    def __init__(self, run: TrackedRun, folder: Path) -> None:
        project = str(run.config["track_project"])
        self.run_id = run.id
        self._folder = folder
        self._run = trackio.init(
            project=project,
            name=self.run_id,
            group=str(run.config["env"]),
            config=dict(run.config),
            resume="allow",
            embed=False,
        )
        self.place = f'run {self.run_id}: trackio show --project "{project}"'

    def log(self, points: Sequence[Point]) -> None:
        """Take points, in order."""
        for point in points:
            texts = {name: trackio.Markdown(text) for name, text in point.texts.items()}
            pictures = {name: self._to_media(picture) for name, picture in point.pictures.items()}
            self._run.log(point.values | texts | pictures, step=point.step)

    def add_files(self, paths: Sequence[Path]) -> None:
        """Take files as the next version of an artifact."""
        artifact = trackio.Artifact(name=f"results-{self.run_id}", type="results")
        for path in paths:
            artifact.add_file(path)
        self._run.log_artifact(artifact)

    def close(self, outcome: Outcome) -> None:  # noqa: ARG002 (it has no word for it)
        """Wait until all has arrived."""
        trackio.finish()

    def _to_media(self, picture: bytes) -> Any:
        ending = ending_of(picture)
        path = self._folder / f"picture{ending}"
        path.write_bytes(picture)
        return trackio.Image(str(path)) if ending == ".png" else trackio.Video(str(path))
