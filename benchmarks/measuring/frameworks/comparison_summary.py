"""What can be said of runs of several frameworks that took turns: medians, spread, and ratios with their intervals."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.measuring.frameworks.comparison import Run
from benchmarks.measuring.statistic import describe_range, ratio_interval

__all__ = ["FIGURES", "pair_ratios", "summarize", "to_markdown"]

FIGURES = {
    "steady": "steady, frames/s",
    "whole": "whole run, frames/s",
    "first_step_s": "first step, s",
    "memory_mib": "memory, MiB",
}
"""The figures of a run, by attribute, with their headings."""


def pair_ratios(runs: Sequence[Run], arm: str, base: str, figure: str) -> dict[int, float]:
    """Return a figure of one arm over that of another, by round, for the rounds that both have."""
    values = {name: {run.round: getattr(run, figure) for run in runs if run.arm == name} for name in (arm, base)}
    common = sorted(values[arm].keys() & values[base].keys())
    return {number: values[arm][number] / values[base][number] for number in common if values[base][number]}


def summarize(
    runs: Sequence[Run], arms: Sequence[str], bases: Sequence[str], limits: Mapping[str, float]
) -> dict[str, Any]:
    """Return medians, lowest and highest of each arm, and its ratios to others.

    Args:
        runs: of all arms.
        arms: in order.
        bases: those that the others are compared with.
        limits: by arm: frames per second that the hardware allows for; as far as known.
    """
    document: dict[str, Any] = {"arms": {}, "ratios": {}}
    for arm in arms:
        own = [run for run in runs if run.arm == arm]
        if not own:
            continue
        figures: dict[str, Any] = {name: _spread([getattr(run, name) for run in own]) for name in FIGURES}
        share = figures["steady"]["median"] / limits[arm] if arm in limits else None
        document["arms"][arm] = {"runs": len(own), **figures, "share_of_limit": share}
        for base in bases:
            if arm not in bases and any(run.arm == base for run in runs):
                ratios = {figure: _ratio(pair_ratios(runs, arm, base, figure)) for figure in FIGURES}
                document["ratios"][f"{arm} / {base}"] = ratios
    return document


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}


def _ratio(pairs: Mapping[int, float]) -> dict[str, Any]:
    values = list(pairs.values())
    has_interval = len(values) >= 2 and min(values) > 0
    interval = asdict(ratio_interval(values, [1.0] * len(values))) if has_interval else None
    return {"pairs": values, "interval": interval}


def to_markdown(document: Mapping[str, Any]) -> str:
    """Return the tables of a summary."""
    lines = [f"| | runs | {' | '.join(FIGURES.values())} | of the limit |", "| --- |" + " --- |" * (len(FIGURES) + 2)]
    for arm, figures in document["arms"].items():
        share = figures["share_of_limit"]
        cells = [_describe_spread(figures[name]) for name in FIGURES]
        row = [arm, str(figures["runs"]), *cells, "–" if share is None else f"{share:.0%}"]
        lines.append(f"| {' | '.join(row)} |")
    if document["ratios"]:
        lines += ["", f"| ratios | {' | '.join(FIGURES.values())} | pairs |", "| --- |" + " --- |" * (len(FIGURES) + 1)]
        for name, ratios in document["ratios"].items():
            cells = [_describe_ratio(ratios[figure]) for figure in FIGURES]
            lines.append(f"| {name} | {' | '.join(cells)} | {len(ratios['steady']['pairs'])} |")
    return "\n".join(lines)


def _describe_spread(spread: Mapping[str, float]) -> str:
    digits = 1 if spread["highest"] < 100 else 0
    return describe_range(spread["median"], spread["lowest"], spread["highest"], digits)


def _describe_ratio(ratio: Mapping[str, Any]) -> str:
    interval = ratio["interval"]
    if interval is None:
        return f"{ratio['pairs'][0]:.2f}" if ratio["pairs"] else "–"
    return describe_range(interval["estimate"], interval["lower"], interval["upper"])
