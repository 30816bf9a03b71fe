"""Groups of one vector, driven without the rest of a run."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from gymnasium import spaces

from sample_profiler.components.rollout_worker.vector_group import VectorGroup, make_stepping_group
from sample_profiler.config import SamplingOptions
from sample_profiler.envs import inspect_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.bad_numbers import BadNumbers
from sample_profiler.envs.vectors.vector_agents import VectorAgents
from sample_profiler.profiling import Timing
from sample_profiler.storage.sampling_plan import make_sampling_plan
from sample_profiler.storage.trajectories import Trajectories, TrajectoryLayout
from tests.doubles.counting_vectors import ActingVector

ROLLOUT = 4


class Driver:
    """A group of one vector, and a policy whose actions and states depend on row and step."""

    def __init__(self, vector, kind=VectorGroup, *, value_bootstrap=True, num_policies=1, rollout=ROLLOUT):
        adapted = VectorAgents(vector, "counting")
        spec = inspect_env(adapted, "counting")
        num = adapted.num_agents
        sampling = SamplingOptions(
            num_workers=1, num_envs_per_worker=1, worker_num_splits=1, rollout=rollout, recurrence=1,
            batch_size=rollout * num, num_policies=num_policies,
        )  # fmt: skip
        self.plan = make_sampling_plan(sampling, num)
        self.memory = Trajectories(TrajectoryLayout.of(self.plan, spec, state_size=3))
        self.env = AgentsEnv(lambda: adapted, spec, "counting", 0, 1)
        bad_numbers = BadNumbers("counting", stops=False)
        timing = Timing("worker")
        self.group = kind(self.plan.groups[0], [self.env], self.memory, timing, value_bootstrap, 1, bad_numbers)
        self.group.reset(0)
        self.num_rollouts = 0
        self.num_agents = num

    def do_rollouts(self, num_rollouts):
        for _ in range(num_rollouts):
            first = self.num_rollouts % 3 * self.num_agents
            self.group.begin_rollout(np.arange(first, first + self.num_agents, dtype=np.int32))
            for _ in range(self.memory.layout.rollout):
                self.step()
            self.num_rollouts += 1
        return self

    def step(self):
        """Do what inference does, then step."""
        memory, step, slots = self.memory, self.group.step_index, self.group.slots
        draw = np.random.default_rng([self.num_rollouts, step])
        memory.actions[slots, step] = draw.normal(0, 1, memory.actions[slots, step].shape).astype(memory.actions.dtype)
        memory.states[slots, step + 1] = draw.normal(size=memory.states[slots, step].shape)
        for row in np.flatnonzero(memory.final_step):
            memory.final_values[memory.row_slot[row], memory.final_step[row] - 1] = memory.final_states[row].sum()
            memory.final_step[row] = 0
        self.group.step()

    def told(self):
        """Return what is said of episodes, of environments and of the group."""
        course = self.group.course()
        fresh = {}
        for rows, observation in course.pop("fresh"):
            for index, row in enumerate(np.atleast_1d(rows)):
                values = {key: np.asarray(value) for key, value in observation.items()}
                fresh[int(row)] = {k: (v[index] if np.ndim(rows) else v).tolist() for k, v in values.items()}
        return self.group.episodes, fresh, {key: np.asarray(value).tolist() for key, value in course.items()}


class TensorDriver(Driver):
    """The same with a group that may move to where the vector is."""

    def __init__(self, vector, rollout=ROLLOUT, **options):
        super().__init__(vector, partial(make_stepping_group, may_move=True), rollout=rollout, **options)

    def step(self):
        memory, step, slots = self.memory, self.group.step_index, torch.from_numpy(self.group.slots).long()
        slots = slots.to(memory.device)
        draw = np.random.default_rng([self.num_rollouts, step])
        actions = torch.from_numpy(draw.normal(0, 1, memory.actions[slots, step].shape))
        memory.actions[slots, step] = actions.to(memory.device, memory.actions.dtype)
        states = torch.from_numpy(draw.normal(size=memory.states[slots, step].shape))
        memory.states[slots, step + 1] = states.to(memory.device, torch.float32)
        self.group.step()

    def told(self):
        """Return what the host's group tells."""
        make_course = self.group.course
        self.group.course = lambda: {key: value for key, value in make_course().items() if key != "figures"}
        try:
            return super().told()
        finally:
            del self.group.course


ACTION_SPACES = [
    spaces.Discrete(3, start=5),
    spaces.MultiDiscrete([3, 4], start=[1, -1]),
    spaces.MultiBinary(3),
    spaces.Box(np.array([-1, -9], np.float32), np.array([1, 9], np.float32)),
    spaces.Box(-1, 1, (2, 1), np.float64),
    spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)]),
    spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1, 1, (2,), np.float32)),
]


def received_actions(space, make, speaks="numpy"):
    """Return the parts of the actions that a vector gets in a rollout of the driver that `make` makes."""
    vector = ActingVector(space, speaks)
    make(vector).do_rollouts(1)
    for actions in vector.received:
        parts = tuple(actions.values()) if isinstance(actions, dict) else actions
        yield from parts if isinstance(parts, tuple) else (parts,)
