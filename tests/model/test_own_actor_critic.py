"""A whole network of one's own: what it has to offer, and what is added to it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from sample_profiler import register_actor_critic, register_encoder
from sample_profiler.config import parse_config
from sample_profiler.errors import ModelError
from sample_profiler.model import make_actor_critic, registry
from sample_profiler.model.distributions import MASKED_LOGIT
from sample_profiler.model.own_actor_critic import OwnActorCritic
from sample_profiler.model.policy import Policy
from sample_profiler.model.registry import (
    export_model_parts,
    import_model_parts,
    recurrent_state_size,
    registered_parts,
)
from sample_profiler.model.sizes import num_weights
from sample_profiler.spaces import num_action_parameters

SEEN = spaces.Dict({"seen": spaces.Box(-1, 1, (3,), np.float32), "whole": spaces.Discrete(4)})
ACTIONS = spaces.Dict({"a": spaces.MultiBinary(2), "b": spaces.Box(-1, 1, (2,), np.float32), "c": spaces.Discrete(3)})
NUM_LOGITS = 7


class Asymmetric(nn.Module):
    """The critic sees what the actor does not."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.num_seen, self.num_whole = observation_space["seen"].shape[0], observation_space["whole"].n
        self.actor = nn.Linear(self.num_seen, num_action_parameters(action_space))
        self.critic = nn.Linear(self.num_seen + self.num_whole, 1)

    def forward_head(self, observations):
        assert sorted(observations) == ["seen", "whole"], "no mask"
        return torch.cat([observations["seen"], observations["whole"]], dim=1)

    def forward_tail(self, core):
        return self.actor(core[:, : self.num_seen]), self.critic(core).squeeze(-1)


class Remembering(Asymmetric):
    """Sums up what it has seen."""

    state_size = 7

    def forward_core(self, head, states):
        return head + states, head + states

    def forward_core_sequence(self, head, states, starts_episode):
        outputs = []
        for t in range(head.shape[1]):
            output, states = self.forward_core(head[:, t], states * ~starts_episode[:, t, None])
            outputs.append(output)
        return torch.stack(outputs, dim=1)


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})
    torch.manual_seed(0)


def make_network(*flags, observation_space=SEEN, action_space=ACTIONS):
    config = parse_config(["--env=e", *flags])
    return make_actor_critic(
        config.model, config.observations, observation_space, action_space, registered_parts(config)
    )


def register(kind, state_size=1):
    register_actor_critic(lambda cfg, seen, actions: kind(seen, actions), state_size)


def observe(num_rows, **more):
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(num_rows, 3)).astype(np.float32)
    return {"seen": seen, "whole": rng.integers(0, 4, num_rows), **more}


def test_it_is_made_of_the_configuration_and_the_spaces_and_its_weights_stay_as_it_made_them():
    made = []

    def make(cfg, observation_space, action_space):
        made.append((cfg.gamma, observation_space, action_space))
        network = Asymmetric(observation_space, action_space)
        nn.init.constant_(network.actor.bias, 3.0)
        return network

    register_actor_critic(make)
    network = make_network("--gamma=0.5")
    assert made == [(0.5, SEEN, ACTIONS)]
    assert isinstance(network, OwnActorCritic)
    assert network.own.actor.bias.eq(3.0).all()
    assert network.state_size == recurrent_state_size(parse_config(["--env=e"])) == 1
    assert network.num_parameters == sum(each.numel() for each in network.own.parameters())
    assert network.describe() == f"{network.num_parameters:,} parameters (actor-critic of one's own)"
    assert network.num_multiplications is None
    config = parse_config(["--env=e"])
    assert num_weights(config.model, SEEN, ACTIONS, registered_parts(config)) == 0, "nobody knows"


def test_statistics_of_its_own_layers_do_not_count_what_it_is_checked_with():
    class Normed(Asymmetric):
        def __init__(self, *given):
            super().__init__(*given)
            self.norm = nn.BatchNorm1d(self.actor.in_features)

        def forward_tail(self, core):
            self.norm(core[:, : self.actor.in_features])
            return super().forward_tail(core)

    register(Normed)
    network = make_network()
    assert network.training
    assert network.own.norm.num_batches_tracked == 0


def test_its_figures_are_numbers_by_name_or_it_is_told():
    register(Asymmetric)
    network = make_network()
    assert network.summaries() == {}
    nn.init.constant_(network.own.actor.bias, 3.0)
    network.own.summaries = lambda: {"bias": network.own.actor.bias.mean(), "two": np.int64(2)}
    assert network.summaries() == {"bias": 3.0, "two": 2.0}
    for broken in (lambda: {"many": torch.zeros(3)}, lambda: [1.0], lambda: {}["x"]):
        network.own.summaries = broken
        with pytest.raises(ModelError, match=r"^summaries\(\) of the registered actor-critic: .*numbers by name$"):
            network.summaries()


def test_the_actor_does_not_see_what_is_the_critics():
    register(Asymmetric)
    network = make_network()
    policy = Policy(network, SEEN, ACTIONS)
    observations = observe(5)
    before = policy.evaluate(observations)
    after = policy.evaluate(observations | {"whole": (observations["whole"] + 1) % 4})
    np.testing.assert_array_equal(before.action_parameters, after.action_parameters)
    assert (before.values != after.values).all()


