"""What the machine's memory cannot hold is found before a run begins."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.cli.training.training_run import train_with
from sample_profiler.config import parse_config
from sample_profiler.config.parts import run as run_options
from sample_profiler.envs import EnvSpec
from sample_profiler.errors import ConfigError
from sample_profiler.model.registry import recurrent_state_size
from sample_profiler.model.sizes import num_weights
from sample_profiler.run.checks import memory_needs
from sample_profiler.run.checks.spaces import check_spaces
from sample_profiler.storage.sampling_plan import make_sampling_plan
from sample_profiler.storage.trajectories import TrajectoryLayout

SEEN = {"obs": spaces.Box(-1, 1, (3,), np.float32)}
SPEC = EnvSpec(observation_space=spaces.Dict(SEEN), action_space=spaces.Discrete(2))
FLAGS = ("--env=mine", "--device=cpu", "--num_workers=2", "--rollout=8", "--batch_size=64", "--rnn_size=2000")


def is_refused(*flags):
    """Tell whether the run is refused, for nothing but its weights."""
    try:
        check_spaces(parse_config([*FLAGS, *flags]), SPEC, has_remote_worker="--backend=ray" in flags)
    except ConfigError as error:
        (problem,) = error.problems
        assert "weights of a network" in problem
        return True
    return False


def copies_that_fit(monkeypatch, *flags):
    """Return for how many copies of its weights a run wants memory."""
    config = parse_config([*FLAGS, *flags])
    num_bytes = 4 * num_weights(config.model, SEEN, SPEC.action_space)
    for num in range(100):
        monkeypatch.setattr(memory_needs, "memory_gib", lambda num=num: (num + 0.5) * num_bytes / 2**30)
        if not is_refused(*flags):
            return num
    return None


@pytest.mark.parametrize(
    ("flags", "num"),
    [
        ((), 7),  # two are published, four are of the Learner, one of inference
        (("--policy_workers_per_policy=3",), 9),
        (("--inference=worker",), 8),
        (("--eval_every_steps=1000",), 8),
        (("--backend=ray",), 8),
        (("--num_policies=2",), 14),
    ],
    ids=str,
)
def test_weights_are_refused_of_which_not_all_copies_fit(monkeypatch, flags, num):
    assert copies_that_fit(monkeypatch, *flags) == num


def test_trajectories_of_other_machines_count_where_they_come(monkeypatch):
    config = parse_config(["--env=mine", "--device=cpu", "--num_workers=1", "--rollout=8", "--batch_size=8192"])
    plan = make_sampling_plan(config.sampling, 1)
    num_bytes = TrajectoryLayout.of(plan, SPEC, recurrent_state_size(config)).num_bytes
    monkeypatch.setattr(memory_needs, "memory_gib", lambda: 1.2 * num_bytes / 2**30)
    check_spaces(config, SPEC)
    with pytest.raises(ConfigError, match="trajectories of 8 steps take"):
        check_spaces(config, SPEC, has_remote_worker=True)
    remote = replace(config, remote=replace(config.remote, backend="ray"))
    probe = SimpleNamespace(spec=lambda: SPEC)
    with pytest.raises(ConfigError, match="trajectories of 8 steps take"):
        train_with(remote, probe, (), None, contextlib.ExitStack(), 0, is_new=True)


def test_on_a_gpu_the_machines_memory_holds_what_is_published_and_what_is_being_made(monkeypatch):
    monkeypatch.setattr(run_options, "_GPU_DRIVERS", ("/",))
    assert copies_that_fit(monkeypatch, "--device=auto") == 3


def test_the_message_says_how_many_weights_there_are_what_they_take_and_what_to_do(monkeypatch):
    monkeypatch.setattr(memory_needs, "memory_gib", lambda: 1.0)
    with pytest.raises(ConfigError, match=r"54,444,707 weights of a network, 7 times .* take 1 GiB.*--rnn_size"):
        check_spaces(parse_config(["--env=mine", "--device=cpu", "--rnn_size=4000", "--num_workers=1"]), SPEC)
