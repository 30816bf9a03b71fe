"""Checks with pyright that all that is public has types, as whoever installs the package sees them.

mypy checks the package itself; this is what users' own programs are checked with, often another checker. Looked at are
all names of `sample_profiler`, and the members of its classes.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import sample_profiler

__all__ = ["main"]

_OF_OTHERS = {"Run.table"}  # of pandas, which not everybody has
_UNKNOWN = re.compile(r"\bUnknown\b")
_PYRIGHT = [sys.executable, "-m", "pyright", "--outputjson", f"--pythonpath={sys.executable}"]
_NO_NETWORK = {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}


def main() -> int:
    """Check, print what has no type, and return the exit status."""
    names = list(_public_names())
    with tempfile.TemporaryDirectory() as folder:
        revealed = (f"reveal_type(sample_profiler.{name})" for name in names)
        lines = ["# pyright: basic", "import sample_profiler", *revealed]
        program = Path(folder) / "names.py"
        program.write_text("\n".join(lines) + "\n", encoding="utf-8")
        done = subprocess.run([*_PYRIGHT, str(program)], capture_output=True, text=True, env=os.environ | _NO_NETWORK)
    try:
        told = json.loads(done.stdout)["generalDiagnostics"]
    except ValueError:
        print(done.stdout + done.stderr, file=sys.stderr)
        return 1
    problems = [each["message"] for each in told if each["severity"] == "error" or _UNKNOWN.search(each["message"])]
    print("\n".join([*problems, f"{len(problems)} of {len(names)} public names have no type, or not a whole one"]))
    return 1 if problems or len(told) < len(names) else 0


def _public_names() -> Iterator[str]:
    """Yield the names of the package, and those of the members of its classes."""
    for name in sample_profiler.__all__:
        yield name
        value = getattr(sample_profiler, name)
        if inspect.isclass(value):
            members = (f"{name}.{member}" for member in vars(value) if not member.startswith("_"))
            yield from (member for member in members if member not in _OF_OTHERS)


if __name__ == "__main__":
    raise SystemExit(main())
