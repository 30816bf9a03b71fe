"""Builds a wheel of the source distribution in dist with each Python that is given and here.

Recorder and kernels are compiled, so a wheel is of one version of Python: what they read of a thread's state is in no
stable interface (abi3). auditwheel looks at which C library they need, and names the wheel after the oldest that has
it, as registries want it (manylinux).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]

DIST = Path(__file__).resolve().parents[1] / "dist"
_REQUIRED = {"SAMPLE_PROFILER_REQUIRE_EXTENSIONS": "1"}


def main(pythons: Sequence[str]) -> int:
    """Build the wheels.

    Args:
        pythons: names of interpreters, or paths.

    Returns:
        The exit status: 1 if none of these is here, or there is not one source distribution.
    """
    sources = sorted(DIST.glob("sample_profiler-*.tar.gz"), key=lambda path: path.stat().st_mtime_ns)
    found = [python for python in pythons if _runs(python)]
    for python in set(pythons) - set(found):
        print(f"{python} is not here: left out")
    if not found or not sources:
        print(f"there is {'no Python' if sources else 'no source distribution in dist'} to build with", file=sys.stderr)
        return 1
    for python in found:
        with tempfile.TemporaryDirectory() as folder:
            print(_build(python, sources[-1], Path(folder)))
    return 0


def _runs(python: str) -> bool:
    """Tell whether an interpreter is here, and not merely a name for one that is not."""
    return shutil.which(python) is not None and not subprocess.run([python, "-c", ""], capture_output=True).returncode


def _build(python: str, source: Path, folder: Path) -> str:
    """Build a wheel and return its name."""
    built = folder / "built"
    subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
    build = [str(folder / "venv/bin/python"), "-m", "pip", "wheel", "--quiet", "--no-deps", f"--wheel-dir={built}"]
    subprocess.run([*build, str(source)], env=os.environ | _REQUIRED, check=True)
    (wheel,) = built.glob("*.whl")
    subprocess.run(["auditwheel", "repair", f"--wheel-dir={folder / 'named'}", str(wheel)], check=True)
    (named,) = (folder / "named").glob("*.whl")
    shutil.copy(named, DIST)
    return f"{DIST.name}/{named.name}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
