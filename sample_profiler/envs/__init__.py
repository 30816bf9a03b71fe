"""Environments: what they have to be (contract), how a run finds them by name (registry), and wrappers around them.

Imports numpy and gymnasium, never torch: rollout workers import it.
"""

from __future__ import annotations

from sample_profiler.envs.contract import (
    EnvPlacement,
    EnvSpec,
    check_reset_result,
    check_step_result,
    env_probed,
    inspect_env,
    name_of_env,
)
from sample_profiler.envs.registry import (
    MakeEnv,
    export_registration,
    import_registration,
    make_env,
    register_env,
    register_env_fallback,
    registered_envs,
)

__all__ = [
    "EnvPlacement",
    "EnvSpec",
    "MakeEnv",
    "check_reset_result",
    "check_step_result",
    "env_probed",
    "export_registration",
    "import_registration",
    "inspect_env",
    "make_env",
    "name_of_env",
    "register_env",
    "register_env_fallback",
    "registered_envs",
]
