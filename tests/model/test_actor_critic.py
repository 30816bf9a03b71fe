from __future__ import annotations

import copy
import io

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.config import ModelOptions, ObservationOptions
from sample_profiler.errors import ConfigError
from sample_profiler.model import make_actor_critic
from sample_profiler.model.encoders import ObservationEncoder
from sample_profiler.model.kernels.built import KERNELS
from sample_profiler.model.layers import Mlp
from sample_profiler.model.registry import ModelParts

NUM_AGENTS = 5
IMAGE_SPACE = spaces.Dict(
    {"obs": spaces.Box(0, 255, (3, 40, 40), np.uint8), "health": spaces.Box(0, 100, (2,), np.float32)}
)
MODEL = ModelOptions(encoder_mlp_layers=(8,), use_rnn=False)
VECTOR_SPACE = spaces.Dict({"obs": spaces.Box(-1, 1, (4,), np.float32)})
MASKED_SPACE = spaces.Dict({"obs": spaces.Box(-1, 1, (4,), np.float32), "action_mask": spaces.Box(0, 1, (3,), np.int8)})
needs_kernels = pytest.mark.skipif(KERNELS != "compiled", reason="there was no compiler")
VARIANTS = [
    pytest.param({}, id="shared"),
    pytest.param({"actor_critic_share_weights": False}, id="separate"),
    pytest.param({"use_rnn": False}, id="no memory"),
    pytest.param({"use_rnn": False, "actor_critic_share_weights": False}, id="separate, no memory"),
    pytest.param({"rnn_type": "lstm", "rnn_num_layers": 2, "actor_critic_share_weights": False}, id="separate lstm"),
    pytest.param({"decoder_mlp_layers": (7, 5)}, id="decoder"),
]


def observe(space, num_rows, seed=0):
    space.seed(seed)
    samples = [space.sample() for _ in range(num_rows)]
    return {key: torch.from_numpy(np.stack([sample[key] for sample in samples])) for key in space}


def rnn_state_size(**changes):
    return ModelOptions(**{"rnn_size": 6, **changes}).rnn_state_size


@pytest.mark.parametrize("changes", VARIANTS)
@pytest.mark.parametrize("space", [IMAGE_SPACE, MASKED_SPACE], ids=["image", "masked"])
def test_shapes_and_types_of_one_step(make_network, space, changes):
    network = make_network(space, **changes)
    assert network.state_size == rnn_state_size(**changes)
    with torch.inference_mode():
        normalized = network.normalize(observe(space, NUM_AGENTS))
        parameters, values, states = network(normalized, torch.zeros(NUM_AGENTS, network.state_size))
        actions = network.action_distribution(parameters).draw(torch.Generator())[0]
    assert parameters.shape == (NUM_AGENTS, 3)
    assert values.shape == (NUM_AGENTS,)
    assert states.shape == (NUM_AGENTS, network.state_size)
    assert actions.shape == (NUM_AGENTS, 1)
    assert {tensor.dtype for tensor in (parameters, values, states)} == {torch.float32}


