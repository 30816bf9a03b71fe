"""Tells a RolloutWorker's environments how far the training is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sample_profiler.components.messages import Counters
from sample_profiler.config import SamplingOptions
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.profiling import Timing
from sample_profiler.runtime.loop.event_loop import Timer
from sample_profiler.storage.sampling_plan import Group

__all__ = ["TrainingNews"]

_INTERVAL_S = 2.0
_LOOK_S = 0.02


class TrainingNews:
    """What environments that want to know are told of the frames that their policy has been trained on.

    They are told before their first reset, and then every few seconds. Where a run repeats itself no clock decides what
    happens in environments: there they are told when rollouts begin.

    Args:
        envs: of the worker.
        groups: that these are in, in their order.
        sampling: how the run samples.
        counters: tell how far the training is.
        first_frames: by policy: what it had been trained on when the run began: its Learner may not have said yet.
            None: only Learners know.
        timing: of the worker.
    """

    def __init__(
        self,
        envs: Sequence[AgentsEnv],
        groups: Sequence[Group],
        sampling: SamplingOptions,
        counters: Counters,
        first_frames: Sequence[int] | None,
        timing: Timing,
    ) -> None:
        # The policy of an environment is the one that its first agent follows.
        policies = [
            group.policies[place] for group in groups for place in range(0, len(group.rows), _num_agents(group))
        ]
        self._envs = [pair for pair in zip(envs, policies, strict=True) if pair[0].wants_training_info]
        self._has_clock = sampling.async_rl or not sampling.serial_mode
        self._counters = counters
        self._first_frames = first_frames
        self._timing = timing
        self._told: list[int] | None = None

    def timers(self) -> list[Timer]:
        """Tell from time to time."""
        return [Timer(_INTERVAL_S, self.tell)] if self._envs and self._has_clock else []

    def begin(self, beat: Callable[[], None]) -> None:
        """Tell before the first reset; where only Learners know how far the training is, wait until all have said so.

        Args:
            beat: gives a sign of life meanwhile.
        """
        if self._first_frames is None and self._envs:
            while not self._counters.has_begun.all():
                beat()
                time.sleep(_LOOK_S)
        self.tell()

    def begin_rollout(self) -> None:
        """Tell, where no clock does."""
        if not self._has_clock:
            self.tell()

    def tell(self) -> None:
        """Tell the environments, unless nothing has been trained on since they were told."""
        frames = self._counters.trained_frames.tolist()
        if self._first_frames is not None:
            frames = [max(pair) for pair in zip(frames, self._first_frames, strict=True)]
        if not self._envs or frames == self._told:
            return
        with self._timing.add_time("training_info"):
            for env, policy in self._envs:
                env.set_training_info(frames[policy])
        self._told = frames


def _num_agents(group: Group) -> int:
    return len(group.rows) // len(group.envs)
