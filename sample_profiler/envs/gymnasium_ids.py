"""Any environment that gymnasium knows, made fit for the networks: vectors or images with the channels first."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sample_profiler.config import given_values
from sample_profiler.envs.registry import register_env_fallback
from sample_profiler.errors import FROM_OUTSIDE, EnvError, describe_error

if TYPE_CHECKING:
    import gymnasium

    from sample_profiler.config import Config
    from sample_profiler.envs.contract import EnvPlacement
    from sample_profiler.envs.registry import MakeEnv

__all__ = [
    *("GYM_DEFAULTS", "TASK_DEFAULTS", "find_gym_env", "gym_defaults", "gym_env_names", "make_gym_env"),
    "register_gym_envs",
]

GYM_DEFAULTS = {
    "async_rl": False,
    "batch_size": 256,
    "encoder_mlp_layers": (64, 64),
    "learning_rate": 0.001,
    "nonlinearity": "tanh",
    "num_batches_per_epoch": 4,
    "num_envs_per_worker": 8,
    "num_epochs": 4,
    "ppo_clip_ratio": 0.2,
    "rollout": 64,
    "use_rnn": False,
    "value_bootstrap": True,
}
"""What the family has instead of the flags' own defaults: for small, fast environments with vector observations."""

_OF_ALL_TASKS = {
    "action_init_gain": 0.01,
    "actor_critic_share_weights": False,
    "lr_decay_end": 0.1,
    "lr_schedule": "linear_decay",
    "max_grad_norm": 0.5,
    "num_workers": 2,
    "policy_init_gain": 1.414,
}

_NETWORK = ("encoder_mlp_layers", "nonlinearity", "use_rnn")

TASK_DEFAULTS: dict[str, dict[str, Any]] = {
    "Acrobot": _OF_ALL_TASKS
    | {
        "exploration_loss_coeff": 0.0,
        "gae_lambda": 0.94,
        "lr_decay_steps": 200_000,
        "num_epochs": 8,
    },
    "CartPole": _OF_ALL_TASKS
    | {
        "exploration_loss_coeff": 0.0,
        "gae_lambda": 0.9,
        "gamma": 0.98,
        "learning_rate": 0.002,
        "lr_decay_end": 0.05,
        "lr_decay_steps": 100_000,
        "normalize_returns": False,
        "num_batches_per_epoch": 1,
        "num_epochs": 10,
        "ppo_clip_ratio": 0.1,
        "ppo_clip_value": 1000.0,
        "rollout": 16,
    },
    "LunarLander": _OF_ALL_TASKS
    | {
        "exploration_loss_coeff": 0.0,
        "gae_lambda": 0.98,
        "gamma": 0.999,
        "lr_decay_steps": 400_000,
        "num_batches_per_epoch": 8,
        "num_epochs": 10,
        "rollout": 128,
        # To hover until time is up is then worth no more than what was earned by then.
        "value_bootstrap": False,
    },
    "Pendulum": _OF_ALL_TASKS
    | {
        "adaptive_stddev": False,
        "batch_size": 128,
        "exploration_loss_coeff": 0.0,
        "gamma": 0.9,
        "lr_decay_steps": 200_000,
        "num_batches_per_epoch": 8,
        "num_epochs": 10,
    },
}
"""What some environments have instead of that, by id without version: as they were found to be learned soonest."""

_EXTRAS = {"box2d": "box2d", "mujoco": "mujoco"}
"""What installs a simulation, by what gymnasium calls it."""

_NUMS_OF_CHANNELS = (1, 3, 4)


def register_gym_envs() -> None:
    """Have names that nobody registered looked up in gymnasium."""
    register_env_fallback(find_gym_env, gym_env_names)


def gym_defaults(argv: Sequence[str]) -> dict[str, Any]:
    """Return what a command line has instead of the flags' own defaults.

    Those of single environments were found with the family's own network, and are for that alone.

    Args:
        argv: The command line without the program's name.
    """
    given = given_values(argv)
    task = given.get("env", "").rpartition("-v")[0]
    has_own_network = any(given.get(flag, GYM_DEFAULTS[flag]) != GYM_DEFAULTS[flag] for flag in _NETWORK)
    return GYM_DEFAULTS | ({} if has_own_network else TASK_DEFAULTS.get(task, {}))


def find_gym_env(name: str) -> MakeEnv | None:
    """Return :func:`make_gym_env` if gymnasium knows the id, else ``None``.

    Args:
        name: An id such as ``CartPole-v1``, or ``module:id``, which imports the module that registers the id.

    Raises:
        EnvError: There is no such module, or it cannot be imported.
    """
    import gymnasium

    module, separator, env_id = name.rpartition(":")
    if separator:
        _import(module, name)
    try:
        gymnasium.spec(env_id)
    except gymnasium.error.Error:
        return None
    return make_gym_env


def _import(module: str, name: str) -> None:
    if not all(part.isidentifier() for part in module.split(".")):
        raise EnvError(f"--env={name}: {module!r} is not the name of a module; write module:id, as in my_envs:Maze-v0")
    try:
        importlib.import_module(module)
    except FROM_OUTSIDE:
        raise
    except BaseException as error:  # SystemExit, too: a program that was not written to be imported
        # What fails within the module needs its traceback.
        cause = None if isinstance(error, ModuleNotFoundError) else error
        raise EnvError(
            f"--env={name} needs the module {module!r}, which cannot be imported: {describe_error(error)}"
        ) from cause


def gym_env_names() -> Iterable[str]:
    """Return the ids that gymnasium knows by now."""
    import gymnasium

    return gymnasium.registry.keys()


def make_gym_env(
    full_env_name: str, cfg: Config, _env_config: EnvPlacement | None, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """Make an environment from gymnasium's registry."""
    # Here and not above: the training script is imported by processes that never see an environment.
    import gymnasium

    from sample_profiler.envs.wrappers import skip_and_stack

    # Not every environment takes the argument.
    options: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    try:
        env = gymnasium.make(full_env_name, disable_env_checker=True, **options)
    except gymnasium.error.DependencyNotInstalled as error:
        raise EnvError(_describe_missing(full_env_name, error)) from error
    return skip_and_stack(_convert_observations(env), cfg.environment)


def _convert_observations(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    from gymnasium import spaces
    from gymnasium.wrappers import FlattenObservation

    from sample_profiler.envs.wrappers import ChannelsFirst, Float32Observation

    if not isinstance(env.observation_space, spaces.Box | spaces.Dict):
        env = FlattenObservation(env)  # Discrete becomes one-hot, a tuple one vector
    space = env.observation_space
    if isinstance(space, spaces.Box):
        if space.dtype == "uint8" and len(space.shape) == 3 and space.shape[2] in _NUMS_OF_CHANNELS:
            return ChannelsFirst(env)
        if space.dtype == "float64" or (len(space.shape) == 1 and space.dtype != "float32"):
            return Float32Observation(env)
    return env


def _describe_missing(env_id: str, error: Exception) -> str:
    for part, extra in _EXTRAS.items():
        if part in str(error).lower():
            return f"--env={env_id} needs {part}, which is not installed: install sample-profiler[{extra}]"
    return f"--env={env_id} needs a package that is not installed: {error}"
