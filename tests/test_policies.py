"""Loading a trained policy, from a run's folder or a checkpoint, where there is neither a run nor its environment."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from sample_profiler import load_policy, policies
from sample_profiler.config import save_config
from sample_profiler.envs import register_env, registry
from sample_profiler.errors import CheckpointError, ConfigError, PolicyError
from sample_profiler.model import registry as model_registry
from sample_profiler.run_folder import RunFolder
from tests.doubles.small_runs import Wandering
from tests.doubles.small_runs import _restore_timing as _restore_timing
from tests.doubles.small_runs import make_blueprint as make_blueprint
from tests.doubles.small_runs import make_component as make_component
from tests.doubles.small_runs import make_learner as make_learner

OBSERVATIONS = np.linspace(-1, 1, 12).reshape(4, 3)


@pytest.fixture
def make_trained(make_learner, monkeypatch, tmp_path):
    """Save what a Learner has trained for a moment; return the run's folder. Nothing is registered afterwards."""

    def make(*flags, folder=tmp_path / "run", env=None, num_datasets=1):
        learner = make_learner("--learning_rate=0.1", *flags, folder=folder, env=env).start()
        for index in range(num_datasets):
            learner.hand_over(2 * index, 2 * index + 1)
        learner.learner.finish()
        save_config(learner.blueprint.config, RunFolder(folder).config)
        monkeypatch.setattr(registry, "_makers", {})
        return folder, learner.learner._trainer.model.eval()

    return make


def assert_is(policy, model):
    """Compare what is made of observations with what the network that was trained makes of them."""
    torch.manual_seed(0)
    states = torch.randn(4, model.state_size)
    with torch.no_grad():
        expected = model(model.normalize({"obs": torch.tensor(OBSERVATIONS, dtype=torch.float32)}), states)
    found = policy.evaluate(OBSERVATIONS, states.numpy())
    for array, tensor in zip((found.action_parameters, found.values, found.states), expected, strict=True):
        np.testing.assert_allclose(array, tensor.numpy(), atol=1e-6)


@pytest.mark.parametrize(
    "flags",
    [(), ("--use_rnn=False",), ("--rnn_type=lstm", "--rnn_num_layers=2"), ("--actor_critic_share_weights=False",)],
    ids=str,
)
def test_a_run_folder_is_enough(make_trained, flags):
    folder, model = make_trained(*flags)
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    policy = load_policy(folder)
    assert torch.equal(torch.random.get_rng_state(), before), "whoever draws random numbers goes on with the same"
    assert policy.action_space == Wandering.action_space
    assert policy.observation_space == spaces.Dict({"obs": Wandering.observation_space})
    assert_is(policy, model)
    assert_is(load_policy(str(folder / "checkpoint_p0")), model)


def test_of_a_folder_the_latest_or_the_best_is_loaded_and_a_file_is_that_file(make_trained):
    folder, model = make_trained(num_datasets=3)
    checkpoints = sorted((folder / "checkpoint_p0").glob("checkpoint_*.pth"))
    first, last = (load_policy(path).evaluate(OBSERVATIONS).values for path in (checkpoints[0], checkpoints[-1]))
    assert_is(load_policy(folder), model)
    np.testing.assert_array_equal(load_policy(folder).evaluate(OBSERVATIONS).values, last)
    assert not np.allclose(first, last)
    shutil.copy(checkpoints[0], folder / "checkpoint_p0" / "best_000000003_24_reward_1.000.pth")
    np.testing.assert_array_equal(load_policy(folder, kind="best").evaluate(OBSERVATIONS).values, first)
    milestone = folder / "checkpoint_p0" / "milestones" / checkpoints[0].name
    milestone.parent.mkdir()
    shutil.copy(checkpoints[0], milestone)
    np.testing.assert_array_equal(load_policy(milestone).evaluate(OBSERVATIONS).values, first)


def test_each_of_several_policies_can_be_had(make_trained):
    folder, _ = make_trained("--num_policies=2")
    shutil.copytree(folder / "checkpoint_p0", folder / "checkpoint_p1")
    (path,) = (folder / "checkpoint_p1").glob("checkpoint_*_8.pth")
    state = torch.load(path, weights_only=True)
    state["model"]["value_head.bias"] += 1
    torch.save(state, path)
    first, second = (load_policy(folder, policy_index=index).evaluate(OBSERVATIONS).values for index in (0, 1))
    np.testing.assert_allclose(second, first + 1, atol=1e-5)
    for place in (folder / "checkpoint_p1", path):
        np.testing.assert_array_equal(load_policy(place).evaluate(OBSERVATIONS).values, second)
        with pytest.raises(PolicyError, match="no folder of checkpoints of policy 0"):
            load_policy(place, policy_index=0)
    with pytest.raises(PolicyError, match=r"policy_index is 2; the run in .* has 2, counted from 0"):
        load_policy(folder, policy_index=2)


