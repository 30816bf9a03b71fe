"""The families of environments that benchmarks make runs with, and how a run's flags are read for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sample_profiler.config import Config, parse_config
from sf_examples.atari.atari_env import ATARI_DEFAULTS
from sf_examples.atari.train_atari import register_atari_envs
from sf_examples.custom import train_custom_env, two_agents  # noqa: F401 (they register their environments)
from sf_examples.gym.gym_env import GYM_DEFAULTS
from sf_examples.gym.train_gym import register_gym_envs
from sf_examples.mujoco.mujoco_env import MUJOCO_DEFAULTS
from sf_examples.mujoco.train_mujoco import register_mujoco_envs
from sf_examples.vizdoom.doom_options import VIZDOOM_DEFAULTS, VizdoomOptions
from sf_examples.vizdoom.train_vizdoom import register_vizdoom_envs

__all__ = ["FAMILIES", "Family", "make_family_config"]


@dataclass(frozen=True)
class Family:
    """What the training script of a family does.

    Attributes:
        prefix: of the names of its environments.
        register: makes these known.
        defaults: of the flags.
        parts: of the configuration beside those of all families.
    """

    prefix: str
    register: Callable[[], None]
    defaults: dict[str, Any]
    parts: tuple[type, ...] = field(default=())


FAMILIES = {
    "doom": Family("doom_", register_vizdoom_envs, VIZDOOM_DEFAULTS, (VizdoomOptions,)),
    "atari": Family("atari_", register_atari_envs, ATARI_DEFAULTS),
    "mujoco": Family("mujoco_", register_mujoco_envs, MUJOCO_DEFAULTS),
    "gym": Family("", register_gym_envs, GYM_DEFAULTS),
}


def make_family_config(name: str, flags: Sequence[str]) -> Config:
    """Register the environments of a family and return the configuration of a run with one of them.

    Args:
        name: of the environment.
        flags: of the run.
    """
    family = next(family for family in FAMILIES.values() if name.startswith(family.prefix))
    family.register()
    return parse_config([f"--env={name}", *flags], extra_parts=family.parts, defaults=family.defaults)
