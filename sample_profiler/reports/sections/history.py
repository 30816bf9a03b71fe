"""Figures over the time of a run, as its Runner has noted them."""

from __future__ import annotations

import math
import re

from sample_profiler.profiling.session.checks import MAX_SECONDS
from sample_profiler.profiling.session.session import Session
from sample_profiler.vocabulary import (
    ADVANTAGE_SCALE,
    BAD_STEPS,
    BATCH_ROWS,
    CLIP_SHARE,
    DEAD_INPUTS,
    ENTROPY,
    ENTROPY_SHARE,
    EXPLAINED_VARIANCE,
    FINISHED_TRAJECTORIES,
    FPS,
    FREE_SLOTS,
    GRAD_NORM,
    INPUT_SCALE,
    LAG_MEAN,
    NUM_DISTINCT_STARTS,
    NUM_STARTS,
    POLICY_LAG,
    REWARD_CLIPPED,
    REWARD_LEFT,
    REWARD_NONZERO,
    TRAJECTORIES_AT_LEARNER,
    UNCHANGED_OBSERVATIONS,
    UPDATE_KL,
    WAITING_GROUPS,
)

__all__ = [
    *("EPISODE_LENGTH", "EPISODE_RETURN", "describe_figure", "name_deviation", "name_figure", "read_history"),
]

EPISODE_RETURN = "episode_return"
EPISODE_LENGTH = "episode_length"
_DEVIATION = "_deviation"
_MEANINGS = {
    FPS: "frames/s",
    EPISODE_RETURN: "episode return",
    EPISODE_LENGTH: "episode length, frames",
    POLICY_LAG: "policy lag, training steps",
    UPDATE_KL: "KL divergence of the policy from the one that acted",
    CLIP_SHARE: "share of steps whose ratio is clipped",
    ENTROPY: "entropy of the policy",
    ENTROPY_SHARE: "entropy of the policy, of the largest",
    EXPLAINED_VARIANCE: "variance of returns that values explain",
    ADVANTAGE_SCALE: "deviation of advantages, before scaling",
    GRAD_NORM: "norm of the gradient, before its bound",
    LAG_MEAN: "policy lag of a dataset, optimizer steps",
    INPUT_SCALE: "largest input of the network (root mean square)",
    DEAD_INPUTS: "share of inputs that never change",
    UNCHANGED_OBSERVATIONS: "share of observations that are the one before",
    BAD_STEPS: "share of steps with numbers that are not finite",
    REWARD_NONZERO: "share of rewards that are not 0",
    REWARD_CLIPPED: "share of these that reward_clip changes",
    REWARD_LEFT: "what reward_clip leaves of them",
    BATCH_ROWS: "steps in a batch of inference",
    FINISHED_TRAJECTORIES: "trajectories finished, on their way to a dataset",
    TRAJECTORIES_AT_LEARNER: "trajectories at the Learner",
    FREE_SLOTS: "free trajectory slots",
    WAITING_GROUPS: "groups that wait for a slot",
    "memory_mib": "memory of all processes, MiB",
}


_COUNTS = (NUM_STARTS, NUM_DISTINCT_STARTS)
"""How the names begin of what is noted for the verdict on learning alone, and is nothing to look at."""

_OF_POLICY = re.compile(rf"(\w+?)_policy_([0-9]+)({_DEVIATION})?", re.ASCII)


def name_figure(figure: str, policy: int) -> str:
    """Return the name that a figure of one policy has in a history."""
    return f"{figure}_policy_{policy}"


def name_deviation(name: str) -> str:
    """Return the name that the standard deviation of what a figure is the mean of has in a history."""
    return name + _DEVIATION


def describe_figure(name: str) -> str:
    """Return what a figure is, in words; of one that is not known its name."""
    if (found := _OF_POLICY.fullmatch(name)) and found[1] in _MEANINGS:
        words = f"{_MEANINGS[found[1]]}, policy {found[2]}"
        return f"{words}: standard deviation" if found[3] else words
    return _MEANINGS.get(name, name)


def read_history(session: Session) -> dict[str, list[tuple[float, float]]]:
    """Return pairs of seconds since the run began and value, by figure; episodes and throughput first.

    What a session of somebody else's has in their place is left out.
    """
    history = session.run.get("history")
    if not isinstance(history, dict):
        return {}
    found = {str(name): _points(points) for name, points in history.items() if isinstance(points, list | tuple)}
    return {name: found[name] for name in sorted(found, key=_place) if found[name] and not name.startswith(_COUNTS)}


def _place(name: str) -> int:
    if name == FPS:
        return 1
    found = _OF_POLICY.fullmatch(name)
    return 3 if found is None else 0 if found[1] in (EPISODE_RETURN, EPISODE_LENGTH) else 2


def _points(points: object) -> list[tuple[float, float]]:
    assert isinstance(points, list | tuple)
    try:
        pairs = [(float(time_s), float(value)) for time_s, value in points]
    except (OverflowError, TypeError, ValueError):
        return []
    return [(time_s, value) for time_s, value in pairs if abs(time_s) < MAX_SECONDS and math.isfinite(value)]
