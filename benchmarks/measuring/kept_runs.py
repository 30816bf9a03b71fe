"""Owns files of results, which an interrupted benchmark goes on with: JSON lines, the setting first, then the runs."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sample_profiler.runtime.machine import Machine

__all__ = ["KeptRuns", "describe_commit"]

_ROOT = Path(__file__).parents[2]
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
        if lines := _whole_lines(path):
            _check(path, json.loads(lines[0]), setting)
            self.results = [json.loads(line) for line in lines[1:]]
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(setting) + "\n")

    def add(self, result: dict[str, Any]) -> None:
        """Keep a result."""
        self.results.append(result)
        with self._path.open("a") as file:
            file.write(json.dumps(result) + "\n")


def describe_commit() -> str:
    """Return the commit that is checked out, and a mark of what was changed since; "unknown" without git."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    if commit is None:
        return "unknown"
    changes = _git("diff", "HEAD", "--", *_CODE)
    return f"{commit} and changes {hashlib.sha256(changes.encode()).hexdigest()[:8]}" if changes else commit


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _whole_lines(path: Path) -> list[str]:
    """Return the lines of a file, none if it is not there; one that was cut off is taken out of it."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return whole.splitlines()


def _check(path: Path, kept: Mapping[str, Any], setting: Mapping[str, Any]) -> None:
    others = sorted(name for name in kept.keys() | setting.keys() if kept.get(name) != setting.get(name))
    if others:
        raise SystemExit(f"{path} has runs of another {', '.join(others)}: give another --output")
