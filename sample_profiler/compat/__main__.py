"""`python -m sample_profiler.compat [-m MODULE | SCRIPT] …` runs a program that was written for Sample Factory."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from sample_profiler.compat import install
from sample_profiler.errors import SampleProfilerError
from sample_profiler.runtime.signals.early_interrupts import end_silently_when_interrupted

__all__ = ["main"]

_USAGE = """\
Usage: python -m sample_profiler.compat -m MODULE [--flag=value …]
       python -m sample_profiler.compat SCRIPT.py [--flag=value …]

Runs a program that was written for Sample Factory 2, such as a train_* or enjoy_* script, with
sample_profiler in its place. The module is looked for in the current folder first."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a program.

    Args:
        argv: What it is called with, beginning with -m and a module, or with a script; None: of this process.

    Returns:
        The exit status.
    """
    end_silently_when_interrupted()
    words = list(sys.argv[1:] if argv is None else argv)
    is_module = words[:1] == ["-m"]
    words = words[1:] if is_module else words
    if not words or words[0].startswith("-"):
        sys.stderr.write(f"{_USAGE}\n")
        return 0 if words and words[0] in ("-h", "--help") else 2
    install()
    sys.argv = words
    try:
        if is_module:
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(1, os.path.dirname(os.path.abspath(words[0])))  # behind the names that are served
            runpy.run_path(words[0], run_name="__main__")
    except SampleProfilerError as error:  # its message says what is wrong, and what to do
        sys.stderr.write(f"{error}\n")
        return 2
    except SystemExit as error:
        # Scripts that play end with what `enjoy` returned: a status and the mean reward.
        if len(error.args) == 2 and isinstance(error.args[0], int):
            return error.args[0]
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
