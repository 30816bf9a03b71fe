"""Parts of networks as code for Sample Factory has them, in networks of this package."""

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from sample_profiler.compat.networks.distributions import argmax_actions, get_action_distribution
from sample_profiler.compat.networks.factory import ModelFactory, get_rnn_size
from sample_profiler.compat.networks.inference import create_actor_critic, prepare_and_normalize_obs
from sample_profiler.compat.networks.parts import (
    Decoder,
    Encoder,
    ModelCore,
    ModelCoreRNN,
    MultiInputEncoder,
    calc_num_elements,
    create_mlp,
    make_img_encoder,
    nonlinearity,
)
from sample_profiler.compat.settings.arguments import default_cfg
from sample_profiler.config import parse_config
from sample_profiler.envs import EnvSpec
from sample_profiler.errors import ConfigError, ModelError, UsageError
from sample_profiler.model import registry
from sample_profiler.run.layout.factories import make_network

SPACE = spaces.Dict({"obs": spaces.Box(-1, 1, (4,), np.float32), "choice": spaces.Discrete(3, start=1)})
ACTIONS = spaces.Discrete(5)


class OwnEncoder(Encoder):
    def __init__(self, cfg, obs_space):
        super().__init__(cfg)
        self.net = create_mlp([cfg.rnn_size], obs_space["obs"].shape[0] + 1, nonlinearity(cfg))
        self.out = calc_num_elements(self.net, (obs_space["obs"].shape[0] + 1,))

    def forward(self, obs_dict):
        assert set(obs_dict["choice"].flatten().tolist()) <= {1.0, 2.0, 3.0}, "values, no vectors with a one in them"
        return self.net(torch.cat([obs_dict["obs"], obs_dict["choice"][:, None]], 1))

    def get_out_size(self):
        return self.out


class OwnCore(ModelCore):
    """A GRU of one's own over steps and packed sequences."""

    def __init__(self, cfg, input_size):
        super().__init__(cfg)
        self.inner = ModelCoreRNN(cfg, input_size)
        self.core_output_size = cfg.rnn_size

    def forward(self, head, states):
        return self.inner(head, states)


class OwnDecoder(Decoder):
    def __init__(self, cfg, size):
        super().__init__(cfg)
        self.layer = nn.Linear(size, 6)

    def forward(self, core_output):
        return self.layer(core_output)

    def get_out_size(self):
        return 6


@pytest.fixture
def factory(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})
    return ModelFactory()


def network_of(*flags):
    config = parse_config(["--env=mine", "--rnn_size=8", *flags])
    return make_network(config, EnvSpec(observation_space=SPACE, action_space=ACTIONS))


@pytest.mark.parametrize(
    "flags", [(), ("--rnn_type=lstm", "--rnn_num_layers=2"), ("--actor_critic_share_weights=False",)]
)
def test_a_core_of_ones_own_goes_through_sequences_as_step_by_step(factory, flags):
    factory.register_encoder_factory(OwnEncoder)
    factory.register_model_core_factory(OwnCore)
    factory.register_decoder_factory(OwnDecoder)
    network = network_of(*flags)
    head, states = torch.randn(3, 7, sum(network._head_sizes)), torch.randn(3, network.state_size)
    starts = torch.rand(3, 7) < 0.3
    with torch.no_grad():
        sequence = network.forward_core_sequence(head, states, starts)
        for step in range(7):
            states = torch.where(starts[:, step, None], 0.0, states)
            output, states = network.forward_core(head[:, step], states)
            torch.testing.assert_close(sequence[:, step], output, atol=1e-6, rtol=1e-5)
    assert network.forward_tail(output)[0].shape == (3, 5)


def test_a_core_that_takes_no_sequences_says_so(factory):
    class Wrong(OwnCore):
        def forward(self, head, states):
            output, states = super().forward(head, states)
            return getattr(output, "data", output), states

    factory.register_model_core_factory(Wrong)
    with pytest.raises(ModelError, match="has to take sequences"):
        network_of()


def test_a_core_that_would_not_be_used_is_refused(factory):
    cfg = default_cfg()
    cfg.use_rnn = False
    factory.check(cfg)
    factory.register_model_core_factory(OwnCore)
    with pytest.raises(ConfigError, match="a core is registered"):
        factory.check(cfg)


def test_widths_of_states_are_those_of_runs_here():
    for flags in (
        (),
        ("--rnn_type=lstm",),
        ("--rnn_num_layers=3",),
        ("--actor_critic_share_weights=False",),
        ("--use_rnn=False",),
    ):
        config = parse_config(["--env=mine", *flags])
        assert get_rnn_size(config) == config.model.rnn_state_size


def test_a_loop_of_ones_own_sees_what_training_sees(factory):
    factory.register_encoder_factory(OwnEncoder)
    trained = network_of()
    cfg = default_cfg()
    cfg.rnn_size = 8
    model = create_actor_critic(cfg, SPACE, ACTIONS)
    model.eval()
    model.model_to_device(torch.device("cpu"))
    model.load_state_dict(trained.state_dict())
    observations = {"obs": np.ones((2, 4), np.float32), "choice": np.array([1, 3])}
    states = torch.zeros(2, get_rnn_size(cfg))
    with torch.no_grad():
        result = model(prepare_and_normalize_obs(model, observations), states)
        expected = trained(trained.normalize({k: torch.from_numpy(v) for k, v in observations.items()}), states)
    torch.testing.assert_close((result["action_logits"], result["values"], result["new_rnn_states"]), expected)
    assert result["actions"].shape == result["log_prob_actions"].shape == (2,)
    chosen = argmax_actions(model.action_distribution())
    assert chosen.tolist() == result["action_logits"].argmax(-1).tolist()
    assert isinstance(model.encoder, OwnEncoder) and model.core.state_size == 8 and not hasattr(model, "nothing")
    again = copy.deepcopy(model)
    again.load_state_dict(model.state_dict())


