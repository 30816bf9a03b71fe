"""Owns how Weights & Biases is told of a run, with the flags that users of Sample Factory know.

All else is said as it has it, in WANDB_MODE, WANDB_API_KEY and its like.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import wandb

from sample_profiler.trackers.tracker import Outcome, Point, TrackedRun, ending_of

__all__ = ["WandbTracker"]

_STEP = "global_step"  # as what it takes from TensorBoard's files itself has it
_STATUS: dict[Outcome, int] = {"finished": 0, "failed": 1, "killed": 255}


class WandbTracker:
    """A run of Weights & Biases.

    Args:
        run: of this package.
        folder: for pictures, while they are on their way.
    """

    def __init__(self, run: TrackedRun, folder: Path) -> None:
        config = run.config
        self.run_id = run.id
        self._folder = folder
        self._num_points = run.num_points
        where = Path(config["wandb_dir"]).expanduser()
        where.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=config["wandb_project"],
            entity=config["wandb_user"],
            id=self.run_id,
            name=self.run_id,
            group=config["env"] if config["wandb_group"] is None else config["wandb_group"],
            job_type=config["wandb_job_type"],
            tags=list(config["wandb_tags"]),
            dir=str(where),
            resume="allow",
            settings=wandb.Settings(console="off"),
        )
        self._run.config.update(dict(config), allow_val_change=True)
        self._run.define_metric(_STEP)
        self._run.define_metric("*", step_metric=_STEP)
        folder_of_run = Path(self._run.dir).parent.resolve()
        self.place = f"offline: wandb sync {folder_of_run}" if self._run.offline else str(self._run.url)

    def log(self, points: Sequence[Point]) -> None:
        """Take points, in order."""
        for point in points:
            texts = {name: wandb.Html(f"<pre>{html.escape(text)}</pre>") for name, text in point.texts.items()}
            pictures = {name: self._to_media(picture) for name, picture in point.pictures.items()}
            told = {_STEP: point.step, "_timestamp": point.time_s, **point.values, **texts, **pictures}
            # Its own count of steps, which never falls: of a run that is resumed offline it knows no earlier ones.
            self._run.log(told, step=self._num_points)
            self._num_points += 1

    def add_files(self, paths: Sequence[Path]) -> None:
        """Take files as the next version of an artifact."""
        artifact = wandb.Artifact(f"results-{self.run_id}", "results")
        for path in paths:
            artifact.add_file(str(path))
        self._run.log_artifact(artifact)

    def close(self, outcome: Outcome) -> None:
        """Wait until all has arrived."""
        self._run.finish(exit_code=_STATUS[outcome])
        wandb.teardown()

    def _to_media(self, picture: bytes) -> Any:
        ending = ending_of(picture)
        path = self._folder / f"picture{ending}"
        path.write_bytes(picture)
        return wandb.Image(str(path)) if ending == ".png" else wandb.Video(str(path), format="gif")
