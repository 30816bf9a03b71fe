"""Says what many cases of the fault matrix come to: a table of fault, victim and mode, and whether all is well."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.faults.cases import Plan
from tests.faults.matrix import BACK_S, BACK_SHARE, KINDS

__all__ = ["Key", "describe_missing", "describe_throughput", "key_of", "latest_of", "to_row", "to_table"]

Key = tuple[str, str, str, int]
"""Fault, victim, mode and number of the round."""

_COUNTED = ("hang", "orphan", "shared memory", "checkpoint")
_COLUMNS = (
    *("fault", "victim", "mode", "runs", "bad", "hangs", "orphans", "leaked shared memory", "unreadable checkpoints"),
    *("slow afterwards", "not played", "longest end, s", "throughput after"),
)


def key_of(case: Plan | Mapping[str, Any]) -> Key:
    """Return what tells a case from all others."""
    if isinstance(case, Plan):
        return case.fault, case.victim, case.mode, case.number
    return case["fault"], case["victim"], case["mode"], case["number"]


def latest_of(lines: Iterable[Mapping[str, Any]]) -> dict[Key, Mapping[str, Any]]:
    """Return the latest line of each case: one that was made again counts as it was then."""
    return {key_of(line): line for line in lines}


def to_row(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the cases of one fault, victim and mode, or of any, come to.

    Args:
        lines: of cases; one at least.
    """
    counts = {kind: sum(any(k == kind for k, _ in line["problems"]) for line in lines) for kind in KINDS}
    ends = [line[name] for line in lines for name in ("ended_s", "back_s") if line[name] is not None]
    ratios = sorted(line["throughput"] for line in lines if line["throughput"] is not None)
    return {
        "runs": len(lines),
        "bad": sum(bool(line["problems"]) for line in lines),
        **counts,
        "longest_s": max(ends, default=None),
        "ratios": ratios,
    }


def to_table(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return a table in Markdown: a row for each fault, victim and mode, the last one for all."""
    places: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        places.setdefault((line["fault"], line["victim"], line["mode"]), []).append(line)
    rows = [(*place, *_cells(to_row(places[place]))) for place in sorted(places)]
    if everything := [line for place in places.values() for line in place]:
        rows.append(("all", "", "", *_cells(to_row(everything))))
    texts = [_COLUMNS, ["---"] * len(_COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in texts)


def _cells(row: Mapping[str, Any]) -> list[str]:
    counts = [row["runs"], row["bad"], *(row[kind] for kind in (*_COUNTED, "throughput", "error"))]
    ratios = row["ratios"]
    throughput = f"{ratios[0]:.2f} to {ratios[-1]:.2f}" if ratios else ""
    return [*map(str, counts), "" if row["longest_s"] is None else f"{row['longest_s']:.1f}", throughput]


def describe_throughput(lines: Iterable[Mapping[str, Any]]) -> str:
    """Say how many runs were as fast as before soon after a worker was replaced."""
    measured = [line for line in lines if line["throughput"] is not None]
    ratios = [line["throughput"] for line in measured]
    if not ratios:
        return "No throughput was measured after a replacement"
    num_back = sum(ratio >= BACK_SHARE for ratio in ratios)
    return (
        f"{num_back} of {len(ratios)} runs whose worker was replaced ({num_back / len(ratios):.0%}) were back at "
        f"{BACK_SHARE:.0%} of an undisturbed run's throughput within {BACK_S:g} s; the lowest ratio is "
        f"{min(ratios):.2f}, the median {statistics.median(ratios):.2f}. "
        f"{sum(bool(line.get('again_fps')) for line in measured)} of them were slower than the undisturbed run before "
        "them, and are compared with another one right after them"
    )


def describe_missing(wanted: Iterable[Plan], kept: Mapping[Key, Any]) -> str:
    """Say how many of the wanted cases there are."""
    plans = list(wanted)
    num_kept = sum(key_of(plan) in kept for plan in plans)
    more = "" if num_kept == len(plans) else ": the same command goes on with the others"
    return f"{num_kept} of {len(plans)} cases are there{more}"