@pytest.mark.parametrize("changes", VARIANTS)
@pytest.mark.parametrize("space", [IMAGE_SPACE, MASKED_SPACE], ids=["image", "masked"])
def test_sequences_equal_single_steps(make_network, space, changes):
    network = make_network(space, **changes)
    num_sequences, num_steps = 3, 6
    starts = torch.rand(num_sequences, num_steps) < 0.3
    states = torch.randn(num_sequences, network.state_size)
    normalized = network.normalize(observe(space, num_sequences * num_steps))
    head = network.forward_head(normalized)
    core = network.forward_core_sequence(head.view(num_sequences, num_steps, -1), states, starts)
    parameters, values = network.forward_tail(core.flatten(0, 1))
    for step in range(num_steps):
        rows = torch.arange(num_sequences) * num_steps + step
        states = torch.where(starts[:, step, None], 0.0, states)
        outputs = network({key: value[rows] for key, value in normalized.items()}, states)
        torch.testing.assert_close(outputs[0], parameters[rows], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(outputs[1], values[rows], atol=1e-5, rtol=1e-5)
        states = outputs[2]


def test_defect_1_the_learner_cannot_leave_out_the_action_mask(make_network):
    network = make_network(MASKED_SPACE)
    observations = observe(MASKED_SPACE, 20)
    observations["action_mask"] = torch.tensor([[1, 0, 1]] * 20, dtype=torch.int8)
    # What a learner does: it does not know of masks.
    head = network.forward_head(network.normalize(observations))
    core = network.forward_core_sequence(head.view(2, 10, -1), torch.zeros(2, 6), torch.zeros(2, 10, dtype=torch.bool))
    distribution = network.action_distribution(network.forward_tail(core.flatten(0, 1))[0])
    assert distribution.log_prob(torch.ones(20, 1, dtype=torch.int64)).max() < -1e8
    assert distribution.entropy().max() <= np.log(2) + 1e-6
    assert 1 not in distribution.draw()[0]


def test_the_mask_is_no_input_of_the_network(make_network):
    network = make_network(MASKED_SPACE)
    observations = observe(MASKED_SPACE, 2)
    values = []
    for allowed in (0, 1):
        observations["action_mask"] = torch.full((2, 3), allowed)
        values.append(network(network.normalize(observations), torch.zeros(2, 6))[1])
    assert torch.equal(*values)


@pytest.mark.parametrize("shares", [True, False])
def test_separate_weights_leave_the_actor_out_of_the_critics_gradient(make_network, shares):
    network = make_network(actor_critic_share_weights=shares)
    _, values, _ = network({"obs": torch.randn(2, 4)}, torch.zeros(2, network.state_size))
    values.sum().backward()
    gradients = torch.cat([parameter.grad.flatten() for parameter in network.trunks[0].parameters()])
    assert bool(gradients.any()) == shares


def test_the_same_seed_makes_the_same_network_and_another_one_does_not(make_network):
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(make_network().state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not all(torch.equal(states[0][name], states[2][name]) for name in states[0])


def test_orthogonal_layers_have_the_gain_and_the_actors_last_one_its_own_beside_it(make_network):
    network = make_network(use_rnn=False, decoder_mlp_layers=(4,), policy_init_gain=1.5, action_init_gain=0.01)
    trunk = network.trunks[0]
    layers = {"encoder": trunk.encoder.encoders[0].layers[0], "decoder": trunk.decoder[0]}
    layers |= {"value": network.value_head, "action": network.action_head.logits}
    # Rows, or columns where there are fewer of them, are orthogonal and as long as the gain: 1.5, or 0.01 * 1.5.
    for name, layer in layers.items():
        weight = layer.weight if len(layer.weight) <= len(layer.weight[0]) else layer.weight.t()
        gain = 0.015 if name == "action" else 1.5
        torch.testing.assert_close(weight @ weight.t(), gain**2 * torch.eye(len(weight)), rtol=0, atol=1e-6 * gain)


def test_parameters_are_told_by_part(make_network):
    vector = spaces.Dict({"obs": spaces.Box(-1, 1, (4,), np.float32)})
    network = make_network(vector, use_rnn=False, encoder_mlp_layers=(8, 6))
    # (4 + 1) x 8 + (8 + 1) x 6; (6 + 1) for each of three actions and the value.
    assert network.describe() == "122 parameters (encoder 94, heads 28)"
    assert "core" in make_network(vector).describe()


def test_everything_is_in_the_state_dict_and_loads_without_running_code(make_network):
    network = make_network(IMAGE_SPACE)
    observations = observe(IMAGE_SPACE, 4)
    network.update_normalizer(observations)
    network.returns_normalizer.update(torch.randn(10))
    file = io.BytesIO()
    torch.save(network.state_dict(), file)
    file.seek(0)
    torch.manual_seed(9)
    other = make_network(IMAGE_SPACE)
    other.load_state_dict(torch.load(file, weights_only=True))
    for ours, theirs in zip(_step(network, observations), _step(other, observations), strict=True):
        assert torch.equal(ours, theirs)
    assert other.returns_normalizer.count == 11
    assert all(isinstance(value, torch.Tensor) for value in network.state_dict().values())


def test_a_copy_is_a_network_of_its_own(make_network):
    network = make_network()
    clone = copy.deepcopy(network)
    observations = {"obs": torch.randn(3, 4)}
    before = _step(clone, observations)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    assert all(torch.equal(a, b) for a, b in zip(before, _step(clone, observations), strict=True))
    assert not torch.equal(before[1], _step(network, observations)[1])


ACTIONS = {
    "one of three": spaces.Discrete(3),
    "continuous": spaces.Box(-1, 1, (2,), np.float32),
    "several": spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(4)]),
}
ONE_PASS = [
    {"use_rnn": False},
    {"use_rnn": False, "decoder_mlp_layers": (7, 5), "nonlinearity": "tanh"},
    {"use_rnn": False, "actor_critic_share_weights": False, "adaptive_stddev": False, "nonlinearity": "relu"},
    {"use_rnn": False, "encoder_mlp_layers": ()},
]


