"""Without policy lag the Learner computes what inference did; what a mask forbids is neither drawn nor learned."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sample_profiler.envs import register_env
from sample_profiler.envs.vectors.vector_agents import VectorAgents
from sample_profiler.model import registry as model_registry
from sample_profiler.model.registry import register_actor_critic
from sample_profiler.spaces import action_parts, flatten_action, num_action_parameters, part_width
from tests.components.synchronous_run import Run
from tests.doubles.small_runs import Wandering

NUM_DATASETS = 4  # the statistics of observations have changed several times by then
FORBIDDEN = 1  # this value of the first part of an action, always; of others some, now and then


def sizes_of(action_space):
    """Return how many values each part of an action has."""
    return [int(size) for size in getattr(action_space, "nvec", [getattr(action_space, "n", 0)])]


class Masked(gymnasium.Env):
    """Random observations and masks; episodes of seven steps."""

    def __init__(self, action_space):
        self.action_space = action_space
        self._sizes = sizes_of(action_space)
        mask = spaces.Box(0, 1, (sum(self._sizes),), np.int8)
        self.observation_space = spaces.Dict({"obs": spaces.Box(-9, 9, (3,), np.float32), "action_mask": mask})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self._observe(), {}

    def step(self, action):
        self._step += 1
        reward = float(np.sum(action)) + float(self.np_random.normal())
        return self._observe(), reward, False, self._step == 7, {}

    def _observe(self):
        masks = [self.np_random.integers(0, 2, size, dtype=np.int8) for size in self._sizes]
        masks[0][FORBIDDEN] = 0
        for mask in masks:
            mask[-1] |= not mask.any()
        return {"obs": self.np_random.uniform(-9, 9, 3).astype(np.float32), "action_mask": np.concatenate(masks)}


@pytest.fixture
def make_masked_run(make_blueprint, make_component):
    def make(action_space, *flags):
        register_env("wandering", lambda *_, **__: Masked(action_space))
        flags = ("--async_rl=False", "--rollout=8", "--batch_size=16", "--num_epochs=1", "--learning_rate=0.05", *flags)
        return Run(make_blueprint(*flags, env=Masked(action_space)), make_component)

    return make


def train_and_compare(run):
    """Return how far log-probabilities and values of the Learner are from those of inference, by micro-batch."""
    differences = []

    def compare(batches):
        for batch, _ in batches:
            ratios, values = run.trainer.passes.evaluate(batch)
            off = values - batch.steps.flat().values
            differences.append((ratios.log().abs().max().item(), off.abs().max().item()))

    run.train(NUM_DATASETS, compare)
    return differences


@pytest.fixture(params=[spaces.Discrete(5), spaces.MultiDiscrete([3, 4])], ids=["one part", "two parts"])
def action_space(request):
    return request.param


@pytest.mark.parametrize("flags", [("--use_rnn=False",), ("--use_rnn=True", "--recurrence=4")], ids=["MLP", "RNN"])
def test_the_learner_computes_the_log_probabilities_and_values_that_inference_computed(
    make_masked_run, action_space, flags
):
    run = make_masked_run(action_space, *flags)
    differences = train_and_compare(run)
    assert run.blueprint.counters.lag_max[0] == 0
    assert len(differences) == NUM_DATASETS
    assert np.max(differences) < 1e-5


def test_what_the_mask_forbids_is_never_drawn_and_carries_no_gradient(make_masked_run, action_space):
    run = make_masked_run(action_space)
    head = run.trainer.model.action_head
    logits = (head.heads[0] if hasattr(head, "heads") else head).logits
    # Where the masks of the parts of an action begin.
    offsets = np.cumsum([0, *sizes_of(action_space)])[:-1]
    drawn, gradients = [], []

    def note(batches):
        for batch, _ in batches:
            masks = torch.cat([observations["action_mask"] for observations in batch.observations])
            drawn.append(masks.gather(-1, batch.steps.flat().actions + torch.from_numpy(offsets)))
        if logits.weight.grad is not None:
            gradients.append(torch.cat([logits.weight.grad, logits.bias.grad[:, None]], dim=-1))

    run.train(NUM_DATASETS, note)
    assert torch.cat(drawn).shape == (NUM_DATASETS * 16, len(offsets))
    assert torch.cat(drawn).all()
    assert len(gradients) == NUM_DATASETS - 1, "those of the step before"
    for gradient in gradients:
        assert [bool(of_value.any()) for of_value in gradient] == [v != FORBIDDEN for v in range(len(gradient))]


BOX = spaces.Box(-1, 1, (2,), np.float32)
OBSERVATION_SPACES = [
    spaces.MultiDiscrete([[2, 3], [4, 2]], np.int8, start=[[0, -1], [5, 0]]),
    spaces.Tuple([spaces.Discrete(3, start=-1), spaces.Dict({"a": spaces.Tuple([BOX]), "b": spaces.MultiBinary(3)})]),
    spaces.Dict({"board": spaces.Box(0, 255, (1, 7, 7), np.uint8), "near": spaces.Tuple([BOX, BOX])}),
]
ACTION_SPACES = [
    spaces.Discrete(4, start=7),
    spaces.MultiDiscrete([[3, 2]], start=[[1, -1]]),
    spaces.MultiBinary((2, 2)),
    spaces.Dict({"turn": BOX, "keys": spaces.MultiBinary(2), "walk": spaces.Dict({"to": spaces.Discrete(3, start=1)})}),
    spaces.Tuple([spaces.Dict({"a": spaces.Discrete(2)}), spaces.MultiDiscrete([2, 3], start=[5, 0]), BOX]),
    spaces.Dict({"left": BOX, "right": spaces.Box(-2, 2, (1, 3), np.float32)}),
]


class AnySpaces(gymnasium.Env):
    """Shows what its space samples; some values of discrete parts are forbidden."""

    def __init__(self, observation_space, action_space):
        self.action_space, self._shown = action_space, observation_space
        self._shown.seed(1)
        self._sizes = [int(part.n) for part in action_parts(action_space) if isinstance(part, spaces.Discrete)]
        entries = {"seen": observation_space}
        if self._sizes:
            entries["action_mask"] = spaces.MultiBinary(sum(self._sizes))
        self.observation_space = spaces.Dict(entries)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        numbers = iter(flatten_action(self.action_space, action))
        first = 0
        for part in action_parts(self.action_space):
            taken = [next(numbers) for _ in range(part_width(part))]
            if isinstance(part, spaces.Discrete):
                assert self._mask[first + int(taken[0])], "a forbidden value was drawn"
                first += int(part.n)
        self._step += 1
        return self._observe(), float(self.np_random.normal()), False, self._step == 7, {}

    def _observe(self):
        observation = {"seen": self._shown.sample()}
        if self._sizes:
            masks = [self.np_random.integers(0, 2, size, dtype=np.int8) for size in self._sizes]
            for mask in masks:
                mask[0] |= not mask.any()
            observation["action_mask"] = self._mask = np.concatenate(masks)
        return observation


@pytest.mark.parametrize("action_space", ACTION_SPACES, ids=str)
@pytest.mark.parametrize("observation_space", OBSERVATION_SPACES, ids=["MultiDiscrete", "Tuple", "Dict"])
def test_with_every_space_inference_and_learner_agree_and_what_is_forbidden_is_not_drawn(
    make_blueprint, make_component, observation_space, action_space
):
    register_env("wandering", lambda *_, **__: AnySpaces(observation_space, action_space))
    flags = ("--async_rl=False", "--rollout=8", "--batch_size=16", "--num_epochs=1", "--learning_rate=0.01")
    flags = (*flags, "--encoder_conv_mlp_layers", "8", "--recurrence=8", "--use_rnn=True")
    run = Run(make_blueprint(*flags, env=AnySpaces(observation_space, action_space)), make_component)
    before = {name: weights.clone() for name, weights in run.trainer.model.named_parameters()}
    assert np.max(train_and_compare(run)) < 1e-5
    after = dict(run.trainer.model.named_parameters())
    assert [name for name, weights in before.items() if torch.equal(weights, after[name])] == []


class Summing(torch.nn.Module):
    """A network of one's own that sums up what it has seen."""

    def __init__(self, num_parameters, state_size=4):
        super().__init__()
        self.state_size = state_size
        self.encoder = torch.nn.LazyLinear(state_size)
        self.actor, self.critic = torch.nn.Linear(state_size, num_parameters), torch.nn.Linear(state_size, 1)

    def forward_head(self, observations):
        return self.encoder(torch.cat([each.flatten(1) for each in observations.values()], dim=1)).tanh()

    def forward_core(self, head, states):
        states = 0.5 * states + head
        return states, states

    def forward_core_sequence(self, head, states, starts_episode):
        outputs = []
        for t in range(head.shape[1]):
            output, states = self.forward_core(head[:, t], states * ~starts_episode[:, t, None])
            outputs.append(output)
        return torch.stack(outputs, dim=1)

    def forward_tail(self, core):
        return self.actor(core), self.critic(core).squeeze(-1)


