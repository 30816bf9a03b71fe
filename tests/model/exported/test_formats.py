"""Policies as files of other programs: each does what the policy does, or is not there."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from sample_profiler.config import parse_config
from sample_profiler.errors import PolicyError
from sample_profiler.model import make_actor_critic
from sample_profiler.model.exported import formats
from sample_profiler.model.exported.formats import FORMATS, export_policy
from sample_profiler.model.exported.step import input_names
from sample_profiler.model.normalization import RunningMeanStd
from sample_profiler.model.policy import Policy
from sample_profiler.model.registry import ModelParts
from sample_profiler.spaces import ACTION_MASK_KEY, flatten_action, num_action_parameters


class Squares(nn.Module):
    """An encoder."""

    output_size = 5

    def forward(self, observations):
        return observations["obs"].square()


class Sum(nn.Module):
    """A core that sums up what it has seen."""

    output_size = state_size = 5

    def step(self, head, states):
        return head + states, head + states

    def sequence(self, head, state, starts_episode):
        outputs = []
        for t in range(head.shape[1]):
            output, state = self.step(head[:, t], state * ~starts_episode[:, t, None])
            outputs.append(output)
        return torch.stack(outputs, dim=1)


class Remembering(nn.Module):
    """A whole network, with a memory."""

    state_size = 5

    def __init__(self, action_space):
        super().__init__()
        self.core = Sum()
        self.actor = nn.Linear(5, num_action_parameters(action_space))

    def forward_head(self, observations):
        return observations["obs"]

    def forward_core(self, head, states):
        return self.core.step(head, states)

    def forward_core_sequence(self, head, states, starts_episode):
        return self.core.sequence(head, states, starts_episode)

    def forward_tail(self, core):
        return self.actor(core), core.sum(dim=1)


OWN_NETWORK = ModelParts(actor_critic=lambda _, actions: Remembering(actions))
OWN_PARTS = ModelParts(encoder=lambda _: Squares(), core=lambda _: Sum())

VECTOR = spaces.Dict(obs=spaces.Box(-np.inf, np.inf, (5,), np.float32))
IMAGE = spaces.Dict(obs=spaces.Box(0, 255, (3, 36, 48), np.uint8))
MIXED = spaces.Dict(
    {
        "obs": spaces.Box(0, 255, (3, 36, 48), np.uint8),
        "inner/place": spaces.Box(-1, 1, (4,), np.float32),
        "kind": spaces.Discrete(3, start=2),
        "many": spaces.MultiDiscrete([2, 3]),
    }
)
MASKED = spaces.Dict({"obs": spaces.Box(-1, 1, (3,), np.float32), ACTION_MASK_KEY: spaces.MultiBinary(4)})
BOX = spaces.Box(np.array([-1, -2, -0.1], np.float32), np.array([1, 2, 0.1], np.float32))
TUPLE = spaces.Tuple([spaces.Discrete(3, start=5), spaces.Box(-0.05, 0.05, (2,)), spaces.Discrete(2)])
PARTS = spaces.Dict(a=BOX, b=spaces.Discrete(2))
RECURRENT = ["--use_rnn=True", "--rnn_size=16"]
PLAIN = ["--use_rnn=False", "--encoder_conv_mlp_layers", "32"]
POLICIES = {
    "mlp": (VECTOR, spaces.Discrete(4, start=-1), PLAIN),
    "continuous": (VECTOR, BOX, [*PLAIN, "--adaptive_stddev=False", "--continuous_tanh_scale=2"]),
    "gru": (VECTOR, BOX, [*RECURRENT, "--rnn_num_layers=2"]),
    "lstm": (VECTOR, TUPLE, [*RECURRENT, "--rnn_type=lstm"]),
    "convnet": (IMAGE, spaces.MultiDiscrete([3, 2]), [*PLAIN, "--encoder_conv_architecture=convnet_atari"]),
    "resnet": (IMAGE, TUPLE, [*PLAIN, "--encoder_conv_architecture=resnet_impala"]),
    "simple convnet": (IMAGE, BOX, [*RECURRENT, "--encoder_conv_architecture=convnet_simple", "--nonlinearity=relu"]),
    "impala convnet": (IMAGE, spaces.Discrete(3), [*PLAIN, "--encoder_conv_architecture=convnet_impala"]),
    "decoder": (
        VECTOR,
        PARTS,
        ["--rnn_type=lstm", *RECURRENT, "--decoder_mlp_layers", "8", "8", "--nonlinearity=tanh"],
    ),
    "separate weights": (
        MIXED,
        spaces.Dict(a=BOX, b=spaces.Discrete(2)),
        [*RECURRENT, "--actor_critic_share_weights=False"],
    ),
    "masked": (MASKED, spaces.Discrete(4), PLAIN),
    "values as they are": (VECTOR, spaces.Discrete(2), [*PLAIN, "--normalize_returns=False", "--obs_scale=2"]),
    "observations by a scale alone": (
        MIXED,
        spaces.MultiBinary(3),
        [*RECURRENT, "--normalize_input=False", "--obs_scale=255"],
    ),
    "some observations normalized": (MIXED, TUPLE, [*PLAIN, "--normalize_input_keys", "inner/place"]),
    "own network": (VECTOR, BOX, PLAIN, OWN_NETWORK),
    "own parts": (VECTOR, BOX, RECURRENT, OWN_PARTS),
}


@pytest.fixture(autouse=True)
def packages():
    for name in ("onnx", "onnxruntime", "onnxscript", "safetensors"):
        pytest.importorskip(name)


def make_policy(name):
    observation_space, action_space, flags, *parts = POLICIES[name]
    config = parse_config(["--env=made_up", *flags])
    torch.manual_seed(1)
    model = make_actor_critic(config.model, config.observations, observation_space, action_space, *parts)
    for module in model.modules():  # as if it had been trained on observations and returns of such a kind
        if isinstance(module, RunningMeanStd):
            module.mean.add_(0.3)
            module.variance.mul_(4)
    model.load_state_dict(model.state_dict())
    policy = Policy(model, observation_space, action_space, has_normalized_values=config.loss.normalize_returns)
    policy.trained_frames = 1234
    return policy


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("format_name", FORMATS)
def test_a_file_does_what_the_policy_does(tmp_path, name, format_name):
    path = tmp_path / "policy"
    assert export_policy(make_policy(name), path, format_name) <= 1e-5
    assert path.stat().st_size > 1000 and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", POLICIES)
def test_onnx_plays_as_the_policy_does_from_step_to_step_and_needs_nothing_else(tmp_path, name):
    import onnxruntime

    policy = make_policy(name)
    export_policy(policy, tmp_path / "policy.onnx", "onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    policy.observation_space.seed(3)
    states = ours = np.zeros((4, policy.state_size), np.float32)
    taken = {each.name for each in session.get_inputs()}
    for _ in range(5):
        rows = [policy.observation_space.sample() for _ in range(4)]
        if ACTION_MASK_KEY in rows[0]:
            for row in rows:
                row[ACTION_MASK_KEY][0] = 1
        batch = {key: np.stack([np.asarray(row[key]) for row in rows]) for key in policy.observation_space}
        given = {**batch, "states": states}
        actions, _, _, states = session.run(None, {key: given[key] for key in taken})
        expected, ours = policy.act(batch, ours)
        flat = [flatten_action(policy.action_space, _row(policy.action_space, expected, index)) for index in range(4)]
        starts = getattr(policy.action_space, "start", 0)
        assert actions.shape[0] == 4
        if not isinstance(policy.action_space, spaces.Tuple | spaces.Dict):
            assert actions == pytest.approx(np.stack(flat) + starts, abs=1e-5)
        assert states == pytest.approx(ours, abs=1e-5)


@pytest.mark.parametrize("format_name", FORMATS)
def test_observations_may_have_the_names_of_what_a_step_takes_and_gives(tmp_path, monkeypatch, format_name):
    box = spaces.Box(-1, 1, (3,), np.float32)
    keys = ("states", "actions", "observation_actions", "action_parameters", "next_states", "returns", "obs")
    monkeypatch.setitem(POLICIES, "names", (spaces.Dict(dict.fromkeys(keys, box)), spaces.Discrete(3), PLAIN))
    policy = make_policy("names")
    assert export_policy(policy, tmp_path / "model", format_name) <= formats.TOLERANCE
    assert input_names(keys)["states"] == "observation_states"
    assert len(set(input_names(keys).values())) == len(keys)


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_file_may_be_in_a_folder_whose_name_is_no_text(tmp_path, format_name):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    assert export_policy(make_policy("mlp"), folder / "model", format_name) <= formats.TOLERANCE


def _row(space, batch, index):
    if isinstance(space, spaces.Tuple):
        return tuple(_row(member, part, index) for member, part in zip(space.spaces, batch, strict=True))
    if isinstance(space, spaces.Dict):
        return {key: _row(member, batch[key], index) for key, member in space.spaces.items()}
    return batch[index]


def test_parts_of_an_action_are_as_the_environment_takes_them(tmp_path):
    import onnxruntime

    policy = make_policy("lstm")
    export_policy(policy, tmp_path / "policy.onnx", "onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    observations = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32)
    actions = session.run(["actions"], {"obs": observations, "states": np.zeros((50, 32), np.float32)})[0]
    (first, box, last), _ = policy.act({"obs": observations})
    assert actions == pytest.approx(np.column_stack([first, box, last]), abs=1e-5)
    assert set(first) <= {5, 6, 7} and np.abs(box).max() <= 0.05 + 1e-9


def test_a_file_that_does_something_else_is_told_of_and_removed(tmp_path, monkeypatch):
    write, load = FORMATS["safetensors"]

    def load_spoiled(path, step):
        run = load(path, step)
        return lambda *inputs: tuple(
            output + 2e-5 if number == 3 else output for number, output in enumerate(run(*inputs))
        )

    monkeypatch.setitem(formats.FORMATS, "safetensors", (write, load_spoiled))
    with pytest.raises(PolicyError, match=r"gives other next_states than the policy, by 2e-05 .* it is removed"):
        export_policy(make_policy("gru"), tmp_path / "policy", "safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_cannot_be_exported_is_told_of(tmp_path, monkeypatch):
    policy = make_policy("mlp")
    policy.network.trunks[0].encoder.forward = lambda _: 1 / 0
    with pytest.raises(PolicyError, match=r"this network cannot be written as onnx: .*; try another --format"):
        export_policy(policy, tmp_path / "policy.onnx", "onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_installed_is_told(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(PolicyError, match=r"onnx is not installed.*pip install 'sample_profiler\[export\]'"):
        export_policy(make_policy("mlp"), tmp_path / "policy.onnx", "onnx")


def test_weights_have_the_names_of_the_network(tmp_path):
    from safetensors.torch import safe_open

    policy = make_policy("gru")
    export_policy(policy, tmp_path / "policy.safetensors", "safetensors")
    with safe_open(str(tmp_path / "policy.safetensors"), "pt") as file:
        assert set(file.keys()) == set(policy.state_dict())
        assert json.loads(json.dumps(file.metadata()))["frames"] == "1234"
