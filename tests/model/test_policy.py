"""A policy by itself: batches as gymnasium's vectors have them, masks, memory, errors in words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from sample_profiler.config import ModelOptions, ObservationOptions
from sample_profiler.errors import PolicyError
from sample_profiler.model import make_actor_critic
from sample_profiler.model.policy import Policy
from sample_profiler.spaces import as_dict_space, num_action_parameters

BOX = spaces.Box(-1, 1, (2,), np.float32)
WIDE = spaces.Box(-np.inf, np.inf, (4,), np.float32)


def make(observation_space=WIDE, action_space=None, **options):
    """Make a policy that nobody has trained."""
    small = {"encoder_mlp_layers": (8,), "encoder_conv_mlp_layers": (8,), "rnn_size": 6}
    flat, action_space = as_dict_space(observation_space), spaces.Discrete(3) if action_space is None else action_space
    model = make_actor_critic(ModelOptions(**small | options), ObservationOptions(), flat, action_space)
    return Policy(model, flat, action_space)


OBSERVATION_SPACES = [
    spaces.Box(-1, 1, (), np.float64),
    spaces.Box(0, 255, (3, 7, 7), np.uint8),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([[2, 3]], start=[[4, 0]]),
    spaces.MultiBinary((2, 2)),
    spaces.Tuple([BOX, spaces.Dict({"a": spaces.Tuple([spaces.Discrete(2)]), "b": spaces.MultiBinary(2)})]),
    spaces.Dict({"a": spaces.Dict({"b": BOX}), "c": spaces.Box(0, 9, (2,), np.int16)}),
]
ACTION_SPACES = [
    spaces.Discrete(3, start=5),
    spaces.MultiDiscrete([[2], [3]], start=[[-1], [7]]),
    spaces.MultiBinary(3),
    spaces.Box(-0.1, 0.1, (2, 2), np.float64),
    spaces.Tuple([spaces.Discrete(2), BOX]),
    spaces.Dict(
        {"keys": spaces.MultiBinary(2), "go": spaces.Dict({"turn": BOX, "to": spaces.Tuple([spaces.Discrete(2)])})}
    ),
]
MODELS = [{}, {"use_rnn": False}, {"rnn_type": "lstm", "rnn_num_layers": 2}, {"actor_critic_share_weights": False},
          {"adaptive_stddev": False, "continuous_tanh_scale": 0.5, "decoder_mlp_layers": (5,)}]  # fmt: skip


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("action_space", ACTION_SPACES, ids=str)
def test_actions_are_batched_as_gymnasium_batches_them(action_space, deterministic):
    policy = make(action_space=action_space)
    actions, states = policy.act(np.random.default_rng(0).normal(size=(5, 4)), deterministic=deterministic)
    assert batch_space(action_space, 5).contains(actions), actions
    assert (states.shape, states.dtype) == ((5, 6), np.float32)


@pytest.mark.parametrize("options", MODELS, ids=str)
@pytest.mark.parametrize("space", OBSERVATION_SPACES, ids=str)
def test_batched_observations_of_every_space_are_read_by_every_network(space, options):
    policy = make(space, spaces.Dict({"a": spaces.Discrete(3), "b": BOX}), **options)
    batched = batch_space(space, 4)
    batched.seed(1)
    evaluation = policy.evaluate(batched.sample())
    assert evaluation.action_parameters.shape == (4, num_action_parameters(policy.action_space))
    assert evaluation.values.shape == evaluation.expected_returns.shape == (4,)
    assert evaluation.states.shape == (4, policy.state_size)
    assert all(array.dtype == np.float32 for array in vars(evaluation).values())
    assert np.isfinite(evaluation.action_parameters).all()
    policy.act(batched.sample(), evaluation.states)


def test_the_most_probable_action_is_that_of_the_parameters_and_others_are_drawn_by_the_generator():
    policy = make(action_space=spaces.Discrete(50, start=10))
    observations = np.random.default_rng(0).normal(size=(300, 4))
    parameters = policy.evaluate(observations).action_parameters
    assert (policy.act(observations)[0] == 10 + parameters.argmax(1)).all()
    drawn = []
    for seed in (1, 1, 2):
        policy.generator.manual_seed(seed)
        drawn.append(policy.act(observations, deterministic=False)[0])
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != drawn[2]).any()
    assert (drawn[0] != 10 + parameters.argmax(1)).mean() > 0.5


@pytest.mark.parametrize("deterministic", [True, False])
def test_what_a_mask_forbids_is_not_chosen(deterministic):
    space = spaces.Dict({"obs": WIDE, "action_mask": spaces.MultiBinary(7)})
    policy = make(space, spaces.Dict({"a": spaces.MultiBinary(2), "b": spaces.Discrete(3, start=1)}))
    mask = np.tile(np.array([1, 0, 1, 1, 0, 1, 1], np.int8), (500, 1))
    observations = {"obs": np.random.default_rng(0).normal(size=(500, 4)), "action_mask": mask}
    actions, _ = policy.act(observations, deterministic=deterministic)
    assert not actions["a"][:, 0].any()
    assert set(actions["b"]) <= {2, 3}
    assert (policy.evaluate(observations).action_parameters[:, [1, 4]] == -1e9).all()


@pytest.mark.parametrize("options", MODELS, ids=str)
def test_states_are_what_an_episode_is_remembered_by(options):
    policy = make(**options)
    remembers = options.get("use_rnn", True)
    first, second = np.random.default_rng(0).normal(size=(2, 3, 4))
    _, states = policy.act(first)
    assert np.array_equal(policy.evaluate(first, policy.initial_states(3)).states, states)
    after, anew = policy.evaluate(second, states), policy.evaluate(second)
    assert np.array_equal(after.values, anew.values) == (not remembers)
    states[1] = 0.0  # its episode has ended
    mixed = policy.evaluate(second, states).values
    np.testing.assert_allclose(mixed, [after.values[0], anew.values[1], after.values[2]], atol=1e-6)


def test_a_single_observation_is_a_batch_of_one_and_rows_do_not_depend_on_each_other():
    policy = make(action_space=BOX)
    observations = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    observations.flags.writeable = False
    together, _ = policy.act(observations)
    alone = [policy.act(observation[None])[0][0] for observation in observations[::-1]]
    np.testing.assert_allclose(alone[::-1], together, atol=1e-6)
    np.testing.assert_allclose(policy.act(observations[::2])[0], together[::2], atol=1e-6)


def test_values_are_told_as_the_network_gives_them_and_in_units_of_rewards():
    policy = make()
    policy.state_dict()["returns_normalizer.mean"].fill_(100.0)
    policy.state_dict()["returns_normalizer.variance"].fill_(4.0)
    evaluation = policy.evaluate(np.ones((2, 4)))
    np.testing.assert_allclose(evaluation.expected_returns, 100 + 2 * evaluation.values, rtol=1e-4)


def test_weights_that_change_count_after_a_refresh():
    policy = make(use_rnn=False)
    observations = np.ones((2, 4))
    before = policy.evaluate(observations).values
    with torch.no_grad():
        for tensor in policy.state_dict().values():
            tensor.mul_(0.5)
    policy.refresh()
    assert not np.allclose(policy.evaluate(observations).values, before)


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        (
            np.zeros(4),
            r"'obs' is of shape \(4,\); this policy sees \[N, 4\]: add a first dimension, as observation\[None\]",
        ),
        (np.zeros((2, 3)), r"'obs' is of shape \(2, 3\); this policy sees \[N, 4\]$"),
        (np.zeros((0, 4)), r"the observations have \{'obs': 0\} rows"),
        (0.5, r"'obs' is of shape \(\)"),
        (
            {"obs": np.zeros((2, 4)), "more": np.zeros(2)},
            r"consist of \['more', 'obs'\], and this policy sees \['obs'\]",
        ),
        ({}, r"consist of \[\], and this policy sees"),
        ([[1.0] * 4, [1.0]], "'obs' of type list makes no array"),
        (np.zeros((2, 4), complex), "'obs' is of type complex128; this policy sees float32"),
        (np.array([["a"] * 4]), "'obs' is of type <U1"),
        (None, r"'obs' is of shape \(\)"),
        (np.full((2, 4), np.nan), "'obs' has NaN or infinity"),
    ],
)
def test_observations_of_something_else_are_refused_in_words(observations, message):
    policy = make()
    for ask in (policy.act, policy.evaluate):
        with pytest.raises(PolicyError, match=message):
            ask(observations)


def test_entries_that_differ_in_length_or_are_out_of_their_range_are_refused():
    policy = make(spaces.Dict({"a": spaces.Discrete(3), "b": BOX, "c": spaces.Box(0, 255, (1,), np.uint8)}))
    good = {"a": np.array([0, 2]), "b": np.zeros((2, 2)), "c": np.array([[255], [0]])}
    policy.act(good)
    for change, message in (
        ({"b": np.zeros((3, 2))}, r"have \{'a': 2, 'b': 3, 'c': 2\} rows"),
        ({"a": np.array([0, 3])}, r"'a' has values outside of Discrete\(3\)"),
        ({"c": np.array([[256], [0]])}, "'c' is of type int64; this policy sees uint8"),
    ):
        with pytest.raises(PolicyError, match=message):
            policy.act(good | change)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (
            np.zeros((1, 6)),
            r"of shape \(1, 6\); with 2 observations they are \(2, 6\): give those that the step before",
        ),
        (np.zeros(6), r"of shape \(6,\)"),
        ([[0.0], [0.0, 1.0]], "states of type list makes no array"),
        (np.zeros((2, 6), int), "of type int64 hold what is no finite number"),
        (np.full((2, 6), np.inf), "of type float64 hold what is no finite number"),
    ],
)
def test_states_of_something_else_are_refused_in_words(states, message):
    policy = make()
    for ask in (policy.act, policy.evaluate):
        with pytest.raises(PolicyError, match=message):
            ask(np.zeros((2, 4)), states)
