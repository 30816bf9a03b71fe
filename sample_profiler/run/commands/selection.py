"""Owns the names by which people choose components of a run, and are told of many."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sample_profiler.component_id import (
    BATCHER,
    EVALUATOR,
    INFERENCE_WORKER,
    LEARNER,
    ROLLOUT_WORKER,
    RUNNER,
    ComponentId,
    rollout_worker_index,
)
from sample_profiler.errors import CaptureError

__all__ = ["KINDS", "choose_components", "name_some"]

KINDS = {
    "rollout": ROLLOUT_WORKER,
    "inference": INFERENCE_WORKER,
    "learner": LEARNER,
    "batcher": BATCHER,
    "evaluator": EVALUATOR,
    "runner": RUNNER,
}
"""Kinds of components, by what people call them."""

_MOST_NAMED = 4


def choose_components(
    names: Iterable[str], wanted: Collection[str] | None = None, workers: Collection[int] | None = None
) -> list[str]:
    """Return the components that are wanted, in the order given.

    Args:
        names: of all components.
        wanted: kinds, of `KINDS`, and names of components; None: all components, also those of no kind.
        workers: which of the rollout workers, by index; None: all.

    Raises:
        CaptureError: there is no such kind, component or worker, or nothing is left to choose.
    """
    names = list(names)
    unknown = [each for each in wanted or () if each not in KINDS and each not in names]
    if unknown:
        allowed = f"{', '.join(KINDS)} and names of components"
        there = f"; the run has {', '.join(names)}" if names else ""
        raise CaptureError(f"unknown components {', '.join(unknown)}; allowed are {allowed}{there}")
    if workers is not None and wanted is not None and not any(map(_is_of_workers, wanted)):
        raise CaptureError("workers are chosen but components without rollout: add rollout to the components")
    indices = [index for name in names if (index := rollout_worker_index(name)) is not None]
    missing = [str(worker) for worker in workers or () if worker not in indices]
    if missing:
        there = f"allowed are {', '.join(map(str, sorted(indices)))}" if indices else "the run has none"
        raise CaptureError(f"there is no rollout worker {', '.join(missing)}; {there}")
    kinds = {KINDS[each] for each in wanted or () if each in KINDS}
    chosen = [
        name
        for name in names
        if (wanted is None or name in wanted or ComponentId.parse(name).kind in kinds)
        and _is_wanted_worker(name, workers)
    ]
    if not chosen:
        raise CaptureError(f"none of these components is there; the run has {', '.join(names) or 'none at all'}")
    return chosen


def name_some(names: Sequence[str]) -> str:
    """Return names for a line of a log: all of them, or the first few and how many more there are."""
    if len(names) > _MOST_NAMED + 1:
        return f"{', '.join(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED} others"
    return ", ".join(names)


def _is_of_workers(wanted: str) -> bool:
    return KINDS.get(wanted) == ROLLOUT_WORKER or rollout_worker_index(wanted) is not None


def _is_wanted_worker(name: str, workers: Collection[int] | None) -> bool:
    index = rollout_worker_index(name)
    return index is None or workers is None or index in workers
