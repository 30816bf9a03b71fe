"""Policies of Sample Factory's runs as ONNX, against the same step by PyTorch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import Env, spaces

from sample_profiler.compat.environments import registry
from sample_profiler.compat.environments.batched import make_env
from sample_profiler.compat.running.exporting import create_onnx_exporter, export_onnx, generate_args
from sample_profiler.compat.settings.arguments import parse_full_cfg, parse_sf_args
from sample_profiler.compat.settings.saved import load_from_checkpoint

RUNS = Path(__file__).parents[2] / "foreign" / "sample_factory_runs"
ACTIONS = {"mlp": spaces.Discrete(4), "lstm_two_layers": spaces.Box(-1, 1, (2,), np.float32)}


class Still(Env):
    observation_space = spaces.Box(-1, 1, (5,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space


@pytest.mark.parametrize("name", ACTIONS)
def test_a_file_does_what_the_policy_does(name, tmp_path, monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    monkeypatch.setitem(registry._creators, name, lambda *_arguments: Still(ACTIONS[name]))
    argv = [f"--env={name}", f"--train_dir={RUNS}", f"--experiment={name}", "--device=cpu"]
    cfg = load_from_checkpoint(parse_full_cfg(parse_sf_args(argv, evaluation=True)[0], argv))
    path = str(tmp_path / "policy.onnx")
    assert export_onnx(cfg, path) == 0
    env = make_env(cfg)
    exporter = create_onnx_exporter(cfg, env)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    if not cfg.use_rnn:
        observations = generate_args(env.observation_space, 7)
        actions = exporter(**observations)
        assert actions.dtype == torch.int32
        (found,) = session.run(None, {"obs": observations["obs"].numpy()})
        np.testing.assert_array_equal(found, actions.numpy())
        return
    (width,) = (given.shape[1] for given in session.get_inputs() if given.name == "rnn_states")
    states = torch.zeros(1, width)
    for _ in range(3):
        observations = generate_args(env.observation_space)
        expected, new_states = exporter(**observations, rnn_states=states)
        given = {"obs": observations["obs"].numpy(), "rnn_states": states.numpy()}
        actions, found_states = session.run(["output_actions", "output_rnn_states"], given)
        np.testing.assert_allclose(actions, expected.detach().numpy(), atol=1e-5)
        np.testing.assert_allclose(found_states, new_states.detach().numpy(), atol=1e-5)
        states = new_states.detach()
