"""Whole networks as code for Sample Factory has them, in runs of this package."""

import contextlib
import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from sample_profiler.compat.networks.actor_critics import (
    ActorCritic,
    ActorCriticSeparateWeights,
    ActorCriticSharedWeights,
    default_make_actor_critic_func,
)
from sample_profiler.compat.networks.cores import run_sequences
from sample_profiler.compat.networks.factory import ModelFactory, get_rnn_size, global_model_factory
from sample_profiler.compat.networks.inference import create_actor_critic, prepare_and_normalize_obs
from sample_profiler.compat.networks.own_actions import check_actions
from sample_profiler.compat.networks.parts import Encoder, ModelCoreRNN, create_mlp, nonlinearity
from sample_profiler.compat.settings.arguments import default_cfg
from sample_profiler.config import parse_config
from sample_profiler.envs import EnvSpec
from sample_profiler.errors import ConfigError, ModelError
from sample_profiler.model import registry
from sample_profiler.model.registry import export_model_parts, import_model_parts, recurrent_state_size
from sample_profiler.run.layout.factories import make_network

SPACE = spaces.Dict({"obs": spaces.Box(-1, 1, (4,), np.float32), "choice": spaces.Discrete(3, start=1)})
MASKED = spaces.Dict({"obs": SPACE["obs"], "action_mask": spaces.Box(0, 1, (3,), np.int8)})
ACTIONS = spaces.Discrete(3)
MOVES = spaces.Box(-1, 1, (2,), np.float32)


class OwnEncoder(Encoder):
    def __init__(self, cfg, obs_space):
        super().__init__(cfg)
        self.net = create_mlp([8], 4, nonlinearity(cfg))

    def forward(self, obs_dict):
        return self.net(obs_dict["obs"])

    def get_out_size(self):
        return 8


class WithValueNet(ActorCritic):
    """As people write them: the value has a network of its own, and ends are squeezed."""

    def __init__(self, model_factory, obs_space, action_space, cfg):
        super().__init__(obs_space, action_space, cfg)
        self.encoder = model_factory.make_model_encoder_func(cfg, obs_space)
        self.core = model_factory.make_model_core_func(cfg, self.encoder.get_out_size())
        self.value_net = create_mlp([8], self.core.get_out_size(), nonlinearity(cfg))
        self.critic_linear = nn.Linear(8, 1)
        self.action_parameterization = self.get_action_parameterization(self.core.get_out_size())
        self.apply(self.initialize_weights)

    def forward_head(self, normalized_obs_dict):
        if "choice" in normalized_obs_dict:
            assert set(normalized_obs_dict["choice"].flatten().tolist()) <= {1.0, 2.0, 3.0}
        return self.encoder(normalized_obs_dict)

    def forward_core(self, head_output, rnn_states):
        return self.core(head_output, rnn_states)

    def forward_tail(self, core_output, values_only, sample_actions):
        result = {"values": self.critic_linear(self.value_net(core_output)).squeeze()}
        result["action_logits"], self.last_action_distribution = self.action_parameterization(core_output)
        self._maybe_sample_actions(sample_actions, result)
        return result


def make_own(cfg, obs_space, action_space):
    return WithValueNet(global_model_factory(), obs_space, action_space, cfg)


@pytest.fixture
def factory(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})
    factory = ModelFactory()
    factory.register_encoder_factory(OwnEncoder)
    return factory


def network_of(*flags, space=SPACE, actions=ACTIONS):
    config = parse_config(["--env=mine", "--rnn_size=8", *flags])
    network = make_network(config, EnvSpec(observation_space=space, action_space=actions))
    assert network.state_size == recurrent_state_size(config)
    return network


ONE_CORE = [(), ("--use_rnn=False",), ("--rnn_type=lstm", "--rnn_num_layers=2")]
TWO_CORES = [("--actor_critic_share_weights=False", *flags) for flags in ONE_CORE]


@pytest.mark.parametrize(
    ("make", "flags"),
    [
        *((make_own, flags) for flags in ONE_CORE),
        *((default_make_actor_critic_func, flags) for flags in ONE_CORE + TWO_CORES),
    ],
)
def test_a_network_of_ones_own_goes_through_sequences_as_step_by_step(factory, make, flags):
    factory.register_actor_critic_factory(make)
    network = network_of(*flags)
    seen = {"obs": torch.randn(21, 4), "choice": torch.randint(1, 4, (21,))}
    head = network.forward_head(network.normalize(seen)).unflatten(0, (3, 7)).detach()
    states = torch.randn(3, network.state_size)
    starts = torch.rand(3, 7) < 0.3
    with torch.no_grad():
        sequence = network.forward_core_sequence(head, states, starts)
        for step in range(7):
            states = torch.where(starts[:, step, None], 0.0, states)
            output, states = network.forward_core(head[:, step], states)
            torch.testing.assert_close(sequence[:, step], output, atol=1e-6, rtol=1e-5)
    for num_agents in (1, 3):
        parameters, values = network.forward_tail(output[:num_agents])
        assert parameters.shape == (num_agents, 3)
        assert values.shape == (num_agents,)
    (parameters.sum() + values.sum()).backward()
    copy.deepcopy(network)