def test_masks_reach_the_actions_of_a_loop_of_ones_own():
    space = spaces.Dict({"obs": SPACE["obs"], "action_mask": spaces.Box(0, 1, (5,), np.int8)})
    model = create_actor_critic(default_cfg(), space, ACTIONS)
    mask = torch.tensor([[0, 0, 1, 0, 0]] * 2)
    for given in ({}, {"action_mask": mask}):
        normalized = prepare_and_normalize_obs(model, {"obs": np.ones((2, 4), np.float32)})
        with torch.no_grad():
            result = model(normalized, torch.zeros(2, 512), **given)
        if given:
            assert result["actions"].tolist() == [2, 2]


def test_a_mask_that_is_no_part_of_observations_reaches_them_too():
    model = create_actor_critic(default_cfg(), spaces.Dict({"obs": SPACE["obs"]}), ACTIONS)
    normalized = prepare_and_normalize_obs(model, {"obs": np.ones((2, 4), np.float32)})
    with torch.no_grad():
        result = model(normalized, torch.zeros(2, 512), action_mask=torch.tensor([[0, 0, 1, 0, 0]] * 2))
    assert result["actions"].tolist() == [2, 2]
    assert model.action_distribution().probs[:, 2].tolist() == [1, 1]


def test_distributions_by_themselves():
    both = spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)))
    distribution = get_action_distribution(both, torch.zeros(4, 7))
    assert distribution.sample().shape == (4, 3)
    assert not hasattr(distribution, "probs")
    discrete = get_action_distribution(ACTIONS, torch.zeros(4, 5), torch.tensor([[1, 0, 1, 0, 0]] * 4))
    torch.testing.assert_close(discrete.probs[0], torch.tensor([0.5, 0, 0.5, 0, 0]))
    assert (
        discrete.log_prob(torch.tensor([0, 2, 0, 2])).tolist()
        == discrete.log_prob(torch.tensor([[0], [2], [0], [2]])).tolist()
    )
    assert set(discrete.sample_gumbel().tolist()) <= {0, 2}
    assert discrete.log_prob(torch.tensor([[0, 2, 1]] * 4)).shape == (12,)
    pair = get_action_distribution(
        spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))),
        torch.zeros(4, 5),
        [torch.tensor([1, 0]), torch.tensor([[0, 0, 1]] * 4)],
    )
    assert pair.sample().tolist() == [[0, 2]] * 4
    with pytest.raises(UsageError, match="have 5 parameters, not 4"):
        get_action_distribution(ACTIONS, torch.zeros(4, 4))


def test_the_encoder_of_images():
    cfg = default_cfg()
    encoder = make_img_encoder(cfg, spaces.Box(0, 255, (3, 72, 128), np.uint8))
    assert encoder(torch.zeros(2, 3, 72, 128)).shape == (2, encoder.get_out_size())


def test_values_become_returns_by_the_statistics_of_the_policy(factory):
    model = create_actor_critic(default_cfg(), SPACE, ACTIONS).eval()
    model.load_state_dict({**model.network.state_dict(), "returns_normalizer.mean": torch.tensor(3.0)})
    values = torch.tensor([-9.0, 0.0, 1.0])
    model.returns_normalizer(values, denormalize=True)
    torch.testing.assert_close(values, torch.tensor([-2.0, 3.0, 4.0]), atol=1e-4, rtol=0)
    model.returns_normalizer(values)
    torch.testing.assert_close(values, torch.tensor([-5.0, 0.0, 1.0]), atol=1e-4, rtol=0)
    assert model.network.returns_normalizer.mean == 3
    assert model.obs_normalizer({"obs": torch.ones(1, 4), "choice": torch.ones(1)}).keys() == {"obs", "choice"}
    model.cfg.normalize_returns = False
    assert model.returns_normalizer is None


class Longer(MultiInputEncoder):
    """The usual encoder with a layer behind it, as those write it who derive from it."""

    def __init__(self, cfg, obs_space):
        super().__init__(cfg, obs_space)
        widths = [self.encoders[key].get_out_size() for key in self.obs_keys]
        self.layer = nn.Linear(sum(widths), 7)
        self.encoder_out_size = 7

    def forward(self, obs_dict):
        return self.layer(super().forward(obs_dict))


def test_what_derives_from_the_usual_encoders_changes_their_width(factory):
    space = spaces.Dict({"obs": SPACE["obs"], "image": spaces.Box(0, 255, (3, 36, 36), np.uint8)})
    cfg = default_cfg()
    cfg.encoder_mlp_layers, cfg.encoder_conv_mlp_layers = [5], [6]
    encoder = Longer(cfg, space)
    assert list(encoder.encoders) == ["image", "obs"]
    assert [each.encoder_out_size for each in encoder.encoders.values()] == [6, 5]
    factory.register_encoder_factory(Longer)
    config = parse_config(["--env=mine", "--use_rnn=False"])
    network = make_network(config, EnvSpec(observation_space=space, action_space=ACTIONS))
    assert network.trunks[0].encoder.output_size == 7
