"""Profiles of functions (cProfile, yappi) of several processes as one, for `pstats` and whatever reads its files."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sample_profiler.files import written_whole

__all__ = ["merge_pstats"]

_Function = tuple[str, int, str]


def merge_pstats(parts: Mapping[str, Path], output: Path) -> None:
    """Write one profile of several, in which a function of each process is a function of its own.

    The name of the component stands before that of the file: ``RolloutWorker_w0:/path/file.py``.

    Args:
        parts: files as `cProfile.Profile.dump_stats` writes them, by component.
        output: is written.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a part is no profile.
    """
    merged: dict[_Function, tuple[Any, ...]] = {}
    for component, path in parts.items():
        for function, (*figures, callers) in _load(path).items():
            renamed = {_rename(component, caller): counts for caller, counts in callers.items()}
            merged[_rename(component, function)] = (*figures, renamed)
    with written_whole(output) as partial:
        partial.write_bytes(marshal.dumps(merged))


def _load(path: Path) -> dict[_Function, tuple[Any, ...]]:
    try:
        statistics: dict[_Function, tuple[Any, ...]] = marshal.loads(path.read_bytes())
    except (EOFError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no profile of functions: {error}; capture again") from error
    return statistics


def _rename(component: str, function: _Function) -> _Function:
    file, line, name = function
    return f"{component}:{file}", line, name
