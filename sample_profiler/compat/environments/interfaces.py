"""Owns what environments derive from to be told of training, and who looks for it through their wrappers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Any, TypeVar

from sample_profiler.compat.helpers.utilities import called_again

__all__ = [
    *("EnvCriticalError", "RewardShapingInterface", "TrainingInfoInterface", "find_training_info_interface"),
    *("find_wrapper_interface", "get_default_reward_shaping", "num_env_steps", "retry", "set_reward_shaping"),
    *("set_training_info", "vizdoom_available"),
]

Interface = TypeVar("Interface")
Function = TypeVar("Function", bound=Callable[..., Any])


class EnvCriticalError(Exception):
    """An environment cannot go on."""


class RewardShapingInterface:
    """An environment whose rewards are sums that can be weighted anew.

    In runs the weights stay those that it begins with: only population-based training, which is not here, changes them.
    """

    def get_default_reward_shaping(self) -> dict[str, Any] | None:
        """Return the weights by name; those who derive from this have their own."""
        raise NotImplementedError

    def set_reward_shaping(self, reward_shaping: dict[str, Any], agent_idx: int | slice) -> None:
        """Take other weights, for an agent or several; those who derive from this do it."""
        raise NotImplementedError


class TrainingInfoInterface:
    """An environment that is told of training while it goes on.

    Attributes:
        training_info: What it was told last.
    """

    def __init__(self) -> None:
        self.training_info: dict[str, Any] = {}

    def set_training_info(self, training_info: dict[str, Any]) -> None:
        """Take what is told: `approx_total_training_steps`, frames trained on."""
        self.training_info = training_info


def find_wrapper_interface(env: Any, interface_type: type[Interface]) -> Interface | None:
    """Return the outermost wrapper of an environment, or the environment itself, that is of a type; None: none is."""
    while True:
        if isinstance(env, interface_type):
            return env
        attributes = vars(env) if hasattr(env, "__dict__") else {}
        inner = attributes.get("env", attributes.get("_env"))  # of wrappers of theirs, and of this package
        if inner is None:
            return None
        env = inner


def find_training_info_interface(env: Any) -> TrainingInfoInterface | None:
    """Return who is to be told of training; None: nobody."""
    return find_wrapper_interface(env, TrainingInfoInterface)


def set_training_info(training_info_interface: TrainingInfoInterface | None, training_info: dict[str, Any]) -> None:
    """Tell of training, if there is somebody to be told."""
    if training_info_interface is not None:
        training_info_interface.set_training_info(training_info)


def get_default_reward_shaping(env: Any) -> dict[str, Any] | None:
    """Return the weights of an environment's rewards; None: it has none."""
    shaping = find_wrapper_interface(env, RewardShapingInterface)
    return None if shaping is None else shaping.get_default_reward_shaping()


def set_reward_shaping(env: Any, reward_shaping: dict[str, Any] | None, agent_idx: int | slice) -> None:
    """Give an environment other weights, if there are any and it has such."""
    shaping = find_wrapper_interface(env, RewardShapingInterface)
    if shaping is not None and reward_shaping is not None:
        shaping.set_reward_shaping(reward_shaping, agent_idx)


def num_env_steps(infos: Iterable[Mapping[str, Any]]) -> int:
    """Return how many frames steps took, by their infos."""
    return sum(info.get("num_frames", 1) for info in infos)


def vizdoom_available() -> bool:
    """Tell whether ViZDoom is installed."""
    return find_spec("vizdoom") is not None


def retry(
    exception_class: Any = Exception, num_attempts: int = 3, sleep_time: float = 1
) -> Callable[[Function], Function]:
    """Have a function called again after an exception, so many times at most in all."""
    return lambda function: called_again(function, exception_class, [sleep_time] * (num_attempts - 1))
