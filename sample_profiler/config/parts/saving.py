"""Options of the end of a run and of what it saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sample_profiler.config.conditions import CONDITIONS
from sample_profiler.config.limits import NOT_EMPTY, option, text_option


@dataclass(frozen=True, kw_only=True)
class SavingOptions:
    """End and saving."""

    train_for_env_steps: int = option(10_000_000_000, minimum=1)
    """Number of environment steps after which the run ends, counted over resumes as well."""

    train_for_seconds: float = option(1e10, above=0)
    """Seconds after which the run ends, its start included."""

    stop_at: str = text_option("", CONDITIONS)
    """End the run when the policies are as good as this: conditions such as reward>=475, on means over the latest
    stats_avg episodes once so many have ended and, after each start, one for each agent. Of several, with commas
    between them, all have to hold at the same time; with several policies for each of them, or for one (reward@1>=20).
    reward, len, and what environments tell of their episodes can be asked for. Empty: never."""

    thresholds: str = text_option("", CONDITIONS)
    """Note when such means reach each of these, 100,200,475 or len>=300: in the log, and in benchmark.json in seconds
    since the start of the run and of its process, and in frames, of earlier starts of a resumed run, too."""

    save_every_sec: float = option(120.0, above=0)
    """Seconds between two checkpoints."""

    keep_checkpoints: int = option(2, minimum=1)
    """Number of latest checkpoints that are kept."""

    load_checkpoint_kind: Literal["latest", "best"] = "latest"
    """Which checkpoint to load: the last one saved, or the one with the best save_best_metric."""

    save_milestones_sec: float = option(-1.0, above=0, also=-1)
    """Seconds between two checkpoints that are kept for good; -1 keeps none."""

    save_best_every_sec: float = option(5.0, above=0)
    """Seconds between two looks at whether the policy is the best so far; a run that can be resumed exactly looks after
    each batch it has trained on, and writes the best one so often."""

    save_best_metric: str = text_option("reward", NOT_EMPTY)
    """Statistic by which the best policy is chosen, the mean over the latest stats_avg episodes; higher is better.
    true_objective is what the last info of an episode has under that name, else the reward. It counts once 20 episodes
    (or stats_avg, if that is less) have ended, those before a resume included, and after each start one for each
    agent."""

    save_best_after: int = option(100_000, minimum=0)
    """Number of environment steps before which no policy is saved as the best."""

    benchmark: bool = False
    """Measure throughput: no pause to decorrelate, no best policy saved, machine and automatic choices in the log,
    frames per second over the whole run and in its steady part, benchmark.json in the run's folder."""
