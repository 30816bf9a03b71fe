"""What a process is told by its environment, read when the package is imported: what is set later changes nothing."""

from __future__ import annotations

import os

__all__ = ["ARE_RANGES_ARMED", "DOCTOR_VARIABLE", "RANGES_VARIABLE"]

RANGES_VARIABLE = "SAMPLE_PROFILER_PROFILING"
# Not read by `profiling.ranges`, which loads at its first use: what is set after the package's import arms nothing.
ARE_RANGES_ARMED = os.environ.get(RANGES_VARIABLE) == "1"

DOCTOR_VARIABLE = "SAMPLE_PROFILER_DOCTOR"
"""Has a program that trains examine its environment instead: how, as `sample-profiler doctor` has written it."""
