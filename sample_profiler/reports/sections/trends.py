"""Owns how changes over the time of a run look in texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sample_profiler.analysis.trends.trend import Trend
from sample_profiler.profiling.tree.render import printable

__all__ = ["format_trends", "trends_to_dicts"]


def format_trends(trends: Sequence[Trend]) -> str:
    """Return a few lines for each change: since when, what shows it, what to do; empty without changes."""
    lines = []
    for trend in trends:
        lines.append(printable(trend.headline))
        lines += [f"  - {printable(sentence)}" for sentence in trend.evidence]
        lines += [f"  try {trend.advice}"] if trend.advice else []
    return "\n".join(lines)


def trends_to_dicts(trends: Sequence[Trend]) -> list[dict[str, Any]]:
    """Return JSON-ready data."""
    return [asdict(trend) for trend in trends]
