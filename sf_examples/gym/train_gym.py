"""Trains on any environment of gymnasium: ``python -m sf_examples.gym.train_gym --env=CartPole-v1``.

Rollout workers import this module again, so importing it brings in neither PyTorch nor an environment.
"""

from __future__ import annotations

import sys

from sample_profiler.envs.gymnasium_ids import gym_defaults, register_gym_envs
from sf_examples.family import Family

__all__ = ["FAMILY", "main", "register_gym_envs"]

FAMILY = Family(register=register_gym_envs, defaults=gym_defaults)

main = FAMILY.train

if __name__ == "__main__":
    sys.exit(main())