def test_a_fresh_process_needs_neither_the_environment_nor_its_flags(make_trained):
    folder, _ = make_trained()
    config = RunFolder(folder).config
    document = json.loads(config.read_text())
    of_family = {"res_w": 128, "map": "E1M1", "hard": True, "weights": [1, 0.5], "names": ["a"], "seed_of": None}
    document["flags"] |= {name: {"value": value, "origin": "family"} for name, value in of_family.items()}
    config.write_text(json.dumps(document))
    code = (
        "import sys, numpy, sample_profiler\n"
        "assert 'torch' not in sys.modules\n"
        f"policy = sample_profiler.load_policy({str(folder)!r})\n"
        "actions, states = policy.act(numpy.zeros((2, 3)))\n"
        "print(actions.shape, states.shape, 'multiprocessing.process' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.startswith("(2,) (2, 5)")


class Scaled(nn.Module):
    """An encoder of one's own, which reads a flag of the family."""

    output_size = 3

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, observations):
        return self.factor * observations["obs"]


def test_parts_of_ones_own_are_those_that_are_registered_and_see_the_flags_of_the_run(make_trained, monkeypatch):
    monkeypatch.setattr(model_registry, "_makers", {"encoder": lambda cfg, _: Scaled(cfg.gamma)})
    folder, model = make_trained("--gamma=0.5")
    assert_is(load_policy(folder), model)
    model_registry._makers.clear()
    with pytest.raises(CheckpointError, match=r"not of this network .*: leave out flags .* register the same encoder"):
        load_policy(folder)


def test_a_checkpoint_that_says_nothing_of_its_spaces_asks_the_environment(make_trained):
    folder, model = make_trained()
    for path in (folder / "checkpoint_p0").glob("*.pth"):
        state = torch.load(path, weights_only=True)
        del state["env_spec"]
        torch.save(state, path)
    with pytest.raises(CheckpointError, match=r"does not say which spaces .*: no environment is registered as 'wander"):
        load_policy(folder)
    register_env("wandering", lambda *_, **__: Wandering())
    assert_is(load_policy(folder), model)


def test_nothing_in_the_folder_is_changed_and_a_damaged_newest_checkpoint_is_passed_over(make_trained):
    folder, _ = make_trained(num_datasets=2)
    paths = sorted((folder / "checkpoint_p0").glob("checkpoint_*.pth"))
    expected = load_policy(paths[-2]).evaluate(OBSERVATIONS).values
    paths[-1].write_bytes(b"damaged")
    np.testing.assert_array_equal(load_policy(folder).evaluate(OBSERVATIONS).values, expected)
    for path in paths:
        path.write_bytes(b"damaged")
    before = sorted(folder.rglob("*"))
    with pytest.raises(CheckpointError, match=r"none of the 2 checkpoints in .* can be read"):
        load_policy(folder)
    with pytest.raises(CheckpointError, match=f"cannot read the checkpoint {paths[-1]}: "):
        load_policy(paths[-1])
    assert sorted(folder.rglob("*")) == before


def test_an_untrained_damaged_checkpoint_keeps_its_name(make_trained):
    folder, _ = make_trained(num_datasets=0)
    (path,) = (folder / "checkpoint_p0").glob("*.pth")
    path.write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match="none of the 1 checkpoints"):
        load_policy(folder)
    assert path.exists()


def test_what_is_no_run_is_said(make_trained, tmp_path):
    folder, _ = make_trained()
    elsewhere = tmp_path / "elsewhere" / "alone.pth"
    elsewhere.parent.mkdir()
    shutil.copy(next((folder / "checkpoint_p0").glob("*.pth")), elsewhere)
    for path, message in (
        (tmp_path / "nothing", f"there is no {tmp_path / 'nothing'}: give the folder of a run"),
        (elsewhere, r"is in no run's folder: there is no config.json with it"),
        (elsewhere.parent, r"is in no run's folder"),
    ):
        with pytest.raises(CheckpointError, match=message):
            load_policy(path)
    with pytest.raises(CheckpointError, match="there is no best checkpoint"):
        load_policy(folder, kind="best")
    with pytest.raises(PolicyError, match="kind is 'newest'; it is 'latest' or 'best'"):
        load_policy(folder, kind="newest")
    for device in ("tpu", "cuda:99", 7.5):
        with pytest.raises(PolicyError, match=f"device is {device!r}, which PyTorch cannot use"):
            load_policy(folder, device=device)
    (folder / "summary").mkdir()
    with pytest.raises(PolicyError, match="is no folder of checkpoints of policy 0: give the run's folder"):
        load_policy(folder / "summary")
    shutil.rmtree(folder / "checkpoint_p0")
    with pytest.raises(CheckpointError, match=r"there is no latest checkpoint in .*: train first"):
        load_policy(folder)
    RunFolder(folder).config.write_text("{}")
    with pytest.raises(ConfigError, match="is not a configuration"):
        load_policy(folder)


def test_damaged_spaces_are_said(make_trained):
    folder, _ = make_trained()
    for path in (folder / "checkpoint_p0").glob("*.pth"):
        state = torch.load(path, weights_only=True)
        torch.save({**state, "env_spec": {"observation_space": 3}}, path)
    with pytest.raises(CheckpointError, match="damaged: of its spaces, it describes no"):
        policies.load_policy(folder)
