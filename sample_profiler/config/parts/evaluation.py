"""Options of playing a policy, during training and afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from sample_profiler.config.limits import TextRule, automatic_option, option, text_option
from sample_profiler.profiling.process.usable_cores import num_usable_cores


def find_video_reason(name: str) -> str:
    """Return why a name cannot be that of a video; empty text if it can."""
    is_plain = name.strip(" .") and name.isprintable() and not set(name) & set("/\\")
    return "" if is_plain else "is not the name of a file in the run's folder"


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """Playing a trained policy."""

    max_num_episodes: int = option(10, minimum=1)
    """Number of episodes to play."""

    max_num_frames: int = option(-1, minimum=1, also=-1)
    """Number of pictures after which playing ends, also in the middle of an episode; -1: with the last episode."""

    eval_deterministic: bool = False
    """Always take the most probable action, instead of drawing one as in training."""

    policy_index: int = option(0, minimum=0)
    """Which of the run's policies plays; with several agents it plays all of them."""

    eval_env_frameskip: int | None = option(None, minimum=1)
    """Frames between two pictures; divides env_frameskip, for which each action still counts. None: env_frameskip, as
    in training. So it is, unless given, where frames are stacked (env_framestack), whatever the family's default: a
    stack then holds the frames that it held in training. enjoy_vizdoom has 1, a picture of every tic."""

    no_render: bool = False
    """Show no window. Where there is no display, none is shown anyway."""

    save_video: bool = False
    """Save what is played as a video in the run's folder, without a window."""

    video_frames: int = option(-1, minimum=1, also=-1)
    """Number of pictures after which the video ends, while playing goes on; -1: with the last episode."""

    video_name: str = text_option(
        "replay", TextRule(find_reason=find_video_reason, allowed="the name of a file in the run's folder")
    )
    """Name of the video in the run's folder, with .mp4 or .gif behind it."""

    fps: float = option(0.0, minimum=0)
    """Frames per second that are shown and that the video has; 0: what the environment says, else 30."""


@dataclass(frozen=True, kw_only=True)
class ManyEpisodesOptions:
    """Playing many episodes at once, with sample-profiler eval."""

    max_num_episodes: int = option(100, minimum=1)
    """Number of episodes to play."""

    eval_workers: int = automatic_option(num_usable_cores, "number of usable cores", minimum=1, maximum=1000)
    """Number of processes that play, each with an environment and a copy of the policy."""

    eval_deterministic: bool = False
    """Always take the most probable action, instead of drawing one as in training."""

    policy_index: int = option(0, minimum=0)
    """Which of the run's policies plays; with several agents it plays all of them."""

    eval_folder: str = ""
    """Folder of the files with the results, eval_p0.csv and eval_p0.json for policy 0; empty: the run's."""


@dataclass(frozen=True, kw_only=True)
class TrainingEvaluationOptions:
    """Evaluation during training."""

    eval_every_steps: int = option(0, minimum=0)
    """Number of environment steps after which the policy plays episodes of its own, in a process of its own; training
    goes on meanwhile. With several agents it plays all of them, also those who are trained by another policy. 0: never.
    The end of the run does not wait for an evaluation: one that is due or under way then is left out, which the log
    says."""

    eval_num_episodes: int = option(10, minimum=1)
    """Number of episodes of each evaluation; actions are drawn as in training."""
