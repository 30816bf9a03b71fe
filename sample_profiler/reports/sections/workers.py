"""The RolloutWorkers of a run beside each other: which of them is slower than the others, or waits for longer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sample_profiler.analysis.facts import ComponentLoad, median_of_others
from sample_profiler.reports.sections.tables import format_percent, format_seconds
from sample_profiler.vocabulary import (
    ENV_STEP,
    FOR_INFERENCE,
    FOR_LEARNER,
    SLOWEST_ENV,
    SLOWEST_ENV_RATIO,
    SLOWEST_PERCENT_SHARE,
    SLOWEST_PERMILLE_SHARE,
)

__all__ = ["WORKER_TITLES", "WorkerFigures", "worker_figures", "worker_rows"]

WORKER_TITLES = (
    "worker",
    "busy",
    "waits for inference",
    "waits for the Learner",
    "group step",
    "to the others",
    "slowest environment to the others",
    "time in the slowest 1 % and 0.1 % of steps",
)
"""Of the columns of `worker_rows`; all but the first are numbers."""


@dataclass(frozen=True)
class WorkerFigures:
    """One worker.

    Attributes:
        worker: its name.
        busy, waits_for_inference, waits_for_learner: shares of its wall time.
        step_s: how long a step of one of its groups takes on average, in seconds.
        to_others: how many times as long as the median of the other workers; None: there are none that step.
        slowest_env: index of its slowest environment over the last seconds; None: none is slower than the others.
        slowest_env_ratio: how many times as long as those of its others the steps and resets of that one take; None
            likewise.
        slowest_percent_share, slowest_permille_share: of the time in steps of its environments over the last seconds,
            what the slowest hundredth and thousandth of them take; None: not known.
    """

    worker: str
    busy: float
    waits_for_inference: float
    waits_for_learner: float
    step_s: float
    to_others: float | None
    slowest_env: int | None
    slowest_env_ratio: float | None
    slowest_percent_share: float | None
    slowest_permille_share: float | None


def worker_figures(workers: Sequence[ComponentLoad]) -> list[WorkerFigures]:
    """Return the figures of each worker, in the order given."""
    steps_s = {load.name: load.seconds_per_pass(ENV_STEP) for load in workers}
    figures = []
    for load in workers:
        others_s = median_of_others(steps_s, load.name)
        env, ratio = load.gauges.get(SLOWEST_ENV, 0.0), load.gauges.get(SLOWEST_ENV_RATIO, 0.0)
        has_slowest = ratio > 0 and math.isfinite(ratio) and math.isfinite(env)
        figures.append(
            WorkerFigures(
                worker=load.name,
                busy=load.busy,
                waits_for_inference=load.waits.get(FOR_INFERENCE, 0.0),
                waits_for_learner=load.waits.get(FOR_LEARNER, 0.0),
                step_s=steps_s[load.name],
                to_others=steps_s[load.name] / others_s if others_s else None,
                slowest_env=int(env) if has_slowest else None,
                slowest_env_ratio=ratio if has_slowest else None,
                slowest_percent_share=load.gauges.get(SLOWEST_PERCENT_SHARE),
                slowest_permille_share=load.gauges.get(SLOWEST_PERMILLE_SHARE),
            )
        )
    return figures


def worker_rows(workers: Sequence[WorkerFigures]) -> list[list[str]]:
    """Return the figures of each worker as text, one entry for each of `WORKER_TITLES`."""
    return [
        [
            each.worker,
            format_percent(each.busy),
            format_percent(each.waits_for_inference),
            format_percent(each.waits_for_learner),
            format_seconds(each.step_s),
            "–" if each.to_others is None else f"{each.to_others:.2f} ×",
            "–" if not each.slowest_env_ratio else f"{each.slowest_env_ratio:.1f} × (environment {each.slowest_env})",
            _describe_shares(each.slowest_percent_share, each.slowest_permille_share),
        ]
        for each in workers
    ]


def _describe_shares(*shares: float | None) -> str:
    return ", ".join("–" if share is None else format_percent(share) for share in shares)