@pytest.mark.parametrize("action_space", ACTION_SPACES, ids=str)
def test_with_a_network_of_ones_own_they_agree_as_well(make_blueprint, make_component, monkeypatch, action_space):
    monkeypatch.setattr(model_registry, "_makers", {})
    register_actor_critic(lambda cfg, seen, actions: Summing(num_action_parameters(actions)), state_size=4)
    env = AnySpaces(OBSERVATION_SPACES[1], action_space)
    register_env("wandering", lambda *_, **__: AnySpaces(OBSERVATION_SPACES[1], action_space))
    flags = ("--async_rl=False", "--rollout=8", "--batch_size=16", "--learning_rate=0.01", "--recurrence=8")
    run = Run(make_blueprint(*flags, "--use_rnn=True", env=env), make_component)
    assert np.max(train_and_compare(run)) < 1e-5


class Random(Wandering):
    """Larger observations, and a reward for every action but one; episodes of five steps."""

    largest, num_steps = 9, 5
    observation_space = spaces.Box(-9, 9, (3,), np.float32)

    def _reward(self, action):
        return float(action)


class Resting(Random):
    """Two agents, each of whom has no part in about a third of the steps, the first ones of episodes included."""

    num_agents = 2

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe_both(), self._describe()

    def step(self, actions):
        self._step += 1
        is_over = [self._step == 5] * 2
        return self._observe_both(), [1.0, 2.0], [False] * 2, is_over, self._describe()

    def _observe_both(self):
        return [self._observe(), self._observe()]

    def _describe(self):
        return [{"is_active": bool(self.np_random.random() < 0.7)} for _ in range(2)]


