"""Checkpoints that scripts read themselves: of Sample Factory, and of runs of this package."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from sample_profiler.compat.networks.inference import create_actor_critic, prepare_and_normalize_obs
from sample_profiler.compat.running.checkpoints import Learner, load_state_dict
from sample_profiler.compat.running.observers import AlgoObserver, _expects_steps_first
from sample_profiler.compat.running.statuses import ExperimentStatus, status_of_exit
from sample_profiler.compat.settings.arguments import parse_full_cfg, parse_sf_args
from sample_profiler.compat.settings.saved import load_from_checkpoint
from sample_profiler.envs import EnvSpec
from sample_profiler.errors import CheckpointError
from sample_profiler.foreign.runs import import_run

RUNS = Path(__file__).parents[2] / "foreign" / "sample_factory_runs"
SPACE = gymnasium.spaces.Dict({"obs": gymnasium.spaces.Box(-1, 1, (5,), np.float32)})


def cfg_of(folder, name):
    argv = [f"--env={name}", f"--train_dir={folder}", f"--experiment={name}", "--device=cpu"]
    return load_from_checkpoint(parse_full_cfg(parse_sf_args(argv, evaluation=True)[0], argv))


@pytest.mark.parametrize("is_imported", [False, True])
def test_a_loop_of_ones_own_over_either_folder(is_imported, tmp_path):
    folder = RUNS
    if is_imported:
        import_run(RUNS / "lstm_two_layers", tmp_path / "lstm_two_layers")
        folder = tmp_path
    cfg = cfg_of(folder, "lstm_two_layers")
    model = create_actor_critic(cfg, SPACE, gymnasium.spaces.Box(-1, 1, (2,), np.float32))
    load_state_dict(cfg, model, torch.device("cpu"))
    expected = np.load(RUNS / "lstm_two_layers" / "checkpoint_p0" / "outputs.npz")
    states = torch.zeros(3, 24)
    for step in range(5):
        with torch.no_grad():
            result = model(prepare_and_normalize_obs(model, {"obs": expected["observation/obs"][step]}), states)
        states = result["new_rnn_states"]
        np.testing.assert_allclose(result["action_logits"], expected["parameters"][step], atol=1e-5)
    state = Learner.load_checkpoint(Learner.get_checkpoints(Learner.checkpoint_dir(cfg, 0)), "cpu")
    assert (state["env_steps"], state["train_step"]) == (1280, 20)


def test_there_may_be_none(tmp_path):
    cfg = cfg_of(RUNS, "mlp")
    cfg.train_dir = str(tmp_path)
    assert Learner.load_checkpoint([], "cpu") is None
    with pytest.raises(CheckpointError, match="there is no latest checkpoint"):
        load_state_dict(cfg, torch.nn.Linear(1, 1), torch.device("cpu"))


def test_a_learner_of_ones_own_is_refused_where_it_is_defined():
    with pytest.raises(TypeError, match="is not served"):
        type("Mine", (Learner,), {})


def test_both_orders_of_summaries_are_known_by_their_names():
    class Declared(AlgoObserver):
        def extra_summaries(self, runner, policy_id, env_steps, writer):
            pass

    class Called(AlgoObserver):
        def extra_summaries(self, runner, policy_id, summary_writer, frames):
            pass

    assert _expects_steps_first(Declared().extra_summaries)
    assert not _expects_steps_first(Called().extra_summaries)


def test_ends_of_runs_in_their_numbers():
    found = [status_of_exit(status) for status in (0, 1, 2, 129, 130, 143)]
    assert found == [ExperimentStatus.SUCCESS, *[ExperimentStatus.FAILURE] * 2, *[ExperimentStatus.INTERRUPTED] * 3]


def test_weights_have_the_names_of_the_original_in_networks_and_in_checkpoints_of_runs_of_this_package(tmp_path):
    import_run(RUNS / "mlp", tmp_path / "mlp")
    cfg = cfg_of(tmp_path, "mlp")
    model = create_actor_critic(cfg, SPACE, gymnasium.spaces.Discrete(4))
    load_state_dict(cfg, model, torch.device("cpu"))
    names = {"encoder.encoders.obs.mlp_head.0.weight", "critic_linear.weight", "returns_normalizer.running_mean"}
    names |= {"action_parameterization.distribution_linear.bias"}
    names |= {"obs_normalizer.running_mean_std.running_mean_std.obs.running_mean"}
    state = model.state_dict()
    assert names <= state.keys() and state["critic_linear.weight"] is not None
    assert torch.equal(model.critic_linear.weight, state["critic_linear.weight"])
    other = create_actor_critic(cfg, SPACE, gymnasium.spaces.Discrete(4))
    other.load_state_dict(state)
    assert all(torch.equal(value, state[name]) for name, value in other.state_dict().items())
    spec = EnvSpec(observation_space=SPACE, action_space=gymnasium.spaces.Discrete(4))
    path = tmp_path / "checkpoint_000000001_10.pth"
    torch.save({"model": model.network.state_dict(), "env_spec": spec.to_data()}, path)
    loaded = Learner.load_checkpoint([str(path)], "cpu")["model"]
    assert loaded.keys() == state.keys()


def test_who_replaces_methods_of_the_learner_is_told_that_nobody_would_call_them():
    with pytest.raises(TypeError, match=r"Learner\.save_best = .* is not served"):
        Learner.save_best = print
    with pytest.raises(AttributeError, match=r"Learner\._calculate_losses: a Learner of one's own is not served"):
        _ = Learner._calculate_losses
    assert getattr(Learner, "save_best", None) is None
