"""Runs that Sample Factory 2.1.1 has made (make_sample_factory_runs.py, beside this), as runs of this package."""

import json
import pickle
import shutil
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from sample_profiler import RunObserver, train
from sample_profiler.components.messages import EpisodesFinished
from sample_profiler.config import load_config
from sample_profiler.envs import EnvSpec, register_env, registry
from sample_profiler.errors import CheckpointError, UsageError
from sample_profiler.foreign.layout import name_as_original, translate_model
from sample_profiler.foreign.reading import read_checkpoint
from sample_profiler.foreign.runs import import_run
from sample_profiler.ppo.named_moments import indexed_state
from sample_profiler.run.layout.factories import make_network
from sample_profiler.storage.checkpoints import CheckpointFolder
from tests.foreign.matching_env import MatchingEnv

RUNS = Path(__file__).parent / "sample_factory_runs"
VECTOR = gymnasium.spaces.Box(-1, 1, (5,), np.float32)
IMAGE = gymnasium.spaces.Box(0, 255, (3, 36, 36), np.uint8)
BUTTONS = gymnasium.spaces.Discrete(4)
BOX = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
MANY = gymnasium.spaces.Tuple((gymnasium.spaces.Discrete(3), BOX, gymnasium.spaces.Discrete(2)))
SPACES = {
    "mlp": ({"obs": VECTOR}, BUTTONS),
    "gru_two_keys": ({"obs": IMAGE, "measurements": VECTOR}, BUTTONS),
    "lstm_two_layers": ({"obs": VECTOR}, BOX),
    "separate_weights": ({"obs": VECTOR}, BOX),
    "tuple_actions": ({"obs": VECTOR}, MANY),
    "convnet_impala": ({"obs": IMAGE}, BUTTONS),
    "convnet_atari": ({"obs": IMAGE}, BUTTONS),
    "resnet": ({"obs": IMAGE}, BUTTONS),
    "adaptive_rate": ({"obs": VECTOR}, BUTTONS),
    "matching": ({"obs": VECTOR}, BUTTONS),
    "two_policies": ({"obs": VECTOR}, BUTTONS),
}


def network_of(name, folder):
    observations, actions = SPACES[name]
    spec = EnvSpec(observation_space=gymnasium.spaces.Dict(observations), action_space=actions)
    config = load_config(folder / "config.json")
    return config, make_network(config, spec)


def checkpoint_of(folder, policy=0, kind="latest"):
    state = CheckpointFolder(folder, policy, 2).load(kind)
    assert state is not None
    return state


@pytest.mark.parametrize("name", SPACES)
def test_outputs_are_those_of_the_original_over_50_recurrent_steps(name, tmp_path):
    imported = import_run(RUNS / name, tmp_path / "run")
    assert imported.notes == []
    assert len(imported.checkpoints) == (2 if name == "two_policies" else 1)
    for policy in imported.checkpoints:
        _, network = network_of(name, tmp_path / "run")
        network.load_state_dict(checkpoint_of(tmp_path / "run", policy)["model"])
        expected = np.load(RUNS / name / f"checkpoint_p{policy}" / "outputs.npz")
        states = torch.zeros(3, network.state_size)
        for step in range(50):
            observations = {key: torch.from_numpy(expected[f"observation/{key}"][step]) for key in SPACES[name][0]}
            with torch.no_grad():
                parameters, values, states = network(network.normalize(observations), states)
            np.testing.assert_allclose(parameters, expected["parameters"][step], atol=1e-5, rtol=1e-5)
            np.testing.assert_allclose(values, expected["values"][step], atol=1e-5, rtol=1e-5)
            if "gru" in name or "lstm" in name:
                np.testing.assert_allclose(states, expected["states"][step], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SPACES)
def test_a_network_gives_its_weights_back_as_the_original_names_them(name, tmp_path):
    original = read_checkpoint(next((RUNS / name / "checkpoint_p0").glob("checkpoint_*.pth")))["model"]
    import_run(RUNS / name, tmp_path / "run")
    _, network = network_of(name, tmp_path / "run")
    network.load_state_dict(translate_model(original))
    named = name_as_original(network.state_dict(), gymnasium.spaces.Dict(SPACES[name][0]))
    # Without --normalize_returns the original has no statistics of them.
    named = {name: value for name, value in named.items() if name in original or "returns_normalizer" not in name}
    assert named.keys() == original.keys()
    for parameter, value in named.items():
        assert value.shape == original[parameter].shape, parameter
        torch.testing.assert_close(value, original[parameter].to(value.dtype))


