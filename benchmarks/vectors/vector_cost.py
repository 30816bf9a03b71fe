"""Print what a step of a vector costs beside the simulator, in microseconds for each of its members.

The vector does nothing but return arrays that it has, and ends an episode here and there. Its members step as arrays
and, as those of several policies do, one by one as lists; both take turns, and the medians over all turns are shown. An
aim is that arrays take no more than 0.08 microseconds with 4,096 members, and no more than lists with 8. All is time of
the processor: whoever else wants it costs nothing but caches.

    python -m benchmarks.vectors.vector_cost
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sample_profiler.components.rollout_worker.stepping_group import SteppingGroup
from sample_profiler.components.rollout_worker.vector_group import VectorGroup
from sample_profiler.config import SamplingOptions
from sample_profiler.envs import EnvSpec, inspect_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.bad_numbers import BadNumbers
from sample_profiler.envs.vectors.vector_agents import VectorAgents
from sample_profiler.profiling import Timing
from sample_profiler.storage.sampling_plan import make_sampling_plan
from sample_profiler.storage.trajectories import Trajectories, TrajectoryLayout

ROLLOUT = 16
MOST = {4096: 0.08}
"""Microseconds that arrays may take for each member, by the number of members."""


class Idle:
    """A vector that costs nothing.

    Args:
        num_members: of it.
        episode_steps: length of an episode; the members end theirs at different times.
        speak: what its arrays are handed out as.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (27,), np.float32)
    action_space = spaces.Box(-1, 1, (8,), np.float32)

    def __init__(
        self, num_members: int, episode_steps: int, speak: Callable[[npt.NDArray[Any]], Any] = lambda array: array
    ) -> None:
        self.num_envs = num_members
        rng = np.random.default_rng(1)
        self._observations = speak(rng.normal(size=(num_members, 27)).astype(np.float32))
        self._rewards = speak(rng.normal(size=num_members).astype(np.float32))
        left = rng.integers(0, episode_steps, num_members)
        self._ends = [speak(left == step) for step in range(episode_steps)]
        self._never = speak(np.zeros(num_members, dtype=np.bool_))
        self._infos = [{"final_obs": self._observations} if ends.any() else {} for ends in self._ends]
        self._step = 0

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        """Begin."""
        return self._observations, {}

    def step(self, actions: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Return what there is."""
        self._step = (self._step + 1) % len(self._ends)
        return self._observations, self._rewards, self._never, self._ends[self._step], self._infos[self._step]


class Stepped:
    """A group with such a vector.

    Args:
        kind: of the group.
        num_members: of the vector.
        episode_steps: length of its episodes.

    Attributes:
        num_episodes: that have ended.
        costs_us: of each rollout, for each step of a member.
    """

    def __init__(self, kind: type[SteppingGroup], num_members: int, episode_steps: int) -> None:
        vector = VectorAgents(Idle(num_members, episode_steps), "idle")
        spec: EnvSpec = inspect_env(vector, "idle")
        sampling = SamplingOptions(
            num_workers=1, num_envs_per_worker=1, worker_num_splits=1, rollout=ROLLOUT,
            batch_size=ROLLOUT * num_members, recurrence=1,
        )  # fmt: skip
        plan = make_sampling_plan(sampling, num_members)
        memory = Trajectories(TrajectoryLayout.of(plan, spec, 1))
        env = AgentsEnv(lambda: vector, spec, "idle", 0, 1)
        self._group = kind(plan.groups[0], [env], memory, Timing("worker"), True, 1, BadNumbers("idle", stops=True))
        self._group.reset(0)
        num_blocks = plan.num_slots // num_members
        self._blocks = [np.arange(num_members, dtype=np.int32) + block * num_members for block in range(num_blocks)]
        self._num_members = num_members
        self._num_rollouts = 0
        self.num_episodes = 0
        self.costs_us: list[float] = []

    def do_rollout(self) -> None:
        """Note what a rollout costs for each step of a member."""
        slots = self._blocks[self._num_rollouts % len(self._blocks)]
        begin_ns = time.thread_time_ns()
        self._group.begin_rollout(slots)
        for _ in range(ROLLOUT):
            self._group.step()
        self.costs_us.append((time.thread_time_ns() - begin_ns) / 1e3 / ROLLOUT / self._num_members)
        self.num_episodes += len(self._group.episodes)
        self._group.episodes.clear()
        self._num_rollouts += 1


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[8, 64, 512, 4096])
    parser.add_argument("--episode-steps", type=int, default=200, help="length of an episode")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each number of members")
    options = parser.parse_args(argv)
    print(f"{'members':>9}{'lists':>10}{'arrays':>10}   microseconds for each member's step")
    is_enough = True
    for num_members in options.members:
        lists, arrays = (Stepped(kind, num_members, options.episode_steps) for kind in (SteppingGroup, VectorGroup))
        end_s = time.monotonic() + options.seconds
        while time.monotonic() < end_s or len(arrays.costs_us) < 5:
            lists.do_rollout()
            arrays.do_rollout()
        of_lists, of_arrays = (statistics.median(each.costs_us) for each in (lists, arrays))
        is_enough &= of_arrays <= MOST.get(num_members, of_lists)
        print(f"{num_members:>9}{of_lists:>10.3f}{of_arrays:>10.3f}", flush=True)
    return 0 if is_enough else 1


if __name__ == "__main__":
    sys.exit(main())
