"""The numbers that tie blocks of several processes into one story: from an environment's step to the weights it led to.

A flow is a chain of points, each inside a block. Its number holds what both ends of a message know anyway, so that no
message grows: a group and its step, a slot, or a version of the weights.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    *("END", "REQUEST", "SLOT", "START", "STEP", "WEIGHTS"),
    *("FlowPoint", "flow_point", "read_flow_point", "weights_payload"),
]

START, STEP, END = 1, 2, 3
REQUEST, SLOT, WEIGHTS = 1, 2, 3

_PHASE_SHIFT = 62
_KIND_SHIFT = 56
_PAYLOAD_MASK = (1 << _KIND_SHIFT) - 1
_KIND_MASK = 0x3F


class FlowPoint(NamedTuple):
    """A point of a flow.

    Attributes:
        phase: `START`, `STEP` or `END`.
        kind: `REQUEST` (a group's wish for actions), `SLOT` (a trajectory) or `WEIGHTS` (a version of a policy).
        payload: which one, up to 56 bits; it may come again, after the flow has ended.
    """

    phase: int
    kind: int
    payload: int


def flow_point(phase: int, kind: int, payload: int) -> int:
    """Return the number of a point, for `Timing.mark_flow`; a payload of more than 56 bits loses the upper ones."""
    return phase << _PHASE_SHIFT | kind << _KIND_SHIFT | payload & _PAYLOAD_MASK


def weights_payload(policy: int, version: int) -> int:
    """Return the payload of a version of a policy's weights."""
    return policy << 40 | version & (1 << 40) - 1


def read_flow_point(number: int) -> FlowPoint:
    """Return what `flow_point` put into a number."""
    return FlowPoint(number >> _PHASE_SHIFT, number >> _KIND_SHIFT & _KIND_MASK, number & _PAYLOAD_MASK)
