"""Owns how a forecast reads: a table with a line for each size, and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from sample_profiler.analysis.forecast import Forecast, Pipeline
from sample_profiler.reports.sections.tables import format_duration, format_percent, format_table

__all__ = ["describe_parts", "format_forecasts"]

_MB = 1e6


def describe_parts(pipeline: Pipeline) -> str:
    """Return what was recorded of the parts of a run, in a line."""
    return (
        f"A machine makes a dataset of {pipeline.dataset_frames:,.0f} frames in {format_duration(pipeline.make_s)} and "
        f"trains on one in {format_duration(pipeline.train_s)}; as messages, a dataset has "
        f"{pipeline.dataset_bytes / _MB:.2f} MB and the weights {pipeline.weights_bytes / _MB:.2f} MB"
    )


def format_forecasts(found: Sequence[Forecast], unit: str) -> str:
    """Return a table.

    Args:
        found: by size.
        unit: what a size counts: "nodes" or "cores".
    """
    titles = [unit, "frames/s", "nine of ten within", "efficiency", "limit"]
    rows = [
        [str(each.size), f"{each.fps:,.0f}", "{:,.0f} to {:,.0f}".format(*each.fps_interval),
         format_percent(each.efficiency), each.limit]
        for each in found
    ]  # fmt: skip
    if unit == "nodes":
        titles[4:4] = ["policy lag", "busiest link"]
        for row, each in zip(rows, found, strict=True):
            row[4:4] = [f"{each.policy_lag:.1f}", format_percent(each.network_load)]
    return format_table(titles, rows, right=set(range(len(titles) - 1)))