class Tapped(ActorCriticSeparateWeights):
    """Has a look at what the method that it is told to use returns."""

    def __init__(self, model_factory, obs_space, action_space, cfg):
        super().__init__(model_factory, obs_space, action_space, cfg)
        self.num_passes = 0
        usual = self.core_func

        def counted(head_output, rnn_states):
            self.num_passes += 1
            return usual(head_output, rnn_states)

        self.core_func = counted

    def summaries(self):
        figures = super().summaries() | self.obs_normalizer.summaries()
        return figures if self.returns_normalizer else figures | {"passes": torch.tensor(float(self.num_passes))}


def make_tapped(cfg, obs_space, action_space):
    return Tapped(global_model_factory(), obs_space, action_space, cfg)


@pytest.mark.parametrize("flags", [("--use_rnn=True",), ("--use_rnn=False",)])
def test_the_way_through_two_cores_can_be_replaced_and_figures_of_ones_own_are_charted(factory, flags):
    factory.register_actor_critic_factory(make_tapped)
    network = network_of("--actor_critic_share_weights=False", *flags)
    before = network.own.actor_critic.num_passes
    head = network.forward_head(network.normalize({"obs": torch.randn(2, 4), "choice": torch.tensor([1, 2])}))
    network.forward_core(head, torch.zeros(2, network.state_size))
    assert network.summaries() == {"passes": before + 1}


@pytest.mark.parametrize("adaptive", [True, False])
def test_continuous_actions(factory, adaptive):
    factory.register_actor_critic_factory(make_own)
    network = network_of(f"--adaptive_stddev={adaptive}", "--continuous_tanh_scale=2", actions=MOVES)
    parameters, _, _ = network(
        network.normalize({"obs": torch.full((5, 4), 9.0), "choice": torch.ones(5)}), torch.zeros(5, 8)
    )
    assert parameters.shape == (5, 4)
    assert hasattr(network.own.actor_critic.action_parameterization, "learned_stddev") is not adaptive
    if not adaptive:
        assert parameters[:, :2].abs().max() <= 2
        torch.testing.assert_close(parameters[:, 2:], torch.zeros(5, 2))


def test_a_mask_forbids_actions_of_a_network_that_knows_nothing_of_it(factory):
    factory.register_actor_critic_factory(make_own)
    network = network_of(space=MASKED)
    seen = {"obs": torch.ones(2, 4), "action_mask": torch.tensor([[0, 1, 0]] * 2, dtype=torch.int8)}
    parameters, _, _ = network(network.normalize(seen), torch.zeros(2, 8))
    assert network.action_distribution(parameters).draw()[0].flatten().tolist() == [1, 1]


def test_a_loop_of_ones_own_sees_what_training_sees(factory):
    factory.register_actor_critic_factory(make_own)
    trained = network_of()
    cfg = default_cfg()
    cfg.rnn_size = 8
    model = create_actor_critic(cfg, SPACE, ACTIONS)
    model.load_state_dict(trained.state_dict())
    assert model.value_net is model.network.own.actor_critic.value_net
    observations = {"obs": np.ones((2, 4), np.float32), "choice": np.array([1, 3])}
    states = torch.zeros(2, get_rnn_size(cfg))
    with torch.no_grad():
        result = model(prepare_and_normalize_obs(model, observations), states)
        expected = trained(trained.normalize({k: torch.from_numpy(v) for k, v in observations.items()}), states)
    torch.testing.assert_close((result["action_logits"], result["values"], result["new_rnn_states"]), expected)


def test_by_itself_it_does_what_theirs_do(factory):
    cfg = default_cfg()
    cfg.rnn_size = 8
    for share in (True, False):
        cfg.actor_critic_share_weights = share
        model = factory.make_actor_critic_func(cfg, MASKED, ACTIONS)
        seen, states = {"obs": torch.ones(2, 4)}, torch.zeros(2, get_rnn_size(cfg))
        for part in (model.obs_normalizer, model.action_parameterization):  # as people freeze them
            part.requires_grad_(False)
        assert model.obs_normalizer(seen) is seen
        result = model(model.normalize_obs(seen), states, action_mask=torch.tensor([[0, 0, 1]] * 2))
        assert result["actions"].tolist() == [2, 2]
        assert result["new_rnn_states"].shape == states.shape
        assert set(model(seen, states, values_only=True)) == {"values", "new_rnn_states"}


def test_a_network_that_knows_no_mask_is_not_shown_one_and_draws_by_it_all_the_same(factory):
    seen_keys = []

    class Whole(Encoder):
        def forward(self, obs_dict):
            seen_keys.append(set(obs_dict))
            return torch.cat(list(obs_dict.values()), dim=1)

        def get_out_size(self):
            return 4

    factory.register_encoder_factory(lambda cfg, space: Whole(cfg))
    cfg = default_cfg()
    cfg.rnn_size = 8
    model = create_actor_critic(cfg, spaces.Dict(obs=SPACE["obs"]), ACTIONS)
    states = torch.zeros(2, get_rnn_size(cfg))
    result = model({"obs": torch.ones(2, 4)}, states, action_mask=torch.tensor([[0, 0, 1]] * 2))
    assert result["actions"].tolist() == [2, 2]
    assert all(keys == {"obs"} for keys in seen_keys)


