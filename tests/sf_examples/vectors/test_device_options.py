"""Flags of environments on a device, against where they are."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config
from sample_profiler.errors import ConfigError, EnvError
from sf_examples.vectors.device_options import DeviceOptions, check_device


def parse(*flags):
    return parse_config(["--env=any", *flags], extra_parts=(DeviceOptions,), defaults={})


@pytest.mark.parametrize("flag", ["env_gpu_actions", "env_gpu_observations"])
def test_what_is_on_a_gpu_cannot_have_its_arrays_elsewhere(flag):
    cfg = parse(f"--{flag}=False")
    check_device(cfg, is_on_gpu=False)
    with pytest.raises(EnvError, match=rf"^--{flag}=False: .* \(--actor_worker_gpus without a number\)$"):
        check_device(cfg, is_on_gpu=True)


@pytest.mark.parametrize("is_on_gpu", [True, False])
def test_what_is_true_of_a_gpu_asks_for_nothing(is_on_gpu):
    check_device(parse("--env_gpu_actions=True", "--use_env_info_cache=False"), is_on_gpu=is_on_gpu)


def test_no_gpu_may_be_given_and_the_first():
    assert parse("--actor_worker_gpus").actor_worker_gpus == ()
    assert parse("--actor_worker_gpus", "0").actor_worker_gpus == (0,)
    with pytest.raises(ConfigError, match="--actor_worker_gpus 0 1: a run has one GPU"):
        parse("--actor_worker_gpus", "0", "1")
