"""Trains on a ViZDoom scenario: ``python -m sf_examples.vizdoom.train_vizdoom --env=doom_benchmark``.

Rollout workers import this module again, so importing it brings in neither PyTorch nor ViZDoom.
"""

from __future__ import annotations

import sys
from typing import Any

from sample_profiler.envs import EnvPlacement, register_env
from sf_examples.family import Family
from sf_examples.vizdoom.doom_matches import DOOM_MATCHES
from sf_examples.vizdoom.doom_options import VIZDOOM_DEFAULTS, VizdoomOptions
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS

__all__ = ["FAMILY", "main", "register_vizdoom_envs"]


def make_env(full_env_name: str, cfg: Any, env_config: EnvPlacement | None, render_mode: str | None = None) -> Any:
    """Make a ViZDoom environment."""
    from sf_examples.vizdoom.doom_env import make_doom_env

    return make_doom_env(full_env_name, cfg, env_config, render_mode)


def make_match(full_env_name: str, cfg: Any, env_config: EnvPlacement | None, render_mode: str | None = None) -> Any:
    """Make a ViZDoom environment of several players."""
    from sf_examples.vizdoom.doom_match_env import make_doom_match_env

    return make_doom_match_env(full_env_name, cfg, env_config, render_mode)


def register_vizdoom_envs() -> None:
    """Register every scenario and every match that has a name."""
    for name in DOOM_SCENARIOS:
        register_env(name, make_env)
    for name in DOOM_MATCHES:
        register_env(name, make_match)


FAMILY = Family(register=register_vizdoom_envs, defaults=VIZDOOM_DEFAULTS, extra_parts=(VizdoomOptions,))

main = FAMILY.train

if __name__ == "__main__":
    sys.exit(main())
