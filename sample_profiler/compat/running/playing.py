"""Owns how Sample Factory's code plays what was trained, and shows what it plays in a loop of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from sample_profiler.cli.playing.playing import play_as_told
from sample_profiler.compat.environments.wrappers import opencv
from sample_profiler.compat.running.statuses import ExperimentStatus, status_of_exit
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.compat.settings.carrying import program_of, run_folder_of

__all__ = ["enjoy", "render_frame", "visualize_policy_inputs"]

_NUM_DIMENSIONS = 3
_ENLARGED = 5


def enjoy(cfg: Mapping[str, Any]) -> tuple[int, float]:
    """Play a policy of a run; with `push_to_hub`, upload the run with a card and what was saved of it.

    Args:
        cfg: Options, from `parse_full_cfg`, those of playing among them.

    Returns:
        How it ended, as of `ExperimentStatus`, and the mean reward of an episode; NaN: none was played to its end.

    Raises:
        ConfigError: It is not said as what to upload it.
        UsageError: The hub cannot be used.
    """
    cfg = AttrDict(cfg if isinstance(cfg, Mapping) else vars(cfg))
    publishes = cfg.get("push_to_hub", False)
    if publishes:
        from sample_profiler.compat.running.publishing import check_hub

        check_hub(cfg)
    episodes: list[Any] = []
    status = status_of_exit(play_as_told(program_of(AttrDict(cfg, push_to_hub=False), plays=True), episodes))
    rewards = [episode.reward for episode in episodes]
    if publishes and status == ExperimentStatus.SUCCESS:
        _publish(cfg, rewards)
    return status, float(np.mean(rewards)) if rewards else float("nan")


def _publish(cfg: AttrDict, rewards: list[float]) -> None:
    from sample_profiler.compat.running.publishing import generate_model_card, push_to_hf

    folder = str(run_folder_of(cfg).path)
    scripts = {"enjoy_name": cfg.enjoy_script, "train_name": cfg.train_script}
    generate_model_card(folder, cfg.algo, cfg.env, cfg.hf_repository, rewards, **scripts)
    push_to_hf(folder, cfg.hf_repository)


def render_frame(cfg: Any, env: Any, video_frames: list[Any], num_episodes: int, last_render_start: float) -> float:
    """Show a picture of what is played at `fps`, or keep it for a video.

    Args:
        cfg: Options of playing.
        env: Is asked for the picture.
        video_frames: Takes it, with `save_video`, while there are fewer than `video_frames` says.
        num_episodes: That are over.
        last_render_start: What this returned the last time, or `time.time()`.

    Returns:
        When this was called, for the next call.
    """
    now = time.time()
    if cfg.save_video:
        is_wanted = len(video_frames) < cfg.video_frames if cfg.video_frames >= 0 else num_episodes == 0
        if is_wanted and (frame := env.render()) is not None:
            video_frames.append(frame.copy())
    elif not cfg.no_render:
        if cfg.fps > 0:
            time.sleep(max(0.0, last_render_start + 1 / cfg.fps - now))
        env.render()
    return now


def visualize_policy_inputs(normalized_obs: Mapping[str, Any]) -> None:
    """Show the picture `obs` of the first agent as the policy sees it, `[N, channels, height, width]`, in a window."""
    pictures = normalized_obs.get("obs")
    if pictures is None or pictures[0].ndim != _NUM_DIMENSIONS:
        return
    cv2 = opencv()
    picture = np.moveaxis(pictures[0].cpu().numpy(), 0, -1)
    gray_to_white = cv2.normalize(picture, None, 0, 255, cv2.NORM_MINMAX, cv2.CV_8UC1)
    cv2.imshow("policy inputs", cv2.resize(gray_to_white, None, fx=_ENLARGED, fy=_ENLARGED, interpolation=0))
    cv2.waitKey(delay=1)
