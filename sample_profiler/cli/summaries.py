"""Owns what a run writes down for TensorBoard while it goes on."""

from __future__ import annotations

from pathlib import Path

from sample_profiler.components.statistics import RunStatus
from sample_profiler.reports.tensorboard import ScalarWriter

__all__ = ["TensorBoardSummaries"]


class TensorBoardSummaries:
    """Writes a run's figures to `summary/{policy}`, under the names that users of Sample Factory chart.

    Args:
        folder: the run's `summary` folder.
        num_policies: of the run.
        flush_interval_s: after which what was written is on disk.
    """

    def __init__(self, folder: Path, num_policies: int, flush_interval_s: float) -> None:
        self._writers = [ScalarWriter(folder / str(policy), flush_interval_s) for policy in range(num_policies)]

    def on_status(self, status: RunStatus) -> None:
        """Nothing: summaries have an interval of their own."""

    def on_summaries(self, status: RunStatus) -> None:
        """Write the figures of this moment."""
        for policy, writer in enumerate(self._writers):
            values = dict(status.training.get(policy, {}))
            for name, value in status.episodes[policy].items():
                values[_EPISODE_TAGS.get(name, f"policy_stats/avg_{name}")] = value
            values["perf/_fps"] = next(iter(status.fps.values()))
            values["perf/_sampled_frames"] = float(status.sampled_frames)
            values["perf/policy_lag_mean"], values["perf/policy_lag_max"] = status.policy_lag[policy]
            writer.write(values, status.frames[policy])

    def on_stop(self) -> None:
        """Write what is left to disk."""
        for writer in self._writers:
            writer.close()


_EPISODE_TAGS = {"reward": "reward/reward", "len": "len/len"}
