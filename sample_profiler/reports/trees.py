"""Owns the Timing trees that close the log of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sample_profiler.profiling import Timing

__all__ = ["format_trees"]

_WORKER = re.compile(r"RolloutWorker_w(\d+)$")
_ORDER = ("Batcher", "InferenceWorker", "Learner")  # then others; last RolloutWorkers and the Runner
_WORK_BLOCK = "env_step"


def format_trees(timings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the trees to show for a run, each a text of several lines.

    Of the RolloutWorkers these are the first, the last, the slowest (the one that spent most time stepping its
    environments), and one tree that adds up all of them.

    Args:
        timings: Timing of each component as plain data, by component.
    """
    loaded = {name: Timing.from_dict(plain) for name, plain in timings.items()}
    workers = sorted((name for name in loaded if _WORKER.match(name)), key=_worker_index)
    texts = [loaded[name].tree_str() for name in sorted(loaded, key=_rank) if name not in workers and name != "Runner"]
    texts += [loaded[name].tree_str() for name in _shown_workers(loaded, workers)]
    if len(workers) > 1:
        name = f"RolloutWorker (all {len(workers)}) profile"
        texts.append(Timing.merged(name, [loaded[worker] for worker in workers]).tree_str())
    if "Runner" in loaded:
        texts.append(loaded["Runner"].tree_str())
    return texts


def _shown_workers(loaded: Mapping[str, Timing], workers: list[str]) -> list[str]:
    if not workers:
        return []
    slowest = max(workers, key=lambda name: _work_s(loaded[name]))
    shown = {workers[0], workers[-1], slowest}
    return [worker for worker in workers if worker in shown]


def _work_s(timing: Timing) -> float:
    return timing[_WORK_BLOCK] if _WORK_BLOCK in set(timing) else 0.0


def _rank(name: str) -> tuple[int, str]:
    kinds = [index for index, kind in enumerate(_ORDER) if name.startswith(kind)]
    return (kinds[0] if kinds else len(_ORDER), name)


def _worker_index(name: str) -> int:
    match = _WORKER.match(name)
    return int(match[1]) if match else -1
