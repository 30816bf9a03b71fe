"""Owns what is told of a run that has ended: trees, accounts, the verdict, and the files with its figures."""

from __future__ import annotations

import json
import logging
import shlex
from pathlib import Path

from sample_profiler.cli.common.statuses import FAILED, status_of_signal
from sample_profiler.cli.report import write_page
from sample_profiler.cli.training.summaries import write_verdict
from sample_profiler.config import Config
from sample_profiler.files import written_whole
from sample_profiler.profiling.tree.render import printable
from sample_profiler.reports.run_report.report import RunReport, make_report
from sample_profiler.reports.sections.accounts import format_accounts, format_device
from sample_profiler.reports.sections.closing_trees import format_trees
from sample_profiler.reports.sections.learning import format_learning
from sample_profiler.reports.sections.trends import format_trends
from sample_profiler.reports.sections.verdict import format_verdict
from sample_profiler.run.run import RunResult
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.machine.machine import Machine
from sample_profiler.storage.checkpoint_names import newest_steps

__all__ = ["conclude", "exit_status"]

logger = logging.getLogger(__name__)


def conclude(config: Config, folder: Path, result: RunResult) -> None:
    """Write the trees and figures of a run to its log and, unless they are an earlier run's, to its files."""
    logger.info("The run has ended: %s", result.reason)
    for text in format_trees(result.session, result.unrecorded):
        logger.info("%s", text)
    report = make_report(folder.name, result.session, result.steady)
    lines = filter(None, (format_accounts(report.accounts), format_device(report.device_use)))
    logger.info("Where the time went:\n%s", "\n".join(lines))
    was_over = _was_over_before(config, result)
    if not was_over and (result.fps or not result.failure):  # advice about what has hardly begun misleads
        logger.info("Verdict: %s", format_verdict(report.verdict))
        if report.trends:
            logger.info("What changed over time: %s", format_trends(report.trends))
        if report.learning:
            logger.info("What keeps it from learning: %s", format_learning(report.learning))
    if result.keeps_earlier:
        logger.info("Nothing was trained: the recordings and the report of the earlier run stay as they were")
    else:
        _write_results(config, RunFolder(folder), result, report)
    if config.saving.benchmark:
        for name, chosen in result.processes.items():
            threads, cores = ("free" if value is None else value for value in chosen.values())
            logger.info("Chosen for %s: threads %s, cores %s", name, threads, cores)
        logger.info("Steady FPS over the last 75 %% of the frames: %.1f", result.steady_fps)
    for line in result.goals.lines:
        logger.info("%s", line)
    logger.info("Collected %s, FPS: %.1f", result.frames, result.fps)
    if was_over and result.goals.reached_before:
        logger.warning(
            "Nothing to train: %s; give another --stop_at, or none (--stop_at=)", result.goals.reached_before
        )
    elif was_over:
        frames, target = min(result.frames.values()), config.saving.train_for_env_steps
        message = "Trained for %s of %s frames already: raise --train_for_env_steps to go on"
        logger.warning(message, f"{frames:,}", f"{target:,}")
    elif not result.fps and not result.failure and result.interrupted_by is None:
        logger.warning("Nothing was trained: the run ended before its first batch was complete; let it run for longer")
    if result.failure:
        if result.fps:  # else it may be the checkpoint that it failed of
            _tell_how_to_go_on(config, folder)
        # Once more at the very end, where it is looked for: trees and tables came in between.
        logger.error("The run failed: %s: %s", result.failure.component, result.failure.message)
    elif result.fps and not result.keeps_earlier:
        logger.info("%s", _what_next(config, RunFolder(folder), result))


def _what_next(config: Config, folder: RunFolder, result: RunResult) -> str:
    """Return what somebody may do with a run that has ended in order."""
    reached = [each["frames"] for each in result.goals.facts.get("stop_at", ())]
    changes = {
        "--restart_behavior=resume": config.run.restart_behavior != "resume",
        "more --train_for_env_steps": min(result.frames.values()) >= config.saving.train_for_env_steps,
        "another --stop_at": bool(reached) and None not in reached,
    }
    words = " and ".join(change for change, is_due in changes.items() if is_due)
    more = f" with {words}" if words else ""
    return (
        f"Next: {printable(str(folder.report))} shows what limited it; the same command{more} goes on from here; "
        f"sample-profiler export {printable(shlex.quote(str(folder.path)))} writes the policy for other programs"
    )


def _tell_how_to_go_on(config: Config, folder: Path) -> None:
    steps = newest_steps(folder, config.sampling.num_policies)
    if any(steps):
        logger.info(
            "Saved up to optimizer step %s: --restart_behavior=resume, the default, goes on from there",
            " and ".join(f"{number:,}" for number in steps),
        )


def _was_over_before(config: Config, result: RunResult) -> bool:
    """Tell whether the run was resumed at its target, or past it, so that there was nothing to train."""
    if result.fps or result.failure or result.interrupted_by is not None:
        return False
    return bool(result.goals.reached_before) or min(result.frames.values()) >= config.saving.train_for_env_steps


def _write_results(config: Config, folder: RunFolder, result: RunResult, report: RunReport) -> None:
    _write_report(report, folder.report)
    try:
        write_verdict(folder, report.verdict, result.frames)
    except OSError as error:
        logger.warning("The verdict is not in TensorBoard: %s", error)
    if not (config.saving.benchmark or result.goals.facts):
        return
    benchmark = {
        "machine": Machine.this().to_dict(),
        "frames": result.frames,
        "elapsed_s": result.elapsed_s,
        "process_s": result.process_s,
        "fps": result.fps,
        "steady_fps": result.steady_fps,
        "processes": result.processes,
        **result.goals.facts,
    }
    try:
        with written_whole(folder.benchmark) as partial:
            partial.write_text(json.dumps(benchmark, indent=2) + "\n")
    except OSError as error:
        logger.warning("There is no benchmark.json: %s", error)


def _write_report(report: RunReport, path: Path) -> None:
    try:
        write_page(report, path)
    except OSError as error:
        logger.warning("There is no report: %s", error)
    else:
        logger.info("Report: %s", path)


def exit_status(result: RunResult) -> int:
    """Return the exit status of a run."""
    if result.failure:
        return FAILED
    if result.interrupted_by is not None:
        return status_of_signal(result.interrupted_by)
    return 0
