"""Owns when a run has reached what was asked for.

The Runner notes it, in memory that all processes share; each Learner keeps it in the checkpoints of its policy, with
the time that was spent so far, so that a resumed run counts on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sample_profiler.config import SavingOptions, parse_conditions
from sample_profiler.runtime.messages.shared_memory import SharedArrays

__all__ = ["GoalTimes", "Reached", "name_of_stop", "names_of_goals"]


class Reached(NamedTuple):
    """When something was reached, over all starts of a run.

    Attributes:
        run_s: since its first component was started; NaN: an earlier start has not been timed.
        process_s: since its process was started; the same.
        frames: that the policy had been trained on.
    """

    run_s: float
    process_s: float
    frames: int


def name_of_stop(options: SavingOptions) -> str:
    """Return the name of the goal at which a run ends; empty: there is none."""
    conditions = parse_conditions(options.stop_at)
    return f"stop at {', '.join(map(str, conditions))}" if conditions else ""


def names_of_goals(options: SavingOptions) -> tuple[str, ...]:
    """Return the names of all goals that a run has: its thresholds and, last, its end, as far as there are any."""
    return (*map(str, parse_conditions(options.thresholds)), *filter(None, [name_of_stop(options)]))


class GoalTimes:
    """When each policy has reached each goal of a run; whoever has this object sees the same.

    Args:
        names: of the goals.
        num_policies: of the run.
    """

    def __init__(self, names: Sequence[str], num_policies: int) -> None:
        self.names = tuple(names)
        self._arrays = SharedArrays(
            {
                "clock": ((3,), np.float64),  # start of the run and of its process (monotonic), seconds left out
                "earlier_s": ((num_policies, 2), np.float64),
                "reached": ((num_policies, len(self.names), 3), np.float64),
            }
        )
        self._arrays["reached"][:] = np.nan

    def begin(self, run_start_s: float, process_start_s: float) -> None:
        """Note when this start of the run began (monotonic clock)."""
        self._arrays["clock"][:2] = run_start_s, process_start_s

    @property
    def start_up_s(self) -> float:
        """Seconds between the start of the process and that of the run."""
        run_start_s, process_start_s, _ = self._arrays["clock"]
        return float(run_start_s - process_start_s)

    def leave_out(self, left_out_s: float) -> None:
        """Let so many seconds of this start not count, instead of as many as until now."""
        self._arrays["clock"][2] = left_out_s

    def elapsed_s(self) -> float:
        """Return the seconds since the start of the run, without those that are left out."""
        run_start_s, _, left_out_s = self._arrays["clock"]
        return float(time.monotonic() - left_out_s - run_start_s) if run_start_s else 0.0

    def spent_s(self, policy: int) -> tuple[float, float]:
        """Return the seconds since the start of the run and of its process, those of earlier starts of both included.

        NaN: an earlier start has not been timed.
        """
        run_start_s, process_start_s, left_out_s = self._arrays["clock"]
        now_s = time.monotonic() - left_out_s
        run_s, process_s = self._arrays["earlier_s"][policy]
        return float(run_s + now_s - run_start_s), float(process_s + now_s - process_start_s)

    def note(self, policy: int, name: str, frames: int) -> Reached:
        """Note that a policy reaches a goal now, and return when that is."""
        reached = Reached(*self.spent_s(policy), frames)
        self._arrays["reached"][policy, self.names.index(name)] = reached
        return reached

    def find(self, policy: int, name: str) -> Reached | None:
        """Return when a policy has reached a goal; None: it has not, or there is no such one."""
        if name not in self.names:
            return None
        run_s, process_s, frames = self._arrays["reached"][policy, self.names.index(name)].tolist()
        return None if math.isnan(frames) else Reached(run_s, process_s, int(frames))

    def num_reached(self, policy: int) -> int:
        """Return how many of them a policy has reached."""
        return int(np.isfinite(self._arrays["reached"][policy, :, 2]).sum())

    def state(self, policy: int) -> dict[str, Any]:
        """Return as plain data what a checkpoint of a policy keeps; nothing if the run has no goals."""
        found = {name: self.find(policy, name) for name in self.names}
        reached = {name: list(each) for name, each in found.items() if each is not None}
        return {"goal_times": {"spent_s": list(self.spent_s(policy)), "reached": reached}} if self.names else {}

    def resume(self, policy: int, state: Mapping[str, Any]) -> None:
        """Count on from a checkpoint, which may be of a run that had other goals, or none.

        Raises:
            KeyError, TypeError, ValueError: it is not one of ours.
        """
        saved = state.get("goal_times", {"spent_s": (math.nan, math.nan), "reached": {}})
        run_s, process_s = saved["spent_s"]
        self._arrays["earlier_s"][policy] = _checked((run_s, process_s))
        for name in self.names:
            if (reached := saved["reached"].get(name)) is not None:
                run_s, process_s, frames = reached
                self._arrays["reached"][policy, self.names.index(name)] = _checked((run_s, process_s, int(frames)))

    def __getstate__(self) -> dict[str, Any]:
        return {"names": self.names, "arrays": self._arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.names, self._arrays = state["names"], state["arrays"]


def _checked(figures: Sequence[float]) -> Sequence[float]:
    """Return figures of a checkpoint, which may come from anywhere.

    Raises:
        ValueError: they are none of a run.
    """
    if any(float(figure) < 0 or math.isinf(figure) for figure in figures):
        raise ValueError(f"it says that {figures} seconds or frames were spent")
    return figures
