"""Parts of a network of one's own: used instead of the package's, checked at once, sent to other processes."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from sample_profiler import register_core, register_decoder, register_encoder
from sample_profiler.config import parse_config
from sample_profiler.errors import ModelError
from sample_profiler.model import make_actor_critic, registry
from sample_profiler.model.registry import (
    export_model_parts,
    import_model_parts,
    recurrent_state_size,
    registered_parts,
)

SPACE = spaces.Dict({"a/b": spaces.Box(-1, 1, (2, 3), np.float32), "c": spaces.Discrete(4, start=2)})


class Own(nn.Module):
    def __init__(self, num_inputs: int, output_size: int) -> None:
        super().__init__()
        self.layer = nn.Linear(num_inputs, output_size)
        self.output_size = output_size


class OwnEncoder(Own):
    def forward(self, observations):
        return self.layer(torch.cat([observations["a/b"].flatten(1), observations["c"]], dim=1))


class OwnDecoder(Own):
    def forward(self, core):
        return self.layer(core)


class OwnCore(nn.Module):
    """Its state, of 4 numbers, fades away."""

    output_size = state_size = 4

    def __init__(self, input_size: int) -> None:
        super().__init__()
        self.layer = nn.Linear(input_size, 4)

    def step(self, head, state):
        state = 0.5 * state + self.layer(head)
        return state, state

    def sequence(self, head, state, starts_episode):
        outputs = []
        for t in range(head.shape[1]):
            output, state = self.step(head[:, t], state * ~starts_episode[:, t, None])
            outputs.append(output)
        return torch.stack(outputs, dim=1)


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})


def make_config(*flags):
    return parse_config(["--env=e", "--use_rnn=False", *flags])


def make_network(*flags):
    config = make_config(*flags)
    return make_actor_critic(config.model, config.observations, SPACE, spaces.Discrete(2), registered_parts(config))


@pytest.mark.parametrize("flags", [(), ("--actor_critic_share_weights=False",), ("--use_rnn=True", "--rnn_size=8")])
def test_own_parts_are_used_with_the_configuration_and_the_spaces(flags):
    seen = []

    def make_encoder(cfg, observation_space):
        seen.append((cfg.gamma, observation_space))
        return OwnEncoder(10, 5)

    register_encoder(make_encoder)
    register_decoder(lambda cfg, input_size: OwnDecoder(input_size, 7))
    network = make_network("--gamma=0.5", *flags)
    assert seen[0] == (0.5, SPACE)
    assert len(seen) == (2 if "--actor_critic_share_weights=False" in flags else 1)
    assert isinstance(network._trunks[0].encoder, OwnEncoder)
    assert network._trunks[0].decoder.layer.in_features == (8 if "--rnn_size=8" in flags else 5)
    assert network.value_head.in_features == 7


@pytest.mark.parametrize(
    ("flags", "roles"),
    [((), ["both"]), (("--actor_critic_share_weights=False",), ["actor", "critic"])],
    ids=["shared", "separate"],
)
def test_encoders_that_want_to_know_are_told_what_they_are_for(flags, roles):
    told = []

    def make_encoder(cfg, observation_space, role):
        told.append(role)
        return OwnEncoder(10, 5)

    register_encoder(make_encoder)
    make_network(*flags)
    assert told == roles


def test_an_encoder_of_the_critic_may_be_another_one():
    register_encoder(lambda cfg, space, role="both": OwnEncoder(10, 9 if role == "critic" else 5))
    network = make_network("--actor_critic_share_weights=False")
    assert [trunk.encoded_size for trunk in network._trunks] == [5, 9]


@pytest.mark.parametrize(
    ("make", "part_of_message"),
    [
        (lambda cfg, space: 5, "torch.nn.Module"),
        (lambda cfg, space: space["nothing"], "the registered encoder raised in its constructor: KeyError: 'nothing'"),
        (lambda cfg, space: nn.Linear(2, 2), "output_size None"),
        (lambda cfg, space: OwnEncoder(3, 5), "fails with two observations: RuntimeError"),
        (lambda cfg, space: OwnDecoder(3, 5), "fails with two observations: TypeError"),
    ],
)
def test_encoders_that_cannot_work_are_refused_with_the_reason(make, part_of_message):
    register_encoder(make)
    with pytest.raises(ModelError, match=part_of_message):
        make_network()


@pytest.mark.parametrize(("flags", "num_trunks"), [((), 1), (("--actor_critic_share_weights=False",), 2)])
def test_an_own_core_remembers_and_memory_is_made_for_its_states(flags, num_trunks):
    register_core(lambda cfg, input_size: OwnCore(input_size), state_size=lambda cfg: int(4 * cfg.gamma))
    flags = ("--use_rnn=True", "--gamma=1", *flags)
    network = make_network(*flags)
    assert isinstance(network._trunks[-1].core, OwnCore)
    assert recurrent_state_size(make_config(*flags)) == network.state_size == 4 * num_trunks
    head = network.forward_head(network.normalize({"a/b": torch.ones(1, 2, 3), "c": torch.full((1,), 3)}))
    _, states = network.forward_core(head, torch.zeros(1, network.state_size))
    output, _ = network.forward_core(head, states)
    both = network.forward_core_sequence(head.expand(1, 2, -1), torch.zeros_like(states), torch.tensor([[True, False]]))
    torch.testing.assert_close(both[0, 1], output[0])


def test_without_a_recurrent_network_there_is_no_core_of_ones_own():
    register_core(lambda cfg, input_size: OwnCore(input_size), state_size=4)
    assert not isinstance(make_network()._trunks[0].core, OwnCore)
    assert recurrent_state_size(make_config()) == 1


class WithoutSequence(OwnCore):
    sequence = None


class WideSequence(OwnCore):
    def sequence(self, head, state, starts_episode):
        return head


class OtherStates(OwnCore):
    def step(self, head, state):
        return super().step(head, state)[0], state[:, :1]


@pytest.mark.parametrize(
    ("make", "state_size", "part_of_message"),
    [
        (OwnCore, 3, "with state_size 4, and register_core.. was told 3"),
        (OwnCore, 0, "state_size of the registered core is 0"),
        (lambda input_size: nn.Linear(input_size, 4), 4, "with state_size None"),
        (WithoutSequence, 4, "fails with two observations: TypeError"),
        (WideSequence, 4, r"into \[2, 3, 1024\] in sequence"),
        (OtherStates, 4, r"into \[2, 1\] in step"),
    ],
)
def test_cores_that_cannot_work_are_refused_with_the_reason(make, state_size, part_of_message):
    register_core(lambda cfg, input_size: make(input_size), state_size)
    with pytest.raises(ModelError, match=part_of_message):
        make_network("--use_rnn=True")


def test_only_functions_can_be_registered():
    with pytest.raises(ModelError, match="give a function"):
        register_encoder(OwnEncoder(10, 5).state_dict())
    with pytest.raises(ModelError, match="as core: give a function"):
        register_core(5, state_size=4)


def test_registrations_travel(monkeypatch):
    width = 6
    register_encoder(lambda cfg, space: OwnEncoder(10, width))
    register_core(lambda cfg, input_size: OwnCore(input_size), state_size=lambda cfg: width - 2)
    payload = export_model_parts()
    monkeypatch.setattr(registry, "_makers", {})
    import_model_parts(payload)
    assert make_network()._trunks[0].encoder.output_size == 6
    assert isinstance(make_network("--use_rnn=True")._trunks[0].core, OwnCore)
    register_encoder(lambda cfg, space: OwnEncoder(10, 3))
    import_model_parts(payload)
    assert make_network()._trunks[0].encoder.output_size == 3, "what the re-imported script registered counts"


def test_what_cannot_travel_says_so_where_it_is_needed(monkeypatch):
    lock = threading.Lock()
    register_encoder(lambda cfg, space: lock)
    payload = export_model_parts()
    monkeypatch.setattr(registry, "_makers", {})
    import_model_parts(payload)
    with pytest.raises(ModelError, match="the encoder cannot be sent to a worker process: TypeError"):
        make_network()


def test_registering_takes_no_pytorch():
    program = "import sys, sample_profiler as s; s.register_encoder(print); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
