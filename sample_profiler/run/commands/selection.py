"""Owns the short names by which people choose components of a run, and are told of many."""

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
    names: Iterable[str], kinds: Collection[str] | None = None, workers: Collection[int] | None = None
) -> list[str]:
    """Return the components of these kinds, in the order given.

    Args:
        names: of all components.
        kinds: some of `KINDS`; None: all components, also those of no kind.
        workers: which of the rollout workers, by index; None: all.

    Raises:
        CaptureError: there is no such kind or worker, or nothing is left to choose.
    """
    names = list(names)
    unknown = [kind for kind in kinds or () if kind not in KINDS]
    if unknown:
        raise CaptureError(f"unknown components {', '.join(unknown)}; allowed are {', '.join(KINDS)}")
    if workers is not None and kinds is not None and "rollout" not in kinds:
        raise CaptureError("workers are chosen but components without rollout: add rollout to the components")
    indices = [index for name in names if (index := rollout_worker_index(name)) is not None]
    missing = [str(worker) for worker in workers or () if worker not in indices]
    if missing:
        there = f"allowed are {', '.join(map(str, sorted(indices)))}" if indices else "the run has none"
        raise CaptureError(f"there is no rollout worker {', '.join(missing)}; {there}")
    wanted = None if kinds is None else {KINDS[kind] for kind in kinds}
    chosen = [
        name
        for name in names
        if (wanted is None or ComponentId.parse(name).kind in wanted) and _is_wanted_worker(name, workers)
    ]
    if not chosen:
        raise CaptureError(f"none of these components is there; the run has {', '.join(names) or 'none at all'}")
    return chosen


def name_some(names: Sequence[str]) -> str:
    """Return names for a line of a log: all of them, or the first few and how many more there are."""
    if len(names) > _MOST_NAMED + 1:
        return f"{', '.join(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED} others"
    return ", ".join(names)


def _is_wanted_worker(name: str, workers: Collection[int] | None) -> bool:
    index = rollout_worker_index(name)
    return index is None or workers is None or index in workers