def test_observations_are_normalized_around_it():
    register(Asymmetric)
    network = make_network()
    observations = {key: torch.from_numpy(value) for key, value in observe(50).items()}
    before = network.forward_head(network.normalize(observations))
    network.update_normalizer({**observations, "seen": 5 + observations["seen"]})
    after = network.forward_head(network.normalize(observations))
    assert not torch.allclose(before[:, :3], after[:, :3])
    torch.testing.assert_close(before[:, 3:], after[:, 3:])


@pytest.mark.parametrize(("kind", "state_size"), [(Asymmetric, 1), (Remembering, 7)])
def test_what_a_mask_forbids_has_no_probability_and_it_need_not_know(kind, state_size):
    register(kind, state_size)
    space = spaces.Dict({**SEEN, "action_mask": spaces.MultiBinary(NUM_LOGITS)})
    network = make_network(observation_space=space)
    mask = np.tile(np.array([1, 0, 1, 1, 0, 1, 1], np.int8), (64, 1))
    observations = {key: torch.from_numpy(value) for key, value in observe(64, action_mask=mask).items()}
    parameters, values, _ = network(network.normalize(observations), torch.zeros(64, state_size))
    free = network.own.forward_tail(network.own.forward_head(
        {key: value for key, value in network.normalize(observations).items() if key != "action_mask"}
    ))[0]  # fmt: skip
    is_forbidden = [False, True, False, False, False, False, False, False, True, False, False]
    assert (parameters[:, is_forbidden] == MASKED_LOGIT).all()
    is_allowed = [not each for each in is_forbidden]
    torch.testing.assert_close(parameters[:, is_allowed], free[:, is_allowed])
    drawn = network.action_distribution(parameters).draw()[0]
    assert not drawn[:, 0].any()
    assert drawn[:, -1].min() >= 1
    parameters.sum().backward()
    assert not network.own.actor.weight.grad[is_forbidden].any()
    assert values.shape == (64,)


def test_steps_and_sequences_are_the_same():
    register(Remembering, lambda cfg: 7)
    space = spaces.Dict({**SEEN, "action_mask": spaces.MultiBinary(NUM_LOGITS)})
    network = make_network(observation_space=space)
    assert network.state_size == recurrent_state_size(parse_config(["--env=e"])) == 7
    observations = observe(3, action_mask=np.ones((3, NUM_LOGITS), np.int8))
    head = network.forward_head(network.normalize({key: torch.from_numpy(v) for key, v in observations.items()}))
    starts = torch.tensor([[False, False, True]])
    sequence = network.forward_core_sequence(head[None], torch.ones(1, 7), starts)[0]
    states = torch.ones(1, 7)
    for t in range(3):
        output, states = network.forward_core(head[t : t + 1], states * ~starts[:, t])
        torch.testing.assert_close(sequence[t : t + 1], output)


class WithoutTail(Asymmetric):
    forward_tail = None


class WideValues(Asymmetric):
    def forward_tail(self, core):
        return self.actor(core[:, :3]), self.critic(core)


class FewParameters(Asymmetric):
    def forward_tail(self, core):
        return self.actor(core[:, :3])[:, 1:], self.critic(core).squeeze(-1)


class OtherStates(Remembering):
    def forward_core(self, head, states):
        return head, states[:, :1]


class OneStep(Remembering):
    def forward_core_sequence(self, head, states, starts_episode):
        return head[:, :1]


class TwoSequences(Remembering):
    def forward_core_sequence(self, head, states, starts_episode):
        return head, states


@pytest.mark.parametrize(
    ("kind", "state_size", "message"),
    [
        (lambda seen, actions: 5, 1, "the registered actor-critic is 5; it is a torch.nn.Module"),
        (lambda seen, actions: seen["none"], 1, "actor-critic raised in its constructor: KeyError: 'none'"),
        (WithoutTail, 1, r"fails with two observations: TypeError.*; it has forward_head\(observations\)"),
        (WideValues, 1, r"forward_tail\(\) values are of shape \(2, 1\); with two observations they are \(2,\)"),
        (FewParameters, 1, r"forward_tail\(\) parameters are of shape \(2, 10\); .* they are \(2, 11\)"),
        (OtherStates, 7, r"forward_core\(\) states are of shape \(2, 1\); .* they are \(2, 7\)"),
        (OneStep, 7, r"forward_core_sequence\(\) are of shape \(2, 1, 7\); .* they are \(2, 3, 7\)"),
        (TwoSequences, 7, r"forward_core_sequence\(\) are of shape tuple; .* they are \(2, 3, 7\)"),
        (Remembering, 1, r"with state_size 7, and register_actor_critic\(\) was told 1"),
        (Asymmetric, 3, r"with state_size 1, and register_actor_critic\(\) was told 3"),
        (Remembering, 0, "the state_size of the registered actor_critic is 0: it is a number of 1 or more"),
    ],
)
def test_networks_that_cannot_work_are_refused_with_the_reason(kind, state_size, message):
    register(kind, state_size)
    with pytest.raises(ModelError, match=message):
        make_network()


def test_only_functions_can_be_registered():
    with pytest.raises(ModelError, match="as actor_critic: give a function"):
        register_actor_critic(Asymmetric(SEEN, ACTIONS).state_dict())


def test_it_travels_and_other_parts_are_not_made_beside_it(monkeypatch):
    register_encoder(lambda cfg, space: pytest.fail("not needed"))
    register(Remembering, lambda cfg: 7)
    payload = export_model_parts()
    monkeypatch.setattr(registry, "_makers", {})
    import_model_parts(payload)
    network = make_network()
    assert isinstance(network, OwnActorCritic)
    assert network.state_size == 7
