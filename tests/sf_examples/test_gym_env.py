"""Vectors of environments by gymnasium's ids."""

from __future__ import annotations

from sample_profiler.config import parse_config
from sf_examples.gym.train_gym_vector import VECTOR_DEFAULTS, VectorOptions, find_gym_vector, make_vector


def test_vectors_have_the_members_that_are_asked_for():
    cfg = parse_config(["--env=CartPole-v1", "--vector_size=3"], extra_parts=(VectorOptions,), defaults=VECTOR_DEFAULTS)
    env = make_vector("CartPole-v1", cfg, None)
    assert (env.num_envs, env.single_observation_space.shape) == (3, (4,))
    env.close()
    assert find_gym_vector("CartPole-v1") is make_vector
    assert find_gym_vector("CartPole-v99") is None