class Returns(RunObserver):
    """Collects the returns of episodes, in the order in which they were reported."""

    def __init__(self):
        self.returns = []

    def on_init(self, runner):
        runner.register_message_handler(EpisodesFinished, self.take)

    def take(self, runner, message):
        self.returns += [episode.episode_return for episode in message.episodes]


@pytest.mark.whole_run
def test_training_goes_on_at_the_return_that_the_original_had_come_to(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})
    register_env("matching", lambda *_, **__: MatchingEnv())
    import_run(RUNS / "matching", tmp_path / "matching")
    before, expected = (
        checkpoint_of(tmp_path / "matching"),
        np.load(RUNS / "matching" / "checkpoint_p0" / "outputs.npz"),
    )
    reached = float(expected["returns"].mean())
    assert reached > 5, "of 10, and 2.5 by guessing"
    observer, place = Returns(), [f"--train_dir={tmp_path}", "--experiment=matching"]
    goal = before["frames"] + 6000
    assert train(["--env=matching", *place, f"--train_for_env_steps={goal}"], observers=[observer]) == 0
    first, last = observer.returns[:100], observer.returns[-100:]
    assert abs(np.mean(first) - reached) < 1, "where the original had come to, or a little further"
    assert np.mean(last) > np.mean(first), "and it learns from there"
    after = checkpoint_of(tmp_path / "matching")
    assert after["frames"] >= goal and after["optimizer_steps"] > before["optimizer_steps"]


def test_counts_rate_and_best_reward_go_on(tmp_path):
    import_run(RUNS / "adaptive_rate", tmp_path / "run")
    (path,) = (RUNS / "adaptive_rate" / "checkpoint_p0").glob("checkpoint_*.pth")
    original = torch.load(path, weights_only=False)
    state = checkpoint_of(tmp_path / "run")
    assert state["frames"] == original["env_steps"] > 0
    assert state["optimizer_steps"] == original["train_step"] > 0
    assert state["schedule"] == {"learning_rate": original["curr_lr"]}
    assert state["best_metric"] == pytest.approx(original["best_performance"])
    assert checkpoint_of(tmp_path / "run", kind="best")["best_metric_name"] == "reward"


@pytest.mark.parametrize("name", ["mlp", "lstm_two_layers", "separate_weights", "tuple_actions"])
def test_moments_of_the_optimizer_find_their_parameters(name, tmp_path):
    """A moment is mapped as its parameter is: of parameters that stand for themselves it is the same mapping."""
    import_run(RUNS / name, tmp_path / "run")
    _, network = network_of(name, tmp_path / "run")
    state = checkpoint_of(tmp_path / "run")
    network.load_state_dict(state["model"])
    moments = indexed_state(state["optimizer"], network)["state"]
    (path,) = (RUNS / name / "checkpoint_p0").glob("checkpoint_*.pth")
    original = torch.load(path, weights_only=False)
    ours = [(parameter, moments[index]["exp_avg"]) for index, parameter in enumerate(network.parameters())]
    values = torch.cat([torch.stack([p.detach().flatten(), m.flatten()], 1) for p, m in ours])
    parameters = [value for key, value in original["model"].items() if "normalizer" not in key]
    theirs = torch.cat(
        [
            torch.stack([p.flatten(), original["optimizer"]["state"][index]["exp_avg"].flatten()], 1)
            for index, p in enumerate(parameters)
        ]
    )
    assert sorted(map(tuple, values.tolist())) == sorted(map(tuple, theirs.tolist()))
    assert float(moments[0]["step"]) == original["train_step"]


def test_flags_keep_their_values_and_what_was_on_the_command_line_counts_as_such(tmp_path):
    import_run(RUNS / "lstm_two_layers", tmp_path / "runs" / "mine")
    config = load_config(tmp_path / "runs" / "mine" / "config.json")
    assert (config.rnn_type, config.rnn_num_layers, config.decoder_mlp_layers) == ("lstm", 2, (7,))
    assert config.run.folder == tmp_path / "runs" / "mine"
    assert (config.origin("rnn_type"), config.origin("gamma")) == ("command line", "family")
    kept = json.loads((tmp_path / "runs" / "mine" / "config.json").read_text())["sample_factory_options"]
    assert kept["algo"] == "APPO"


