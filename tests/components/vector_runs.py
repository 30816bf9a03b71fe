"""Runs on one vector, for tests that compare what comes of them."""

from __future__ import annotations

import pytest
import torch

from sample_profiler.envs import register_env
from sample_profiler.envs.vectors.vector_agents import VectorAgents
from tests.components.synchronous_run import Run

FLAGS = (
    *("--batched_sampling=True", "--num_envs_per_worker=1", "--rollout=8", "--batch_size=24", "--async_rl=False"),
    *("--num_batches_per_epoch=2", "--learning_rate=0.01", "--value_bootstrap=True"),
)  # fmt: skip
NUM_STEPS = 50


@pytest.fixture
def make_vector_run(make_blueprint, make_component, tmp_path):
    def make(name, vector, *flags, device="cpu"):
        register_env("wandering", lambda *_, **__: vector)
        folder = tmp_path / name
        blueprint = make_blueprint(*FLAGS, *flags, env=VectorAgents(vector), folder=folder, device=device)
        return Run(blueprint, make_component)

    return make


def tensors_of(state, path=""):
    """Return all tensors in a checkpoint, by where they are."""
    if isinstance(state, torch.Tensor):
        return {path: state}
    if isinstance(state, dict | list | tuple):
        items = state.items() if isinstance(state, dict) else enumerate(state)
        return {k: v for key, value in items for k, v in tensors_of(value, f"{path}/{key}").items()}
    return {}


def train(run):
    """Train for some optimizer steps, and return all tensors of the checkpoint and all episodes."""
    run.train(NUM_STEPS)
    run.components[0].progress.save()
    (latest,) = sorted((run.blueprint.run_folder / "checkpoint_p0").glob("checkpoint_*.pth"))[-1:]
    episodes = [episode for group in run.components[-1]._groups.values() for episode in group.episodes]
    return tensors_of(torch.load(latest, weights_only=True)), episodes
