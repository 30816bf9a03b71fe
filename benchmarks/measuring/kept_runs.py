"""Owns files of results, which an interrupted benchmark goes on with: JSON lines, the setting first, then the runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.kept_lines import ROOT, append_line, ask_git, read_lines
from sample_profiler.runtime.machine.machine import Machine

__all__ = ["KeptRuns", "describe_commit"]

_ROOT = ROOT
_CODE = ("sample_profiler", "sf_examples", "benchmarks", ":(exclude)benchmarks/results")


class KeptRuns:
    """Results of runs in a file, each as soon as it is there.

    Args:
        path: of the file; one that is there is gone on with.
        arguments: what all runs are made with, as plain data; machine and commit are noted with them.

    Raises:
        SystemExit: the file has runs of another machine or commit, or with other arguments.

    Attributes:
        results: all of them, those of earlier calls first.
    """

    def __init__(self, path: Path, arguments: Mapping[str, Any]) -> None:
        self._path = path
        setting = {"machine": Machine.this().to_dict(), "commit": describe_commit(), **arguments}
        setting = json.loads(json.dumps(setting))  # as it is read back
        self.results: list[dict[str, Any]] = []
        if lines := read_lines(path):
            _check(path, lines[0], setting)
            self.results = lines[1:]
        else:
            append_line(path, setting)

    def add(self, result: dict[str, Any]) -> None:
        """Keep a result."""
        self.results.append(result)
        append_line(self._path, result)


def describe_commit() -> str:
    """Return the commit that is checked out, and a mark of what was changed since; "unknown" without git."""
    commit = ask_git(_ROOT, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    changes = ask_git(_ROOT, "diff", "HEAD", "--", *_CODE)
    return f"{commit} and changes {hashlib.sha256(changes.encode()).hexdigest()[:8]}" if changes else commit


def _check(path: Path, kept: Mapping[str, Any], setting: Mapping[str, Any]) -> None:
    others = sorted(name for name in kept.keys() | setting.keys() if kept.get(name) != setting.get(name))
    if others:
        raise SystemExit(f"{path} has runs of another {', '.join(others)}: give another --output")
