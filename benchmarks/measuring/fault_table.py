"""Says what many cases of the fault matrix come to: a table of fault, victim and mode, and whether all is well."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.fault_cases import Plan
from harness.faults import BACK_S, BACK_SHARE, KINDS

__all__ = ["Key", "decide", "describe_missing", "describe_throughput", "is_only_slow", "key_of", "to_row", "to_table"]

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


def is_only_slow(line: Mapping[str, Any]) -> bool:
    """Tell whether all that is wrong with a case is the throughput that was measured afterwards."""
    return {kind for kind, _ in line["problems"]} == {"throughput"}


def decide(lines: Iterable[Mapping[str, Any]]) -> dict[Key, dict[str, Any]]:
    """Return one line for each case, that of its latest play.

    Throughput alone is decided by all plays of a case, with the same code, in which nothing else was wrong, as their
    median: one window on a machine that others use, too, is a matter of chance, and playing until chance is kind would
    show nothing.

    Args:
        lines: of plays, in their order.

    Returns:
        By case; beside what a line has, `ratios` has the throughput of those that decide.
    """
    plays: dict[Key, list[Mapping[str, Any]]] = {}
    for line in lines:
        plays.setdefault(key_of(line), []).append(line)
    return {key: _decide_one(of_case) for key, of_case in plays.items()}


def _decide_one(plays: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    latest = dict(plays[-1])
    plays = [play for play in plays if play.get("commit") == latest.get("commit")]
    if latest["problems"] and not is_only_slow(latest):
        return latest | {"ratios": []}
    ratios = [p["throughput"] for p in plays if p["throughput"] is not None and (is_only_slow(p) or not p["problems"])]
    if not ratios or latest["throughput"] is None:
        return latest | {"ratios": []}
    ratio = statistics.median(ratios)
    text = f"{ratio:.1%} of the throughput {BACK_S:g} s after the worker was lost, in {len(ratios)} plays"
    problems = [("throughput", text)] if ratio < BACK_SHARE else []
    return latest | {"throughput": ratio, "problems": problems, "ratios": ratios}


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
    """Say how many runs were as fast as before soon after a worker was replaced.

    Args:
        lines: of cases, from `decide`.
    """
    measured = [line for line in lines if line["throughput"] is not None]
    ratios = [line["throughput"] for line in measured]
    if not ratios:
        return "No throughput was measured after a replacement"
    num_back = sum(ratio >= BACK_SHARE for ratio in ratios)
    num_again = sum(len(line["ratios"]) > 1 for line in measured)
    undisturbed = {tuple(line[name]) for line in measured for name in ("before_fps", "again_fps")}
    chance = [second / first for first, second in filter(None, undisturbed)]
    return (
        f"{num_back} of {len(ratios)} runs whose worker was replaced ({num_back / len(ratios):.0%}) were back at "
        f"{BACK_SHARE:.0%} of an undisturbed run's throughput within {BACK_S:g} s; the lowest ratio is "
        f"{min(ratios):.2f}, the median {statistics.median(ratios):.2f}. "
        f"{num_again} were below in one play and are the median of several. How far chance goes: of two windows of an "
        f"undisturbed run, one right after the other, the later one had less than {BACK_SHARE:.0%} of the earlier one "
        f"in {sum(ratio < BACK_SHARE for ratio in chance)} of {len(chance)} runs, the median is "
        f"{statistics.median(chance):.2f}"
    )


def describe_missing(wanted: Iterable[Plan], kept: Mapping[Key, Any]) -> str:
    """Say how many of the wanted cases there are."""
    plans = list(wanted)
    num_kept = sum(key_of(plan) in kept for plan in plans)
    more = "" if num_kept == len(plans) else ": the same command goes on with the others"
    return f"{num_kept} of {len(plans)} cases are there{more}"
