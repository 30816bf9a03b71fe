"""Environments by gymnasium's ids."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.config import parse_config
from sample_profiler.envs import check_reset_result, check_step_result, inspect_env
from sample_profiler.envs.gymnasium_ids import (
    GYM_DEFAULTS,
    TASK_DEFAULTS,
    find_gym_env,
    gym_defaults,
    gym_env_names,
    make_gym_env,
)
from sample_profiler.errors import EnvError


def make(name: str, *argv: str):
    return make_gym_env(name, parse_config([f"--env={name}", *argv], defaults=GYM_DEFAULTS), None)


@pytest.mark.parametrize("task", TASK_DEFAULTS)
def test_tasks_have_defaults_that_can_be_used_and_flags_count_instead(task):
    (name, *_) = (name for name in gymnasium.registry if name.startswith(f"{task}-v"))
    argv = [f"--env={name}", "--num_epochs=3"]
    config = parse_config(argv, defaults=gym_defaults(argv))
    expected = GYM_DEFAULTS | TASK_DEFAULTS[task] | {"num_epochs": 3}
    del expected["num_workers"], expected["num_envs_per_worker"]  # which are fitted to the machine
    assert {flag: config.values()[flag] for flag in expected} == expected


@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            "--env=",
            "--env",
            "--env=FrozenLake-v1",
            "--env=own:Acrobot-v1",
            "--env=Acrobot",
            "--env=MyAcrobot-v1",
        ),
        *("--env=Acrobot-v1 --use_rnn", "--env=Acrobot-v1 --use_rnn=True"),
        "--env=CartPole-v1 --encoder_mlp_layers 512 512 --nonlinearity=elu",
        "--env=CartPole-v1 --nonlinearity=relu",
    ],
)
def test_other_environments_and_other_networks_have_the_familys_defaults(line):
    assert gym_defaults(line.split()) == GYM_DEFAULTS


def test_who_writes_out_the_familys_network_keeps_the_defaults_of_the_task():
    line = "--env=CartPole-v1 --encoder_mlp_layers 64 64 --nonlinearity=tanh --use_rnn=False"
    assert gym_defaults(line.split()) == GYM_DEFAULTS | TASK_DEFAULTS["CartPole"]


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "FrozenLake-v1", "Blackjack-v1"])
def test_environments_keep_the_contract(name):
    env = make(name)
    spec = inspect_env(env, name)
    assert spec.observation_space["obs"].dtype == np.float32
    check_reset_result(env.reset(seed=0), spec, name)
    check_step_result(env.step(spec.action_space.sample()), spec, name)
    env.close()


def test_discrete_observations_become_one_hot():
    observation, _ = make("FrozenLake-v1").reset(seed=0)
    assert observation.tolist() == [1.0] + [0.0] * 15


def test_cartpole_ends_by_truncation_or_termination():
    env = make("CartPole-v1")
    env.reset(seed=0)
    for _ in range(500):
        _, _, terminated, truncated, _ = env.step(0)
        if terminated or truncated:
            break
    assert (terminated, truncated) == (True, False)


def test_a_missing_simulation_says_what_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "Box2D", None)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d", raising=False)
    with pytest.raises(EnvError, match=r"LunarLander-v3 needs box2d, .*: install sample-profiler\[box2d\]"):
        make("LunarLander-v3")


class Picture(gymnasium.Env):
    observation_space, action_space = spaces.Box(0, 255, (8, 9, 3), np.uint8), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros((8, 9, 3), np.uint8), {}

    def step(self, action):
        return np.zeros((8, 9, 3), np.uint8), 1.0, False, False, {}


@pytest.fixture
def picture(monkeypatch):
    gymnasium.register("Picture-v3", Picture)
    yield "Picture-v3"
    del gymnasium.registry["Picture-v3"]


def test_images_get_their_channels_first(picture):
    env = make(picture, "--env_frameskip=4", "--env_framestack=2")
    assert env.observation_space.shape == (6, 8, 9)
    env.reset()
    assert env.step(0)[1] == 4.0


def test_known_and_unknown_ids():
    assert find_gym_env("CartPole-v1") is make_gym_env
    assert find_gym_env("CartPole-v99") is None
    assert find_gym_env("NoSuchThing-v0") is None
    with pytest.raises(EnvError, match="no_such_module:CartPole-v1 needs the module 'no_such_module'"):
        find_gym_env("no_such_module:CartPole-v1")
    assert "CartPole-v1" in gym_env_names()


@pytest.mark.parametrize("name", [".:CartPole-v1", "..a:CartPole-v1", "a..b:x", "a/b:x", ":x", "\0:x", "a b:x"])
def test_what_is_no_module_is_told(name):
    with pytest.raises(EnvError, match="is not the name of a module; write module:id") as caught:
        find_gym_env(name)
    assert caught.value.__cause__ is None


def test_a_module_that_raises_is_told_with_its_traceback(tmp_path, monkeypatch):
    (tmp_path / "raises_at_import.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EnvError, match=r"raises_at_import.* cannot be imported: ZeroDivisionError") as caught:
        find_gym_env("raises_at_import:CartPole-v1")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_id_with_a_module_imports_it(tmp_path, monkeypatch):
    (tmp_path / "registers_an_env.py").write_text(
        "import gymnasium\ngymnasium.register('Imported-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert find_gym_env("registers_an_env:Imported-v0") is make_gym_env
        assert make("registers_an_env:Imported-v0").observation_space.shape == (4,)
    finally:
        gymnasium.registry.pop("Imported-v0", None)
        sys.modules.pop("registers_an_env", None)


def test_a_module_that_is_a_program_ends_nothing(tmp_path, monkeypatch):
    (tmp_path / "ends_at_import.py").write_text("raise SystemExit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EnvError, match=r"ends_at_import.* cannot be imported: SystemExit: 0"):
        find_gym_env("ends_at_import:CartPole-v1")