def make_vector():
    return VectorAgents(SyncVectorEnv([Random, Random], autoreset_mode=AutoresetMode.NEXT_STEP))


def test_episodes_that_begin_behind_an_inactive_step_begin_with_zeros_in_inference_and_learner(
    make_blueprint, make_component
):
    register_env("wandering", lambda *_, **__: make_vector())
    flags = ("--async_rl=False", "--rollout=8", "--batch_size=32", "--learning_rate=0.05", "--recurrence=8")
    run, differences = Run(make_blueprint(*flags, env=make_vector()), make_component), []
    memory = run.blueprint.trajectories

    def compare(batches):
        slots, steps = np.nonzero(memory.inactive)
        assert len(slots) >= 4
        assert not memory.states[slots, steps + 1].any()
        for batch, targets in batches:
            ratios, values = run.trainer.passes.evaluate(batch)
            valid = targets.flat().valid > 0
            differences.append(ratios.log()[valid].abs().max().item())
            differences.append((values - batch.steps.flat().values)[valid].abs().max().item())

    run.train(NUM_DATASETS, compare)
    assert np.max(differences) < 1e-5


@pytest.mark.parametrize("flags", [(), ("--with_vtrace=True",)], ids=["GAE", "V-trace"])
def test_the_memory_of_an_agent_that_misses_steps_is_the_same_in_inference_and_learner(
    make_blueprint, make_component, flags
):
    register_env("wandering", lambda *_, **__: Resting())
    flags = ("--async_rl=False", "--rollout=8", "--batch_size=32", "--learning_rate=0.05", "--recurrence=8", *flags)
    run, differences = Run(make_blueprint(*flags, "--use_rnn=True", env=Resting()), make_component), []

    def compare(batches):
        for batch, targets in batches:
            ratios, values = run.trainer.passes.evaluate(batch)
            valid = targets.flat().valid > 0
            assert 0 < valid.sum() < len(valid)
            differences.append(ratios.log()[valid].abs().max().item())
            differences.append((values - batch.steps.flat().values)[valid].abs().max().item())

    run.train(NUM_DATASETS, compare)
    assert np.max(differences) < 1e-5


class Grid(Random):
    """A picture of 7 x 7 pixels."""

    observation_space = spaces.Box(0, 255, (3, 7, 7), np.uint8)

    def _observe(self):
        return self.np_random.integers(0, 256, (3, 7, 7), dtype=np.uint8)


@pytest.mark.parametrize("architecture", ["convnet_simple", "convnet_impala", "convnet_atari", "resnet_impala"])
def test_small_images_are_trained_on(make_blueprint, make_component, architecture):
    register_env("wandering", lambda *_, **__: Grid())
    flags = ("--async_rl=False", "--rollout=8", "--batch_size=16", f"--encoder_conv_architecture={architecture}")
    run, differences = Run(make_blueprint(*flags, env=Grid()), make_component), []
    before = {name: weights.clone() for name, weights in run.trainer.model.named_parameters()}

    def compare(batches):
        for batch, _ in batches:
            ratios, values = run.trainer.passes.evaluate(batch)
            differences.append(
                (ratios.log().abs().max().item(), (values - batch.steps.flat().values).abs().max().item())
            )

    run.train(NUM_DATASETS, compare)
    assert np.max(differences) < 1e-5
    convolutions = [name for name, weights in before.items() if weights.ndim == 4]
    after = dict(run.trainer.model.named_parameters())
    assert convolutions
    assert all(not torch.equal(before[name], after[name]) for name in convolutions)
