"""Owns how the rows of a group find the memory of their kind, where agents have spaces of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sample_profiler.storage.trajectories import Trajectories

__all__ = ["RowPart", "find_parts", "spread_parts"]


@dataclass(frozen=True)
class RowPart:
    """Rows of a group that write into the same arrays.

    Attributes:
        memory: trajectories, as these rows see them.
        rows: of the group; None: all of them.
        float_keys: of observations in which numbers may not be finite.
    """

    memory: Trajectories
    rows: npt.NDArray[np.intp] | None
    float_keys: list[str]


def find_parts(trajectories: Trajectories, policies: Sequence[int]) -> list[RowPart]:
    """Divide the rows of a group by the arrays that they write into.

    Args:
        trajectories: memory of the run.
        policies: that each row follows.

    Returns:
        One part of all rows, where all agents have the same spaces; else one for each policy.
    """
    if not trajectories.has_kinds:
        return [_make_part(trajectories, None)]
    of_rows = np.array(policies)
    return [
        _make_part(trajectories.of_policy(policy), np.flatnonzero(of_rows == policy))
        for policy in sorted(set(policies))
    ]


def spread_parts(parts: Sequence[RowPart], num_rows: int) -> list[RowPart]:
    """Return the part that each row is of."""
    of_row = [parts[0]] * num_rows
    for part in parts:
        for row in () if part.rows is None else part.rows.tolist():
            of_row[row] = part
    return of_row


def _make_part(memory: Trajectories, rows: npt.NDArray[np.intp] | None) -> RowPart:
    observations = memory.layout.observations
    float_keys = [key for key, (_, dtype) in observations.items() if np.dtype(dtype).kind == "f"]
    return RowPart(memory, rows, float_keys)