def changed_run(tmp_path, change):
    """Return a copy of a run whose latest checkpoint was changed."""
    source = tmp_path / "source"
    shutil.copytree(RUNS / "mlp", source)
    (path,) = (source / "checkpoint_p0").glob("checkpoint_*.pth")
    state = torch.load(path, weights_only=False)
    change(state)
    torch.save(state, path)
    return source


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_nothing_in_a_checkpoint_is_executed(tmp_path):
    source = changed_run(tmp_path, lambda state: state.update(best_performance=Malicious(tmp_path / "executed")))
    with pytest.raises(CheckpointError, match="more than tensors and plain data"):
        import_run(source, tmp_path / "run")
    assert not (tmp_path / "executed").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"], "nothing is left of it"


def test_what_is_allowed_for_reading_one_is_not_allowed_afterwards(tmp_path):
    import_run(RUNS / "mlp", tmp_path / "run")
    number = tmp_path / "number.pth"
    torch.save({"number": np.float64(1)}, number)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(number, weights_only=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("model"), "it has no 'model'"),
        (lambda state: state["model"].update({"neck.weight": torch.zeros(1)}), "'neck.weight' is no parameter"),
        (lambda state: state["model"].update({"core.x": 3}), "'core.x' is a int"),
        (lambda state: state["optimizer"]["state"][0].update(exp_avg=torch.zeros(1)), "is of other parameters"),
        (lambda state: state.update(train_step="many"), "is not as Sample Factory 2 writes them"),
    ],
)
def test_what_is_no_checkpoint_of_theirs_is_refused(change, message, tmp_path):
    with pytest.raises(CheckpointError, match=message):
        import_run(changed_run(tmp_path, change), tmp_path / "run")


def test_a_damaged_checkpoint_is_told_by_its_name(tmp_path):
    source = changed_run(tmp_path, lambda state: None)
    (path,) = (source / "checkpoint_p0").glob("checkpoint_*.pth")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=path.name):
        import_run(source, tmp_path / "run")


def test_folders_that_are_no_runs_of_theirs_or_taken_are_refused(tmp_path):
    with pytest.raises(UsageError, match="it has no config"):
        import_run(tmp_path, tmp_path / "run")
    import_run(RUNS / "mlp", tmp_path / "run")
    with pytest.raises(UsageError, match="is there already"):
        import_run(RUNS / "mlp", tmp_path / "run")
    with pytest.raises(UsageError, match="needs no import"):
        import_run(tmp_path / "run", tmp_path / "other")
    without = tmp_path / "without"
    without.mkdir()
    shutil.copy(RUNS / "mlp" / "config.json", without)
    with pytest.raises(CheckpointError, match="there are no checkpoints"):
        import_run(without, tmp_path / "other")


def test_a_value_that_there_is_none_of_here_is_told_and_left_out(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(RUNS / "mlp", source)
    options = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**options, "nonlinearity": "elu", "exploration_loss": "curiosity"}))
    imported = import_run(source, tmp_path / "run")
    assert len(imported.notes) == 1
    assert "--exploration_loss='curiosity'" in imported.notes[0]
    assert load_config(tmp_path / "run" / "config.json").exploration_loss == "entropy"


def test_what_was_chosen_for_another_machine_is_chosen_again(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(RUNS / "mlp", source)
    options = json.loads((source / "config.json").read_text())
    for name in ("num_workers", "device"):
        del options["cli_args"][name]
    (source / "config.json").write_text(json.dumps(options | {"num_workers": 72, "device": "gpu"}))
    import_run(source, tmp_path / "run")
    config = load_config(tmp_path / "run" / "config.json")
    assert (config.origin("num_workers"), config.device) == ("automatic", "auto")
    import_run(RUNS / "mlp", tmp_path / "given")
    given = load_config(tmp_path / "given" / "config.json")
    assert (given.num_workers, given.device) == (1, "cpu")
