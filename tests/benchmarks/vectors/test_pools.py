"""A pool learns with the flags of the family that it is compared with."""

from __future__ import annotations

from benchmarks.vectors.pools import make_arms
from sample_profiler.config import parse_config
from sf_examples.envpool.envpool_env import EnvPoolOptions
from sf_examples.mujoco.mujoco_env import MUJOCO_DEFAULTS
from sf_examples.vectors.vector_defaults import VECTOR_DEFAULTS


def test_all_learn_alike_from_as_many_environments():
    arms = make_arms("HalfCheetah-v5", 2, 64)
    _, flags = arms["workers"]
    workers = parse_config(flags, defaults=MUJOCO_DEFAULTS)
    assert workers.run.env == "mujoco_halfcheetah"
    assert workers.sampling.num_workers * workers.sampling.num_envs_per_worker == 64
    for name in ("pool", "pool, one process"):
        _, flags = arms[name]
        pool = parse_config(flags, extra_parts=(EnvPoolOptions,), defaults=VECTOR_DEFAULTS)
        assert (pool.run.env, pool.env_agents) == ("HalfCheetah-v5", 64)
        assert (pool.model, pool.optimizer, pool.loss) == (workers.model, workers.optimizer, workers.loss)
        assert pool.sampling.rollout == workers.sampling.rollout
        assert pool.sampling.serial_mode == (name != "pool")
