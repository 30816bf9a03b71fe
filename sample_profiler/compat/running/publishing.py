"""Owns what Sample Factory's code does with a run that has been played: a video, a model card, the Hugging Face Hub."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from sample_profiler.cli.exporting.model_folder import CARD, HUB_EXTRA, front_matter, model_index, push_folder
from sample_profiler.compat.helpers.utilities import log
from sample_profiler.errors import ConfigError, UsageError
from sample_profiler.files import written_whole
from sample_profiler.reports.video import VideoWriter
from sample_profiler.run_folder import RunFolder

__all__ = [
    *("check_hub", "download", "generate_model_card", "generate_replay_video", "load_from_hf", "publish"),
    "push_to_hf",
]

_NUM_CHANNELS = 3


def generate_replay_video(dir_path: str, frames: Sequence[Any], fps: float, cfg: Any) -> None:
    """Write pictures as the video that `video_name` names, in a folder.

    Args:
        dir_path: The folder.
        frames: `[height, width, 3]`, or with the channels first, uint8.
        fps: Frames per second.
        cfg: Options.

    Raises:
        VideoError: Something is missing, or a frame is no picture.
    """
    name = (cfg.video_name or RunFolder(Path(dir_path)).replay.name).removesuffix(".mp4").removesuffix(".gif")
    video = VideoWriter(Path(dir_path) / name, fps)
    for frame in frames:
        picture = np.asarray(frame)
        video.add(np.moveaxis(picture, 0, -1) if picture.shape[0] == _NUM_CHANNELS else picture)
    video.close()
    log.info("Video of %d frames: %s", video.num_frames, video.path)


def generate_model_card(
    dir_path: str,
    algo: str,
    env: str,
    repo_id: str,
    rewards: Sequence[float] | None = None,
    enjoy_name: str | None = None,
    train_name: str | None = None,
) -> None:
    """Write what hubs show of a run into its folder.

    Args:
        dir_path: The folder.
        algo: Name of the algorithm.
        env: Name of the environment.
        repo_id: As in "user/name".
        rewards: Of the episodes that were played.
        enjoy_name: Module that plays the run.
        train_name: Module that trains it on.
    """
    head: dict[str, Any] = {"library_name": "sample_profiler", "tags": ["reinforcement-learning", "ppo", env]}
    lines = [f"# {repo_id.rpartition('/')[-1]}", "", f"A policy for `{env}`, trained by {algo}."]
    if rewards:
        mean, spread = float(np.mean(rewards)), float(np.std(rewards))
        metric = {"type": "mean_reward", "value": f"{mean:.2f} +/- {spread:.2f}", "name": "mean_reward"}
        head |= model_index(algo, env, metric)
        lines[-1] += f" It got a reward of {mean:.2f} ± {spread:.2f} in {len(rewards)} episodes."
    for title, module in (("Play it", enjoy_name), ("Train it on", train_name)):
        flags = f"--algo={algo} --env={env} --train_dir=./train_dir --experiment={repo_id.rpartition('/')[-1]}"
        command = f"python -m sample_profiler.compat -m {module or 'MODULE'} {flags}"
        lines += ["", f"## {title}", "", "```", command, "```"]
    with written_whole(Path(dir_path) / CARD) as partial:
        partial.write_text(f"{front_matter(head)}\n" + "\n".join(lines) + "\n", encoding="utf-8")


def check_hub(cfg: Any) -> None:
    """Refuse, before anything is played, to publish where that cannot end well.

    Args:
        cfg: Options of playing.

    Raises:
        ConfigError: They do not say where to.
        UsageError: huggingface_hub is missing.
    """
    if "/" not in (cfg.hf_repository or ""):
        raise ConfigError([f"--hf_repository={cfg.hf_repository}: --push_to_hub wants it as user/name"])
    if find_spec("huggingface_hub") is None:
        raise UsageError(f"huggingface_hub is not installed, which --push_to_hub takes: {HUB_EXTRA}")


def push_to_hf(dir_path: str, repo_name: str) -> None:
    """Upload a folder to the Hugging Face Hub.

    Args:
        dir_path: The folder.
        repo_name: As in "user/name"; it is made if need be.

    Raises:
        UsageError: huggingface_hub is missing, or the hub refuses or cannot be reached.
    """
    log.info("Uploaded to %s", push_folder(Path(dir_path), repo_name))


def load_from_hf(dir_path: str, repo_id: str) -> None:
    """Download a run from the Hugging Face Hub; what came from Sample Factory is to be imported then.

    Args:
        dir_path: Folder of runs; the run's is named after it there.
        repo_id: As in "user/name".

    Raises:
        UsageError: huggingface_hub is missing, or the hub refuses or cannot be reached.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise UsageError(f"{error.name} is not installed, which takes runs from the hub: {HUB_EXTRA}") from None
    folder = Path(dir_path) / repo_id.rpartition("/")[-1]
    try:
        snapshot_download(repo_id, local_dir=folder)
    except Exception as error:  # of the hub, of the network, of a name that is none
        raise UsageError(f"{repo_id}: {type(error).__name__}: {error}") from error
    log.info(
        "Downloaded %s to %s; if Sample Factory has trained it, `sample-profiler import-checkpoint` makes a run of it",
        repo_id,
        folder,
    )


def download() -> int:
    """Do what `python -m sample_factory.huggingface.load_from_hub` is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-r", "--hf_repository", required=True, help="user/name")
    parser.add_argument("-d", "--train_dir", default="./train_dir", help="folder of runs")
    args = parser.parse_args()
    load_from_hf(args.train_dir, args.hf_repository)
    return 0


def publish() -> int:
    """Do what `python -m sample_factory.huggingface.push_to_hub` is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-r", "--hf_repository", required=True, help="user/name")
    parser.add_argument("-d", "--experiment_dir", required=True, help="folder of the run")
    parser.add_argument("--train_script", help="module that trains it on, for its card")
    parser.add_argument("--enjoy_script", help="module that plays it, for its card")
    args = parser.parse_args()
    flags = RunFolder(Path(args.experiment_dir)).flag_values()
    if not flags:
        raise UsageError(f"there is no run in {args.experiment_dir}: say which with -d")
    names = {"enjoy_name": args.enjoy_script, "train_name": args.train_script}
    generate_model_card(args.experiment_dir, "APPO", str(flags["env"]), args.hf_repository, **names)
    push_to_hf(args.experiment_dir, args.hf_repository)
    return 0
