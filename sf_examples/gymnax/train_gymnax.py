"""Trains on one of gymnax's environments: ``python -m sf_examples.gymnax.train_gymnax --env=CartPole-v1``."""

from __future__ import annotations

import sys

from sample_profiler.envs import register_env_fallback
from sf_examples.family import Family
from sf_examples.gymnax.gymnax_env import GymnaxOptions, find_gymnax_env, gymnax_names
from sf_examples.vectors.device_options import DeviceOptions
from sf_examples.vectors.vector_defaults import vector_defaults

__all__ = ["FAMILY", "main", "register_gymnax_envs"]


def register_gymnax_envs() -> None:
    """Have names that nobody registered looked up in gymnax."""
    register_env_fallback(find_gymnax_env, gymnax_names)


FAMILY = Family(register=register_gymnax_envs, defaults=vector_defaults, extra_parts=(GymnaxOptions, DeviceOptions))

main = FAMILY.train

if __name__ == "__main__":
    sys.exit(main())