@needs_kernels
@pytest.mark.parametrize("changes", ONE_PASS)
@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("shape", [(4,), (2, 3), ()])
def test_a_small_network_is_one_pass_in_inference_and_computes_the_same(make_network, shape, actions, changes):
    space = spaces.Dict({"obs": spaces.Box(-1, 1, shape, np.float32)})
    network = make_network(space, ACTIONS[actions], **changes)
    observations = observe(space, NUM_AGENTS)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)  # biases and deviations that are not all the same
    expected = _step(network, observations)
    network.pack()
    assert network._fused
    network.forward_head = None  # not needed
    for one, other in zip(expected, _step(network, observations), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        assert one.shape == other.shape


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"use_rnn": False, "encoder_mlp_layers": (600,)},
        {"use_rnn": False, "space": MASKED_SPACE},
        {"use_rnn": False, "space": IMAGE_SPACE},
        {"use_rnn": False, "action_space": ACTIONS["continuous"], "continuous_tanh_scale": 2.0},
    ],
    ids=["memory", "wide", "masked", "image", "tanh"],
)
def test_what_is_no_small_multilayer_perceptron_goes_part_by_part(make_network, changes):
    space = changes.pop("space", spaces.Dict({"obs": spaces.Box(-1, 1, (4,), np.float32)}))
    network = make_network(space, **changes)
    observations = observe(space, NUM_AGENTS)
    expected = _step(network, observations)
    network.pack()
    assert not network._fused
    for one, other in zip(expected, _step(network, observations), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


class _OwnEncoder(ObservationEncoder):
    def forward(self, observations):
        return super().forward(observations) + 1


class _OwnDecoder(Mlp):
    def forward(self, rows):
        return super().forward(rows) + 1


@pytest.mark.parametrize(
    "parts",
    [
        ModelParts(encoder=lambda space: _OwnEncoder(space.spaces, MODEL)),
        ModelParts(decoder=lambda size: _with_output_size(_OwnDecoder(size, (8,), "elu"), 8)),
    ],
    ids=["encoder", "decoder"],
)
def test_what_a_part_of_ones_own_does_beyond_ours_is_done_in_inference_too(parts):
    network = make_actor_critic(MODEL, ObservationOptions(), VECTOR_SPACE, spaces.Discrete(3), parts)
    observations = observe(VECTOR_SPACE, NUM_AGENTS)
    expected = _step(network, observations)
    network.pack()
    for one, other in zip(expected, _step(network, observations), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@needs_kernels
@pytest.mark.parametrize(
    "actions",
    [
        spaces.Discrete(3),
        spaces.Box(-1, 1, (2,), np.float32),
        spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (3,), np.float32)]),
    ],
    ids=["discrete", "continuous", "both"],
)
@pytest.mark.parametrize(
    "changes",
    [
        {"adaptive_stddev": False},
        {"encoder_mlp_layers": ()},
        {"encoder_mlp_layers": (40, 6), "decoder_mlp_layers": (5,), "nonlinearity": "tanh"},
    ],
    ids=["one deviation", "heads alone", "several layers"],
)
@pytest.mark.parametrize("shares", [True, False], ids=["shared", "separate"])
def test_a_small_network_learns_in_one_pass_what_it_would_part_by_part(make_network, actions, changes, shares):
    network = make_network(
        VECTOR_SPACE, action_space=actions, **{"use_rnn": False, "actor_critic_share_weights": shares, **changes}
    )
    observations = observe(VECTOR_SPACE, 9)
    at_once = network.forward_at_once(observations)
    assert at_once is not None
    part_by_part = network.forward_tail(network.forward_head(network.normalize(observations)))
    weigh = [torch.randn(each.shape) for each in part_by_part]
    found = []
    for outputs in (at_once, part_by_part):
        total = sum((each * weight).sum() for each, weight in zip(outputs, weigh, strict=True))
        found.append([*outputs, *torch.autograd.grad(total, list(network.parameters()))])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@needs_kernels
