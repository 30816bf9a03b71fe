"""Owns what a run writes down for TensorBoard while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sample_profiler.analysis.verdict import Verdict
from sample_profiler.components.messages import ComponentSummaries, EvaluationFinished
from sample_profiler.reports.sections.verdict import verdict_to_markdown
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.records.statistics import RunStatus
from sample_profiler.run.runner import Runner
from sample_profiler.run_folder import RunFolder

if TYPE_CHECKING:
    from sample_profiler.reports.tensorboard import SummaryFile

__all__ = ["TensorBoardSummaries", "write_verdict"]


def write_verdict(folder: RunFolder, verdict: Verdict, frames: Mapping[int, int]) -> None:
    """Add the verdict on a run to the summaries of each of its policies, as a text.

    Args:
        folder: of the run.
        verdict: on the run.
        frames: that each policy has been trained on.

    Raises:
        OSError: it cannot be written.
    """
    for policy, num_frames in frames.items():
        file = _open(folder.summary_of(policy), flush_interval_s=1)
        file.add_text("perf/verdict", verdict_to_markdown(verdict), num_frames)
        file.close()


class TensorBoardSummaries(RunObserver):
    """Writes a run's figures to `summary/{policy}`, under the names that users of Sample Factory chart.

    Args:
        folder: of the run.
        num_policies: of the run.
        flush_interval_s: after which what was written is on disk.
    """

    def __init__(self, folder: RunFolder, num_policies: int, flush_interval_s: float) -> None:
        self._folder = folder
        self._num_policies = num_policies
        self._flush_interval_s = flush_interval_s
        self._runner: Runner | None = None

    @cached_property
    def _writers(self) -> list[SummaryFile]:
        folders = map(self._folder.summary_of, range(self._num_policies))
        return [_open(folder, self._flush_interval_s) for folder in folders]

    def on_init(self, runner: Runner) -> None:
        """Remember who asks the others for figures of their own, and have every evaluation written."""
        self._runner = runner
        _ = self._writers  # are there from the beginning
        runner.register_message_handler(EvaluationFinished, self._write_evaluation)
        runner.register_message_handler(ComponentSummaries, self._write_figures)

    def on_summaries(self, status: RunStatus) -> None:
        """Write the figures of this moment, once the run has any of its own."""
        if self._runner is not None and self._runner.records.keeps_earlier:
            return
        for policy, writer in enumerate(self._writers):
            # The run's own figures last: an environment may name one of its own like them.
            values = {_tag_of(name): value for name, value in status.episodes[policy].items()}
            values |= status.training.get(policy, {})
            values["perf/_fps"] = next(iter(status.fps.values()))
            values["perf/_sampled_frames"] = float(status.sampled_frames)
            values["perf/policy_lag_mean"], values["perf/policy_lag_max"] = status.policy_lag[policy]
            writer.write(values, status.frames[policy])
            if self._runner is not None:
                self._runner.add_extra_summaries(policy, status.frames[policy], writer)

    def on_stop(self, runner: Runner) -> None:  # noqa: ARG002
        """Write what is left to disk."""
        for writer in self._writers:
            writer.close()

    def _write_evaluation(self, _: Runner, evaluation: EvaluationFinished) -> None:
        values = {f"eval/{name}": value for name, value in evaluation.values.items()}
        self._writers[evaluation.policy].write(values, evaluation.frames)

    def _write_figures(self, _: Runner, summaries: ComponentSummaries) -> None:
        self._writers[summaries.policy].write(summaries.values, summaries.frames)


def _tag_of(name: str) -> str:
    """Return under which tag a figure of episodes is charted; one whose name has a group keeps it."""
    if name in ("reward", "len"):
        return f"{name}/{name}"
    return name if "/" in name else f"policy_stats/avg_{name}"


def _open(folder: Path, flush_interval_s: float) -> SummaryFile:
    # Not before: its import takes as long as that of all else of the Runner, and processes have been started now.
    from sample_profiler.reports.tensorboard import SummaryFile

    return SummaryFile(folder, flush_interval_s)
