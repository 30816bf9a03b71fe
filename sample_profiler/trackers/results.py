"""Owns what a tracker is told of a run beside its points: its flags, and the files with what came of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sample_profiler.errors import SessionError
from sample_profiler.reports.run_report.loading import load_report
from sample_profiler.reports.run_report.page import format_html
from sample_profiler.reports.sections.accounts import format_accounts
from sample_profiler.reports.sections.verdict import verdict_to_markdown
from sample_profiler.run_folder import RunFolder
from sample_profiler.trackers.tracker import Outcome

__all__ = ["flags_to_tell", "write_results"]

_PRIVATE = ("alert_command", "alert_webhook")
"""Flags that say how somebody is called: whoever knows them could call, too."""


def flags_to_tell(folder: RunFolder) -> dict[str, Any]:
    """Return the flags of a run that others may see."""
    return {name: value for name, value in folder.flag_values().items() if name not in _PRIVATE}


def write_results(folder: RunFolder, into: Path) -> tuple[list[Path], Outcome]:
    """Write what came of a run that is over.

    Args:
        folder: of the run.
        into: folder for what is made of the run's files.

    Returns:
        Files for somebody else to keep, the run's videos among them; and how the run has ended.

    Raises:
        OSError: they cannot be written.
    """
    flags = flags_to_tell(folder)
    texts = {folder.config.name: json.dumps(flags, indent=2) + "\n"}
    outcome: Outcome = "killed"
    try:
        report = load_report(folder.path, with_events=False)
    except SessionError:  # it was killed before anything was recorded
        pass
    else:
        report.session.config = flags
        texts["verdict.md"] = verdict_to_markdown(report.verdict) + "\n"
        texts["accounts.txt"] = format_accounts(report.accounts) + "\n"
        texts[folder.report.name] = format_html(report)
        if folder.session.exists():
            outcome = "failed" if report.session.run.get("failure") else "finished"
    for name, text in texts.items():
        (into / name).write_text(text, encoding="utf-8", errors="backslashreplace")
    return [*(into / name for name in texts), *folder.replays()], outcome
