"""Owns the function with which every `train_*` command trains.

Every process of a run imports the main script, and this module with it: what only the Runner needs is imported when it
begins to train.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sample_profiler.components.observers import RunObserver, check_observers
from sample_profiler.profiling.process_clock import process_start_ns

__all__ = ["train"]


def train(
    argv: Sequence[str] | None = None,
    *,
    extra_parts: Sequence[type] = (),
    defaults: Mapping[str, Any] | None = None,
    observers: Sequence[RunObserver] = (),
) -> int:
    """Train as a command line says.

    Args:
        argv: the command line without the program's name; None: of this process.
        extra_parts: dataclasses with the options of the environment family.
        defaults: values the family has instead of the flags' own defaults, by flag.
        observers: are told how the run goes, in this process.

    Returns:
        Exit status: 0: the run ended as it should; 1: it failed; 2: the flags or the environment cannot be used;
        129, 130 or 143: a closed terminal (SIGHUP), Ctrl+C or SIGTERM ended it, in order.

    Raises:
        TypeError: an observer is no instance of a RunObserver, or a part of the options is not usable.
    """
    observers = check_observers(observers)
    started_ns = process_start_ns() if argv is None else time.perf_counter_ns()
    argv = sys.argv[1:] if argv is None else argv
    from sample_profiler.config import format_help, wants_help

    if wants_help(argv):
        print(format_help(extra_parts=extra_parts, defaults=defaults))
        return 0
    from sample_profiler.cli.training import train_as_told

    return train_as_told(argv, extra_parts, defaults, observers, started_ns)
