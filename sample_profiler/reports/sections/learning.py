"""Owns how the second verdict, on learning, looks in texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sample_profiler.analysis.learning.verdict import LearningProblem

__all__ = ["format_learning", "learning_to_dicts"]


def format_learning(problems: Sequence[LearningProblem]) -> str:
    """Return a few lines for each problem: what it is, what shows it, the flag that cures it; empty without any."""
    lines = []
    for problem in problems:
        lines.append(f"{problem.headline} (policy {problem.policy})")
        lines += [f"  - {sentence}" for sentence in problem.evidence]
        lines.append(f"  try {problem.advice}")
    return "\n".join(lines)


def learning_to_dicts(problems: Sequence[LearningProblem]) -> list[dict[str, Any]]:
    """Return JSON-ready data."""
    return [asdict(problem) for problem in problems]