def test_a_frozen_encoder_stays_as_it_is(make_network):
    network = make_network(VECTOR_SPACE, use_rnn=False)
    network.trunks[0].encoder.requires_grad_(requires_grad=False)
    parameters, values = network.forward_at_once(observe(VECTOR_SPACE, 5))
    (parameters.sum() + values.sum()).backward()
    assert all(parameter.grad is None for parameter in network.trunks[0].encoder.parameters())
    assert all(parameter.grad.any() for parameter in network.value_head.parameters())


def test_bounded_means_are_no_layer(make_network):
    actions = spaces.Box(-1, 1, (2,), np.float32)
    network = make_network(VECTOR_SPACE, action_space=actions, use_rnn=False, continuous_tanh_scale=2.0)
    assert network.forward_at_once(observe(VECTOR_SPACE, 4)) is None


@pytest.mark.parametrize(
    ("space", "changes"),
    [
        (MASKED_SPACE, {"use_rnn": False}),
        (IMAGE_SPACE, {"use_rnn": False}),
        (VECTOR_SPACE, {}),
        (VECTOR_SPACE, {"use_rnn": False, "encoder_mlp_layers": (1000,)}),
    ],
    ids=["masked", "image", "recurrent", "wide"],
)
def test_what_is_more_than_small_layers_does_not_learn_in_one_pass(make_network, space, changes):
    assert make_network(space, **changes).forward_at_once(observe(space, 4)) is None


def _with_output_size(module, size):
    module.output_size = size
    return module