def test_parts_that_a_network_asks_for_are_those_registered_in_any_process_of_the_run(factory, monkeypatch):
    factory.register_model_core_factory(lambda cfg, size: ModelCoreRNN(cfg, size))
    factory.register_actor_critic_factory(make_own)
    payload = export_model_parts()
    monkeypatch.setattr(registry, "_makers", {})
    import_model_parts(payload)
    assert isinstance(network_of().own.actor_critic.encoder, OwnEncoder)


def test_a_core_need_not_be_asked_for_where_a_whole_network_chooses_its_own(factory):
    cfg = default_cfg()
    cfg.use_rnn = False
    factory.register_model_core_factory(ModelCoreRNN)
    with pytest.raises(ConfigError, match="a core is registered"):
        factory.check(cfg)
    factory.register_actor_critic_factory(make_own)
    assert factory.check(cfg) is None, "it may have one that it does not use"


class Normalizing(ActorCriticSharedWeights):
    def normalize_obs(self, obs):
        return obs


class Drawing(ActorCriticSharedWeights):
    def forward_tail(self, core_output, values_only, sample_actions, action_mask=None):
        result = super().forward_tail(core_output, values_only, sample_actions)
        self.last_action_distribution = torch.distributions.Categorical(logits=result["action_logits"])
        return result


class Filtering(ActorCriticSharedWeights):
    """Keeps actions from what is dangerous, as it takes it."""

    def forward(self, *arguments, **options):
        result = super().forward(*arguments, **options)
        result["actions"] = torch.ones_like(result["actions"])
        return result


class FilteringAtItsTail(ActorCriticSharedWeights):
    def forward_tail(self, core_output, values_only, sample_actions, action_mask=None):
        result = super().forward_tail(core_output, values_only, sample_actions)
        if sample_actions:
            result["actions"] = result["actions"] * 0
        return result


class Repeating(ActorCriticSharedWeights):
    """Has a `forward` of its own that does the same, in another order of random numbers."""

    def forward(self, normalized_obs_dict, rnn_states, values_only=False, action_mask=None):
        torch.rand(3)
        core, states = self.forward_core(self.forward_head(normalized_obs_dict), rnn_states)
        return {**self.forward_tail(core, values_only, sample_actions=True), "new_rnn_states": states}


class Unusual(ActorCriticSharedWeights):
    """Is called by loops of its own only."""

    def forward(self, table):
        return table.columns


@pytest.mark.parametrize("action_space", [ACTIONS, MOVES, spaces.Tuple([ACTIONS, MOVES])])
@pytest.mark.parametrize(
    ("kind", "is_other"), [(Filtering, True), (FilteringAtItsTail, True), (Repeating, False), (Unusual, False)]
)
def test_a_network_that_returns_other_actions_than_its_logits_are_of_is_refused(factory, kind, is_other, action_space):
    cfg = default_cfg()
    network = kind(factory, SPACE, action_space, cfg)
    before = torch.random.get_rng_state()
    with pytest.raises(ModelError, match="returns other actions") if is_other else contextlib.nullcontext():
        check_actions(network, cfg, SPACE, action_space)
    assert torch.equal(torch.random.get_rng_state(), before)


class WithoutSequences(ActorCriticSharedWeights):
    def forward_core(self, head_output, rnn_states):
        output, states = super().forward_core(head_output, rnn_states)
        return getattr(output, "data", output), states


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (lambda *_: None, r"is None; it is a torch\.nn\.Module"),
        (lambda *_: nn.Linear(1, 1), "has no attribute 'forward_head'"),
        (Normalizing, r"normalize_obs would not be called.*--normalize_input=False"),
        (Drawing, r"draws actions from a Categorical.*get_action_distribution"),
        (WithoutSequences, "WithoutSequences.forward_core made a Tensor.* has to take sequences"),
    ],
)
def test_what_would_be_left_out_is_refused(factory, kind, message):
    factory.register_actor_critic_factory(
        lambda cfg, obs_space, action_space: kind(global_model_factory(), obs_space, action_space, cfg)
    )
    with pytest.raises(ModelError, match=message):
        network_of()


def test_sequences_that_are_packed_anew_are_found_in_their_order():
    def repack(sequences, states):
        padded, lengths = pad_packed_sequence(sequences)
        order = torch.tensor([2, 1, 0])  # all are of one length, which any order of sorting puts anywhere
        packed = pack_padded_sequence(padded[:, order], lengths[order])
        return PackedSequence(packed.data, packed.batch_sizes, order, order), states

    block = torch.arange(12.0).view(3, 4, 1)
    output = run_sequences(repack, block, torch.zeros(3, 1), torch.zeros(3, 4, dtype=torch.bool), "core")
    assert output.tolist() == block.tolist()
