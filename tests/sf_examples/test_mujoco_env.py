"""MuJoCo environments by name."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from sample_profiler.config import parse_config
from sample_profiler.envs import check_reset_result, check_step_result, inspect_env
from sf_examples.mujoco import mujoco_env
from sf_examples.mujoco.mujoco_env import MUJOCO_DEFAULTS, MUJOCO_ENVS, make_mujoco_env

pytest.importorskip("mujoco")


def make(name: str, *argv: str):
    return make_mujoco_env(name, parse_config([f"--env={name}", *argv], defaults=MUJOCO_DEFAULTS), None)


@pytest.mark.parametrize(
    ("name", "observation_size", "action_size"),
    [("mujoco_ant", 105, 8), ("mujoco_halfcheetah", 17, 6), ("mujoco_hopper", 11, 3), ("mujoco_walker2d", 17, 6)],
)
def test_float32_observations_and_the_contract(name, observation_size, action_size):
    env = make(name)
    spec = inspect_env(env, name)
    assert spec.observation_space["obs"].shape == (observation_size,)
    assert spec.observation_space["obs"].dtype == np.float32
    assert spec.action_space.shape == (action_size,)
    reset = env.reset(seed=0)
    assert reset[0].dtype == np.float32
    check_reset_result(reset, spec, name)
    check_step_result(env.step(np.zeros(action_size, np.float32)), spec, name)
    env.close()


def test_every_name_is_an_environment_in_its_newest_version():
    import gymnasium

    for env_id in MUJOCO_ENVS.values():
        name, version = env_id.split("-v")
        versions = [spec.version for spec in gymnasium.registry.values() if spec.name == name]
        assert int(version) == max(versions), env_id


def test_equal_seeds_repeat():
    one, two = make("mujoco_hopper"), make("mujoco_hopper")
    np.testing.assert_array_equal(one.reset(seed=3)[0], two.reset(seed=3)[0])
    assert (one.reset(seed=3)[0] != two.reset(seed=4)[0]).any()


def test_frameskip_and_framestack():
    env = make("mujoco_hopper", "--env_frameskip=2", "--env_framestack=3")
    assert env.observation_space.shape == (33,)
    env.reset(seed=0)
    env.step(np.zeros(3))
    assert env.unwrapped.data.time == pytest.approx(2 * env.unwrapped.dt)


def test_warnings_go_to_the_log_and_not_to_the_current_folder(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    mujoco_env._log_warning.cache_clear()
    with caplog.at_level(logging.WARNING):
        make("mujoco_halfcheetah")
        make("mujoco_halfcheetah")
    assert list(tmp_path.iterdir()) == []
    assert len([record for record in caplog.records if "settotalmass" in record.getMessage()]) <= 1
