"""Options of the trackers that a run is shown in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sample_profiler.config.limits import NOT_EMPTY, option, text_option


@dataclass(frozen=True, kw_only=True)
class TrackingOptions:
    """Trackers."""

    track: tuple[Literal["tensorboard", "wandb", "trackio", "mlflow"], ...] = ("tensorboard",)
    """Where the run's figures are shown, under the same names: tensorboard, whose files are written in any case; wandb
    (Weights & Biases), trackio and mlflow are sent them by a process beside the run, each of which needs the extra of
    its name: pip install 'sample_profiler[mlflow]'. A run that is resumed goes on as the same one there."""

    track_project: str = text_option("sample_profiler", NOT_EMPTY)
    """Project of Trackio and experiment of MLflow, unless MLFLOW_EXPERIMENT_NAME is set."""

    track_timeout: float = option(10.0, minimum=0, maximum=86_400)
    """Seconds that trackers may take at the end of the run for what they still have to send; the run then ends without
    them, and says how to send the rest."""

    with_wandb: bool = False
    """Show the run in Weights & Biases, as --track=wandb does."""

    wandb_user: str | None = None
    """User or team of Weights & Biases (its entity); None: the one who is logged in."""

    wandb_project: str = text_option("sample_factory", NOT_EMPTY)
    """Project of Weights & Biases."""

    wandb_group: str | None = None
    """Group of the run in Weights & Biases; None: the name of its environment."""

    wandb_job_type: str = "SF"
    """Type of the run in Weights & Biases."""

    wandb_tags: tuple[str, ...] = ()
    """Tags of the run in Weights & Biases."""

    wandb_dir: str = text_option("./wandb", NOT_EMPTY)
    """Folder for the files of Weights & Biases."""
