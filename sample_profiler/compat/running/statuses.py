"""Owns how a run ended, in Sample Factory's numbers."""

from __future__ import annotations

from sample_profiler.cli.common.statuses import status_of_signal

__all__ = ["ExperimentStatus", "status_of_exit"]


class ExperimentStatus:
    """How a run ended."""

    SUCCESS, FAILURE, INTERRUPTED = range(3)


def status_of_exit(exit_status: int) -> int:
    """Return how a run ended whose `train` or `enjoy` returned this exit status."""
    if exit_status > status_of_signal(0):
        return ExperimentStatus.INTERRUPTED
    return ExperimentStatus.FAILURE if exit_status else ExperimentStatus.SUCCESS