@needs_kernels
@pytest.mark.parametrize(
    "space",
    [spaces.Dict({"obs": spaces.Discrete(5)}), spaces.Dict({"obs": spaces.Box(-1, 1, (3,), np.float64)})],
    ids=["discrete", "float64"],
)
@pytest.mark.parametrize("shares", [True, False])
def test_one_pass_of_observations_of_other_types(make_network, space, shares):
    network = make_network(space, use_rnn=False, actor_critic_share_weights=shares)
    observations = observe(space, NUM_AGENTS)
    expected = _step(network, observations)
    network.pack()
    assert network._fused
    for one, other in zip(expected, _step(network, observations), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@needs_kernels
@pytest.mark.parametrize("refusing", [0, 1])
def test_where_one_of_two_trunks_is_refused_both_go_part_by_part(make_network, refusing):
    network = make_network(use_rnn=False, actor_critic_share_weights=False)
    expected = _step(network, {"obs": torch.ones(2, 4)})
    network.pack()
    fused = list(network._fused)
    fused[refusing] = lambda rows: None
    network._fused = tuple(fused)
    for one, other in zip(expected, _step(network, {"obs": torch.ones(2, 4)}), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


class _Parameters(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, rows):
        return self.network({"obs": rows}, torch.zeros(len(rows), 1))[0]


@pytest.mark.filterwarnings("ignore:.*jit.trace:DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_packed_network_is_traced_by_its_weights_not_by_one_pass(make_network):
    network = _Parameters(make_network(use_rnn=False))
    network.network.pack()
    with torch.no_grad():
        traced = torch.jit.trace(network, torch.randn(2, 4), check_trace=False)
        rows = torch.randn(2, 4)
        torch.testing.assert_close(traced(rows), network(rows), rtol=1e-5, atol=1e-5)


def test_multiplications_are_known_where_each_weight_is_used_once(make_network):
    network = make_network(use_rnn=False)
    assert network.num_multiplications == network.num_parameters
    assert make_network(IMAGE_SPACE).num_multiplications is None
    parts = ModelParts(encoder=lambda space: _OwnEncoder(space.spaces, MODEL))
    of_own = make_actor_critic(MODEL, ObservationOptions(), VECTOR_SPACE, spaces.Discrete(3), parts)
    assert of_own.num_multiplications is None


@needs_kernels
def test_rows_that_one_pass_refuses_go_part_by_part_with_the_weights_of_today(make_network):
    network = make_network(use_rnn=False)
    observations = {"obs": torch.randn(3, 4)}
    for factor in (1.0, 1.5, 2.0):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(factor)
        expected = _step(copy.deepcopy(network), observations)
        network.pack()
        network._fused = (lambda rows: None,)
        for one, other in zip(expected, _step(network, observations), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        assert network.value_head._small is not None  # so few rows that what is kept of each layer is used


def test_a_small_network_gives_gradients_after_it_was_packed(make_network):
    network = make_network(use_rnn=False)
    network.pack()
    parameters, values, _ = network({"obs": torch.randn(3, 4)}, torch.zeros(3, 1))
    (parameters.sum() + values.sum()).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_a_copy_of_a_packed_network_follows_its_own_weights(make_network):
    network = make_network(use_rnn=False)
    network.pack()
    clone = copy.deepcopy(network)
    observations = {"obs": torch.randn(3, 4)}
    before = _step(network, observations)
    with torch.no_grad():
        for parameter in clone.parameters():
            parameter.zero_()
    parameters, values, _ = _step(clone, observations)
    assert not parameters.any() and not values.any()
    assert all(torch.equal(one, other) for one, other in zip(before, _step(network, observations), strict=True))
    torch.save(network, io.BytesIO())


def test_continuous_actions(make_network):
    network = make_network(action_space=spaces.Box(-1, 1, (2,), np.float32), adaptive_stddev=False, initial_stddev=0.5)
    parameters, _, _ = _step(network, {"obs": torch.randn(3, 4)})
    assert parameters.shape == (3, 4)
    assert network.action_distribution(parameters).stddev.unique().tolist() == [0.5]


def test_bfloat16_computes_about_the_same_in_float32_results(make_network):
    network = make_network(IMAGE_SPACE)
    observations = observe(IMAGE_SPACE, 4)
    exact = _step(network, observations)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = _step(network, observations)
    for ours, theirs in zip(exact[:2], rough[:2], strict=True):
        assert theirs.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, atol=0.05, rtol=0.05)


@pytest.mark.parametrize(
    ("mask_space", "action_space", "problem"),
    [
        (spaces.Box(0, 1, (2,), np.int8), spaces.Discrete(3), "action_mask"),
        (spaces.Box(0, 1, (3,), np.int8), spaces.Box(-1, 1, (3,), np.float32), "0 in all"),
    ],
)
def test_masks_that_fit_no_actions_are_refused(make_network, mask_space, action_space, problem):
    space = spaces.Dict({"obs": MASKED_SPACE["obs"], "action_mask": mask_space})
    with pytest.raises(ConfigError, match=problem):
        make_network(space, action_space)


def test_a_mask_alone_is_no_observation(make_network):
    with pytest.raises(ConfigError, match="beside"):
        make_network(spaces.Dict({"action_mask": MASKED_SPACE["action_mask"]}))


def test_observation_options_reach_the_normalizer():
    network = make_actor_critic(
        ModelOptions(encoder_mlp_layers=(4,), use_rnn=False),
        ObservationOptions(obs_scale=10.0, normalize_input=False),
        spaces.Dict({"obs": spaces.Box(0, 255, (4,), np.uint8)}),
        spaces.Discrete(2),
    )
    assert network.normalize({"obs": torch.full((1, 4), 50, dtype=torch.uint8)})["obs"].tolist() == [[5] * 4]


def _step(network, observations):
    with torch.inference_mode():
        return network(network.normalize(observations), torch.zeros(len(observations["obs"]), network.state_size))
