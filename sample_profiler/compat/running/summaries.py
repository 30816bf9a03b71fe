"""Owns the writer of summaries as Sample Factory's observers know it: tensorboardX's, for figures at any time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from sample_profiler.errors import UsageError
from sample_profiler.run.observers import SummaryWriter

__all__ = ["Summaries", "finish_wandb", "init_wandb"]

_NUM_BINS = 30


def init_wandb(cfg: Any) -> None:
    """Do nothing where Weights & Biases is not asked for, as most scripts leave it.

    Raises:
        UsageError: It is.
    """
    if cfg.get("with_wandb"):
        raise UsageError("init_wandb is not served: with --with_wandb=True runs are shown there by themselves")


def finish_wandb(cfg: Any) -> None:
    """Do nothing: nothing was begun."""
    init_wandb(cfg)


class Summaries:
    """Takes what is to be written of a policy, and hands it on when the run's own summaries are written.

    Steps may be left out: they are the frames trained on by then. Times of one's own are not kept.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[str, str, Any, Any, dict[str, Any]]] = deque()

    def add_scalar(self, tag: str, scalar_value: Any, global_step: Any = None, *_times: Any, **_options: Any) -> None:
        """Take one value."""
        self._keep("add_scalar", tag, float(scalar_value), global_step)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: Any = None, *_times: Any, **_options: Any
    ) -> None:
        """Take several values, each under a name of its own behind the common one."""
        for name, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{name}", value, global_step)

    def add_histogram(
        self, tag: str, values: Any, global_step: Any = None, bins: Any = _NUM_BINS, *_times: Any, **_options: Any
    ) -> None:
        """Take how values are spread; bins are of one width, whatever else is asked for."""
        num_bins = bins if isinstance(bins, int) else _NUM_BINS
        self._keep("add_histogram", tag, _copied(values), global_step, bins=num_bins)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, *_times: Any, dataformats: str = "CHW", **_others: Any
    ) -> None:
        """Take a picture."""
        self._keep("add_image", tag, _copied(img_tensor), global_step, dataformats=dataformats)

    def add_figure(self, tag: str, figure: Any, global_step: Any = None, *_options: Any, **_others: Any) -> None:
        """Take a figure of Matplotlib as a picture."""
        figure.canvas.draw()
        self.add_image(tag, figure.canvas.buffer_rgba(), global_step, dataformats="HWC")

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: Any = None, fps: float = 4, *_times: Any, **_options: Any
    ) -> None:
        """Take videos, side by side."""
        self._keep("add_video", tag, _copied(vid_tensor), global_step, fps=fps)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, *_times: Any, **_options: Any) -> None:
        """Take a text."""
        self._keep("add_text", tag, text_string, global_step)

    def flush(self) -> None:
        """Do nothing: the run has what it writes on disk by `flush_summaries_interval`."""

    def hand_on(self, writer: SummaryWriter, env_steps: int) -> None:
        """Write what was taken.

        Args:
            writer: Of the run.
            env_steps: Frames that the policy has been trained on.

        Raises:
            ValueError: A picture or a video is none.
        """
        while self._kept:
            method, tag, value, step, options = self._kept.popleft()
            getattr(writer, method)(tag, value, env_steps if step is None else int(step), **options)

    def _keep(self, method: str, tag: str, value: Any, step: Any, **options: Any) -> None:
        self._kept.append((method, tag, value, step, options))


def _copied(values: Any) -> Any:
    """Return an array that stays as it is, of what may be written over: an array, a tensor or a list."""
    return np.array(values.detach().cpu().numpy() if hasattr(values, "detach") else values)
