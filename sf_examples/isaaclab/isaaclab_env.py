"""Environments of Isaac Lab, and of what speaks like it or like Isaac Gym before it, as vectors.

Such a simulator has ``num_envs``, and tensors on its device for everything: observations in a dictionary of groups, of
which the policy sees one (``{"policy": …}``; ``{"obs": …}`` of Isaac Gym's). A step returns flags of two kinds, or one
flag of all ends and, in the infos, ``time_outs``: which of these were cut off.

::

    register_env("Isaac-Ant-v0", lambda *_, **__: IsaacLabVector(make_it_as_isaac_lab_says()))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from sample_profiler.errors import EnvContractError

__all__ = ["IsaacLabVector"]

_GROUPS = ("policy", "obs")


class IsaacLabVector:
    """Such a simulator by the contract of vectors; what it returns is handed on as it is, without a copy.

    Attributes:
        num_envs: Number of members.
        metadata: Says when members begin anew.
        observation_space: Of one member, of the group that the policy sees.
        action_space: Of one member.
    """

    def __init__(
        self, env: Any, group: str | None = None, autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP
    ) -> None:
        """Wrap a simulator.

        Args:
            env: The simulator.
            group: Observations that the policy sees; by default ``policy`` or ``obs``, whichever there is.
            autoreset_mode: When members begin anew: with the step that ended their episode, as Isaac Lab has it, or
                with the next one, as Isaac Gym's tasks do.

        Raises:
            EnvContractError: It has no such group.
        """
        self._env = env
        inner = getattr(env, "unwrapped", env)
        self.num_envs: int = getattr(env, "num_envs", None) or inner.num_envs
        self.metadata = {"autoreset_mode": autoreset_mode}
        space = _space_of_member(env, inner, "observation_space")
        self._group = group
        if isinstance(space, spaces.Dict):
            self._group = _find_group(space.spaces, group, type(inner).__name__)
            space = space[self._group]
        self.observation_space: gymnasium.Space[Any] = space
        self.action_space = _space_of_member(env, inner, "action_space")

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode everywhere."""
        # Tasks of Isaac Gym take none: their simulator has had it when it was made.
        keywords = {"seed": seed} if seed is not None and _takes_seed(self._env.reset) else {}
        result = self._env.reset(**keywords)
        observations = result[0] if isinstance(result, tuple) else result
        return self._seen(observations), {}

    def step(self, actions: Any) -> Any:
        """Take one step."""
        result = self._env.step(actions)
        if not isinstance(result, tuple) or len(result) not in (4, 5):
            return result  # the check of the contract says what is wrong with it
        observations, rewards, *flags, infos = result
        terminated, truncated = flags if len(flags) == 2 else _told_apart(flags[0], infos)
        told = {key: self._seen(infos[key]) for key in ("final_obs", "final_observation") if key in infos}
        return self._seen(observations), rewards, terminated, truncated, told

    def render(self) -> Any:
        """Return what the simulator renders."""
        return self._env.render()

    def close(self) -> None:
        """End the simulator."""
        self._env.close()

    def _seen(self, observations: Any) -> Any:
        if not isinstance(observations, Mapping):
            return observations
        # A simulator may have the space of what the policy sees alone, as Isaac Gym's.
        if self._group not in observations:
            self._group = _find_group(observations, self._group, type(self._env).__name__)
        return observations[self._group]


def _takes_seed(reset: Callable[..., Any]) -> bool:
    try:
        inspect.signature(reset).bind(seed=0)
    except TypeError:
        return False
    return True


def _find_group(groups: Mapping[str, Any], wanted: str | None, name: str) -> str:
    """Return the group of observations that the policy sees.

    Raises:
        EnvContractError: There is no such group.
    """
    found = wanted or next((each for each in _GROUPS if each in groups), None)
    if found is None or found not in groups:
        raise EnvContractError(
            f"{name} has the observations {sorted(groups)}, and none called {wanted or 'policy or obs'}: say which the "
            "policy sees (group)"
        )
    return found


def _space_of_member(env: Any, inner: Any, which: str) -> Any:
    """Return the space of one member; where a simulator has only that of all, what one has of it."""
    for owner in (env, inner):
        if (space := getattr(owner, f"single_{which}", None)) is not None:
            return space
    return getattr(env, which)


def _told_apart(ended: Any, infos: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return who was terminated and who was cut off, of flags of any type."""
    ended = ended != 0
    if "time_outs" not in infos:
        return ended, ended & False
    truncated = ended & (infos["time_outs"] != 0)
    return ended & ~truncated, truncated
