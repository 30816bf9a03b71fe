"""`python -m sample_profiler` is `sample-profiler`."""

from __future__ import annotations

import sys

from sample_profiler.runtime.signals.early_interrupts import end_silently_when_interrupted

__all__ = ["main"]


def main() -> int:
    """Do what the command line of this process asks for.

    Returns:
        The exit status.
    """
    end_silently_when_interrupted()
    from sample_profiler.cli.main import main as command  # only now, since it takes a while

    return command()


if __name__ == "__main__":
    sys.exit(main())
