"""Options of what a run does when something goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sample_profiler.config.limits import option


@dataclass(frozen=True, kw_only=True)
class FaultOptions:
    """When something goes wrong."""

    on_worker_failure: Literal["restart", "stop"] = "restart"
    """What follows when a rollout worker dies, hangs or raises: another one takes its place, or the run ends. The run
    ends whenever any other component is lost."""

    max_worker_restarts: int = option(10, minimum=0)
    """Number of rollout workers that are replaced within an hour; with one more the run ends."""

    hang_timeout: float = option(60.0, above=0)
    """Seconds without a sign of life after which a component is looked into, ended, and handled as dead. Give more if
    one reset or step of a group of environments, or 4,096 steps forth and back through a very large network, may take
    so long."""

    on_bad_numbers: Literal["skip", "stop"] = "skip"
    """What follows a NaN or an infinity in an observation, a reward, a statistic of an episode, a loss or a gradient,
    or a number beyond float32 in one of the first two: what it touches is left out, or the run ends. It also ends after
    ten training steps in a row that had to be left out."""
