"""Environments that follow a script, the memory and groups of small runs, and Runners without processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.components.messages import Counters
from sample_profiler.config import SamplingOptions, parse_config
from sample_profiler.envs import EnvSpec, export_registration, inspect_env, register_env, registry
from sample_profiler.envs.contract import read_episode_statistics
from sample_profiler.profiling import get_timing, set_timing
from sample_profiler.run.layout import blueprint as blueprints
from sample_profiler.run.layout.topology import plan_components
from sample_profiler.run.runner import Runner
from sample_profiler.runtime.loop.transports import LocalTransport, Transport
from sample_profiler.runtime.messages.channels import LocalReports
from sample_profiler.storage.goal_times import names_of_goals
from sample_profiler.storage.sampling_plan import SamplingPlan, make_sampling_plan
from sample_profiler.storage.trajectories import Trajectories, TrajectoryLayout
from tests.run.runner_doubles import FakeProcesses, Observer, make_links

OBSERVATION_SPACE = spaces.Dict(
    {
        # Which environment, episode (from 0), step of the episode (0: from reset) and agent an observation is of.
        "place": spaces.Box(-np.inf, np.inf, (4,), np.float32),
        "image": spaces.Box(0, 255, (2, 2), np.uint8),
    }
)
STATE_SIZE = 3


class ScriptedEnv:
    """What `AgentsEnv` is to its users, with episodes of given lengths and observations that say where they are from.

    The reward of an agent is its action plus half of what it says in `place` as the step.

    Args:
        index: of the environment.
        num_agents: of it.
        lengths: of its episodes, again and again.
        end: "terminated" or "truncated", or one of them for each agent.
    """

    def __init__(self, index: int, num_agents: int = 1, lengths: tuple[int, ...] = (10**9,), end: Any = "terminated"):
        self.index = index
        self.num_agents = num_agents
        self.lengths = lengths
        self.ends = [end] * num_agents if isinstance(end, str) else list(end)
        self.episode = -1
        self.step_in_episode = 0
        self.actions: list[Any] = []
        self.num_random_steps = 0
        self.is_closed = False
        self.last_infos: dict[str, Any] = {}
        self.begin_infos: list[dict[str, Any]] = [{} for _ in range(num_agents)]

    def reset(self) -> list[dict[str, Any]]:
        self.episode += 1
        self.step_in_episode = 0
        return self._observe()

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        assert actions.shape == (self.num_agents, 1)
        self.actions.append(actions[:, 0].tolist())
        self.step_in_episode += 1
        is_over = self.step_in_episode == self.lengths[self.episode % len(self.lengths)]
        rewards = [float(action) + self.step_in_episode / 2 for action in actions[:, 0]]
        terminated = [is_over and end == "terminated" for end in self.ends]
        truncated = [is_over and end == "truncated" for end in self.ends]
        infos = [dict(self.last_infos) if is_over else {} for _ in range(self.num_agents)]
        return self._observe(), rewards, terminated, truncated, infos

    ends_apart = offers_arrays = wants_training_info = False

    def ended_agents(self, terminated: list[bool], truncated: list[bool], infos: list[dict[str, Any]]) -> list[int]:
        ended = [a for a in range(self.num_agents) if terminated[a] or truncated[a]]
        return ended if len(ended) == self.num_agents else []

    def begin_episodes(self, agents: list[int]) -> list[dict[str, Any]]:
        return self.reset()

    def random_actions(self, observations: list[dict[str, Any]]) -> np.ndarray:
        self.num_random_steps += 1
        return np.zeros((self.num_agents, 1), np.int64)

    def episode_statistics(self, info: dict[str, Any]) -> dict[str, float]:
        return read_episode_statistics(info, f"environment {self.index} (scripted)")

    def check_returned(self) -> None:
        """Find nothing wrong with what was returned."""

    def close(self) -> None:
        self.is_closed = True

    def _observe(self) -> list[dict[str, Any]]:
        return [
            {
                "place": np.array([self.index, self.episode, self.step_in_episode, agent], np.float32),
                "image": np.full((2, 2), self.step_in_episode % 256, np.uint8),
            }
            for agent in range(self.num_agents)
        ]


class ScriptedVector(ScriptedEnv):
    """The same with agents whose episodes end one by one.

    Args:
        index: of the environment.
        lengths: of the episodes of each agent.
        end: "terminated" or "truncated", for each agent.
        waits: the step after an end is inactive, and shows the first observation of the next episode only then.
    """

    ends_apart = True

    def __init__(self, index: int, lengths: tuple[int, ...], end: tuple[str, ...], waits: bool = False):
        super().__init__(index, len(lengths), lengths, end)
        self.episodes, self.steps = [0] * self.num_agents, [0] * self.num_agents
        self.waits = waits

    def reset(self) -> list[dict[str, Any]]:
        return self._observe()

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        self.actions.append(actions[:, 0].tolist())
        self.steps = [step + 1 for step in self.steps]
        is_over = [step == length for step, length in zip(self.steps, self.lengths, strict=True)]
        rewards = [float(action) for action in actions[:, 0]]
        terminated = [over and end == "terminated" for over, end in zip(is_over, self.ends, strict=True)]
        truncated = [over and end == "truncated" for over, end in zip(is_over, self.ends, strict=True)]
        infos = [{"is_active": not (over and self.waits), **(self.last_infos if over else {})} for over in is_over]
        return self._observe(), rewards, terminated, truncated, infos

    def ended_agents(self, terminated: list[bool], truncated: list[bool], infos: list[dict[str, Any]]) -> list[int]:
        return [a for a in range(self.num_agents) if terminated[a] or truncated[a]]

    def begin_episodes(self, agents: list[int]) -> list[dict[str, Any]]:
        final = self._observe()
        for agent in agents:
            self.episodes[agent] += 1
            self.steps[agent] = -1 if self.waits else 0
        return [(final if self.waits else self._observe())[agent] for agent in agents]

    def _observe(self) -> list[dict[str, Any]]:
        places = [(self.index, self.episodes[a], self.steps[a], a) for a in range(self.num_agents)]
        return [{"place": np.array(place, np.float32), "image": np.zeros((2, 2), np.uint8)} for place in places]


MakeRun = Callable[..., tuple[SamplingPlan, Trajectories]]


@pytest.fixture
def make_run() -> MakeRun:
    """Lay out a run: keywords are sampling options, `num_agents` and `observation_space`; all have small defaults."""

    def make(
        num_agents: int = 1, observation_space: spaces.Dict = OBSERVATION_SPACE, **options: Any
    ) -> tuple[SamplingPlan, Trajectories]:
        small = {
            "num_workers": 1, "num_envs_per_worker": 2, "worker_num_splits": 1, "rollout": 4, "batch_size": 8,
        } | options  # fmt: skip
        sampling = SamplingOptions(recurrence=1, **small)
        plan = make_sampling_plan(sampling, num_agents)
        spec = EnvSpec(observation_space=observation_space, action_space=spaces.Discrete(1000), num_agents=num_agents)
        return plan, Trajectories(TrajectoryLayout.of(plan, spec, STATE_SIZE))

    return make


@pytest.fixture
def observation_space() -> spaces.Dict:
    """Of scripted environments."""
    return OBSERVATION_SPACE


@pytest.fixture
def make_env() -> type[ScriptedEnv]:
    return ScriptedEnv


@pytest.fixture
def make_vector() -> type[ScriptedVector]:
    return ScriptedVector


@pytest.fixture(autouse=True)
def _restore_timing():
    previous = get_timing()
    yield
    set_timing(previous, process_wide=True)


class Wandering(gymnasium.Env):
    """A quick environment: observations are random, episodes are cut off after a few steps."""

    largest, num_steps = 1, 7
    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self._observe(), {}

    def step(self, action):
        self._step += 1
        return self._observe(), self._reward(action), False, self._step == self.num_steps, {}

    def _reward(self, action):
        return float(action == 0)

    def _observe(self):
        return self.np_random.uniform(-self.largest, self.largest, 3).astype(np.float32)


@pytest.fixture
def make_blueprint(monkeypatch, tmp_path):
    """Lay out a whole run over in-process channels; take flags."""
    monkeypatch.setattr(registry, "_makers", {})
    register_env("wandering", lambda *_, **__: Wandering())

    def make(
        *flags: str,
        env: Any = None,
        folder: Path = tmp_path,
        seed: int = 1,
        transport: Transport | None = None,
        device: str = "cpu",
        make_remote_sampler: Any = None,
    ):
        small = [
            "--env=wandering", "--num_workers=1", "--num_envs_per_worker=2", "--worker_num_splits=1", "--rollout=4",
            "--batch_size=8", "--encoder_mlp_layers", "8", "--rnn_size=5", "--decorrelate_envs_on_one_worker=False",
        ]  # fmt: skip
        config = parse_config([*small, *flags])
        payload = export_registration("wandering")
        spec = inspect_env(env or Wandering())
        transport = transport or LocalTransport()
        return blueprints.make_blueprint(
            config, seed, payload, spec, folder, device, transport, make_remote_sampler=make_remote_sampler
        )

    return make


@pytest.fixture
def make_component():
    """Build a component of a run as its process would; return it and its reports."""

    def make(blueprint, name: str):
        (plan,) = (plan for plan in plan_components(blueprint) if plan.settings.name == name)
        reports = LocalReports()
        return plan.make(reports), reports

    yield make
    torch.set_flush_denormal(False)  # as networks of a run want it; numbers made up by other tests are such


class LearnerRun:
    """A Learner and the other ends of its channels; a dataset is two trajectories of four steps."""

    def __init__(self, blueprint, learner, reports):
        self.blueprint, self.learner, self.reports = blueprint, learner, reports
        self.memory, self.counters = blueprint.trajectories, blueprint.counters
        rng = np.random.default_rng(3)
        memory = self.memory
        memory.observations["obs"][:] = rng.uniform(-1, 1, memory.observations["obs"].shape)
        memory.rewards[:] = rng.uniform(-1, 1, memory.rewards.shape)
        memory.actions[:] = rng.integers(0, 4, memory.actions.shape)
        memory.action_parameters[:] = 0
        memory.log_probabilities[:] = np.log(0.25)

    def start(self):
        self.learner.start()
        return self

    def hand_over(self, *slots):
        self.learner.inputs()[0].handle(list(slots))

    def trained(self):
        return self.blueprint.channels.trained[0].receive()

    def of_type(self, kind):
        return [report for report in self.reports.receive() if isinstance(report, kind)]

    def weights(self):
        return {name: tensor.clone() for name, tensor in self.learner._trainer.model.state_dict().items()}

    def has_weights(self, expected):
        weights = self.weights()
        return all(torch.equal(tensor, weights[name]) for name, tensor in expected.items())

    def checkpoints(self, kind="checkpoint"):
        folder = self.blueprint.run_folder / "checkpoint_p0"
        return sorted(path.name for path in folder.rglob(f"{kind}_*.pth"))


@pytest.fixture
def make_learner(make_blueprint, make_component):
    def make(*flags, **arguments):
        blueprint = make_blueprint(*flags, **arguments)
        return LearnerRun(blueprint, *make_component(blueprint, "Learner_0"))

    return make


@pytest.fixture
def make_runner(tmp_path):
    def make(*flags, started_s_ago=0.0, others=(), processes=None, clock=time.monotonic, **links):
        config = parse_config(["--env=fake", "--num_workers=2", *flags])
        names = names_of_goals(config.saving)
        counters = Counters(2, config.sampling.num_policies, config.machine.stats_avg, names)
        observer, folder = Observer(), tmp_path / "my_run"
        start_s, num_agents = clock() - started_s_ago, [1] * config.sampling.num_policies
        counters.goal_times.begin(start_s, start_s)
        observers = [*others, observer]
        links = make_links(config, folder, processes or FakeProcesses(), clock=clock, **links)
        runner = Runner(config, counters, num_agents, folder, observers, links, start_s)
        runner.observer, runner.loop, runner.processes = observer, links.loop, links.processes
        runner.introduce()
        return runner

    return make


@pytest.fixture
def runner(make_runner):
    return make_runner()
