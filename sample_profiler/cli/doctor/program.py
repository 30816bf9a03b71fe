"""Owns what a program that trains does when it is told to examine its environment instead."""

from __future__ import annotations

from sample_profiler.cli.common.problems import note
from sample_profiler.cli.common.program import Program
from sample_profiler.cli.common.statuses import BAD_USAGE
from sample_profiler.cli.doctor.doctor import examine_as_told
from sample_profiler.errors import SampleProfilerError

__all__ = ["examine_instead"]


def examine_instead(program: Program) -> int:
    """Examine the environment of a program; return the exit status."""
    try:
        return examine_as_told(program)
    except SampleProfilerError as error:
        note(str(error))
        return BAD_USAGE
