"""Environments: what they have to be (contract), how a run finds them by name (registry), and wrappers around them.

Imports numpy and gymnasium, never torch: rollout workers import it.
"""

from __future__ import annotations

from sample_profiler.envs.contract import (
    EnvPlacement,
    EnvSpec,
    check_reset_result,
    check_step_result,
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
from sample_profiler.envs.spaces import (
    DEFAULT_OBSERVATION_KEY,
    action_dtype,
    action_width,
    as_dict_space,
    num_action_parameters,
)

__all__ = [
    "DEFAULT_OBSERVATION_KEY",
    "EnvPlacement",
    "EnvSpec",
    "MakeEnv",
    "action_dtype",
    "action_width",
    "as_dict_space",
    "check_reset_result",
    "check_step_result",
    "export_registration",
    "import_registration",
    "inspect_env",
    "make_env",
    "name_of_env",
    "num_action_parameters",
    "register_env",
    "register_env_fallback",
    "registered_envs",
]
