"""Owns results that are kept line by line, as JSON, each with the machine and the commit that it is of.

A line is written as soon as there is something to say, also that it has failed: whoever is killed in the middle loses
only what was under way, and the next call goes on behind what is there.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sample_profiler.runtime.machine.machine import Machine

__all__ = [
    *("ROOT", "describe_machine"),
    "append_line",
    "ask_git",
    "describe_origin",
    "end_when_told",
    "read_commit",
    "read_lines",
    "tell_origins",
]

ROOT = Path(__file__).parents[1]


def describe_origin() -> dict[str, str]:
    """Return what every line has to tell beside what was seen: the machine, and the commit of the code."""
    return {"machine": describe_machine(), "commit": read_commit()}


def describe_machine() -> str:
    """Return processor and cores: runs on others cannot be compared."""
    machine = Machine.this()
    return f"{machine.processor}, {machine.num_cpus} cores"


def read_commit(folder: Path = ROOT) -> str:
    """Return the commit of the code, with a "+" if files differ from it; "unknown" if it is not in a clone.

    Args:
        folder: in the clone.
    """
    head = ask_git(folder, "rev-parse", "--short=12", "HEAD")
    # What is kept grows while it is measured, and is no code.
    changed = ask_git(
        folder, "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)benchmarks/results"
    )
    return head + ("+" if changed else "") if head else "unknown"


def ask_git(folder: Path, *arguments: str) -> str:
    """Return what git says in a folder; nothing where there is no git, or no clone."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:  # there is no git
        return ""
    return "" if done.returncode else done.stdout.strip()


def end_when_told() -> None:
    """Have SIGTERM and SIGHUP end this program as Ctrl+C does: what it has started is ended, too."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line to a file, and have it written before anything else happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 1))
        cut_off = b"\n" if size and file.read(1) != b"\n" else b""  # by a kill: what follows is a line of its own
        file.write(cut_off + json.dumps(line).encode() + b"\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file, but for those that were cut off; none if there is no file."""
    lines: list[dict[str, Any]] = []
    if path.exists():
        for text in path.read_text(errors="replace").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                lines.append(json.loads(text))
    return lines


def tell_origins(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return the machines and commits of lines, each once, in words."""
    origins = dict.fromkeys(f"{line['machine']}, commit {line['commit']}" for line in lines)
    return "; ".join(origins)
