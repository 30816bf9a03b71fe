"""Isaac Gym's tasks: their flags, and what is said where nothing stands for one."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config
from sample_profiler.errors import ConfigError, EnvError
from sf_examples.isaacgym_examples.isaacgym_tasks import (
    ISAACGYM_TASKS,
    IsaacGymOptions,
    isaacgym_defaults,
    make_isaacgym_env,
)
from sf_examples.vectors.device_options import DeviceOptions


def parse(*flags, task="Ant"):
    argv = [f"--env={task}", *flags]
    return parse_config(argv, extra_parts=(IsaacGymOptions, DeviceOptions), defaults=isaacgym_defaults(argv))


@pytest.mark.parametrize("task", ISAACGYM_TASKS)
def test_every_task_has_settings_that_can_be_used(task):
    config = parse(task=task)
    assert config.sampling.serial_mode
    assert config.env_agents == -1


def test_flags_of_such_command_lines_are_taken():
    config = parse(
        *("--actor_worker_gpus", "0", "--env_gpu_actions=True", "--env_gpu_observations=False"),
        *("--use_env_info_cache=True", "--env_agents=512", "--ige_api_version=preview3", "--eval_stats=False"),
    )
    assert (config.env_agents, config.actor_worker_gpus) == (512, (0,))


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--obs_key=states"], "--obs_key=states: .* use obs"),
        (["--subtask=reorientation"], "--subtask=reorientation: .* leave it out"),
        (["--actor_worker_gpus", "1"], "--actor_worker_gpus 1: a run has one GPU"),
    ],
)
def test_what_cannot_be_is_told(flags, problem):
    with pytest.raises(ConfigError, match=problem):
        parse(*flags)


@pytest.mark.parametrize("task", [name for name, task in ISAACGYM_TASKS.items() if task.stands_for_it is None])
def test_a_task_that_nothing_stands_for_is_refused_in_one_line(task):
    with pytest.raises(EnvError, match=rf"^--env={task} needs Isaac Gym itself.* there are Ant, Humanoid, Cartpole$"):
        make_isaacgym_env(task, None, None)
