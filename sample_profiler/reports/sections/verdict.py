"""Owns how a verdict looks in texts."""

from __future__ import annotations

from typing import Any

from sample_profiler.analysis.verdict import Advice, Verdict

__all__ = ["format_verdict", "verdict_to_dict", "verdict_to_markdown"]


def format_verdict(verdict: Verdict) -> str:
    """Return a few lines: what limits the run, what shows it, what to do and what it would give."""
    rate = "" if verdict.fps is None else f" ({verdict.fps:,.0f} frames/s over {verdict.seconds:.0f} s)"
    lines = [f"{verdict.headline}{rate}"]
    lines += [f"  - {sentence}" for sentence in verdict.evidence]
    lines += [
        f"  {'try' if number == 0 else 'or '} {_describe(advice)}" for number, advice in enumerate(verdict.advice)
    ]
    return "\n".join(lines)


def verdict_to_markdown(verdict: Verdict) -> str:
    """Return the same as Markdown."""
    headline, *lines = format_verdict(verdict).splitlines()
    items = [f"- {line.removeprefix('  - ').strip()}" for line in lines]
    return "\n".join([f"**{headline}**", "", *items])


def verdict_to_dict(verdict: Verdict) -> dict[str, Any]:
    """Return JSON-ready data."""
    return {
        "cause": verdict.cause,
        "component": verdict.component,
        "headline": verdict.headline,
        "evidence": list(verdict.evidence),
        "advice": [
            {"change": advice.change, "why": advice.why, "fps": None if advice.fps is None else list(advice.fps)}
            for advice in verdict.advice
        ],
        "fps": verdict.fps,
        "seconds": verdict.seconds,
    }


def _describe(advice: Advice) -> str:
    expected = "" if advice.fps is None else f"; expected: {advice.fps[0]:,.0f} to {advice.fps[1]:,.0f} frames/s"
    return f"{advice.change}: {advice.why}{expected}"
