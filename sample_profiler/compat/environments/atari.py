"""Owns the wrappers that Sample Factory's Atari games are built from: what is usual since Mnih et al. (2015)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from sample_profiler.errors import EnvError

__all__ = ["ClipRewardEnv", "EpisodicLifeEnv", "FireResetEnv", "MaxAndSkipEnv", "NoopResetEnv"]

Env = gymnasium.Env[Any, Any]
Wrapper = gymnasium.Wrapper[Any, Any, Any, Any]

_NOTHING = 0


def _check_meaning(env: Env, action: int, meaning: str) -> None:
    meanings = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
    if meanings[action] != meaning:
        raise EnvError(f"action {action} of {env} is {meanings[action]}, not {meaning}")


def _go_on(env: Env, actions: list[int], keywords: dict[str, Any]) -> Any:
    """Begin an episode and take some actions; begin anew where one of them ends it."""
    begun = env.reset(**keywords)
    for action in actions:
        observation, _, terminated, truncated, info = env.step(action)
        begun = env.reset(**keywords) if terminated or truncated else (observation, info)
    return begun


class NoopResetEnv(Wrapper):
    """Begins an episode with a random number of steps of doing nothing, 1 to `noop_max`."""

    def __init__(self, env: Env, noop_max: int = 30) -> None:
        super().__init__(env)
        self.noop_max = noop_max
        self.override_num_noops: int | None = None
        _check_meaning(env, _NOTHING, "NOOP")

    def reset(self, **keywords: Any) -> Any:
        """Begin an episode."""
        drawn = self.override_num_noops
        if drawn is None:
            drawn = int(self.unwrapped.np_random.integers(1, self.noop_max + 1))
        return _go_on(self.env, [_NOTHING] * drawn, keywords)


class FireResetEnv(Wrapper):
    """Presses FIRE, and then what comes after it, at the beginning of an episode: some games wait for it."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        _check_meaning(env, 1, "FIRE")

    def reset(self, **keywords: Any) -> Any:
        """Begin an episode."""
        return _go_on(self.env, [1, 2], keywords)


class EpisodicLifeEnv(Wrapper):
    """Ends an episode with each life; the game itself begins anew when all are lost.

    Attributes:
        lives: That are left.
        was_real_done: Whether the latest episode was the game's last.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.lives = 0
        self.was_real_done = True

    def step(self, action: Any) -> Any:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.was_real_done = bool(terminated or truncated)
        lives = self._count_lives()
        # Some games show no lives for a few frames before they are over.
        has_lost = 0 < lives < self.lives
        self.lives = lives
        return observation, reward, terminated or has_lost, truncated, info

    def reset(self, **keywords: Any) -> Any:
        """Begin with the next life, or a game."""
        if self.was_real_done:
            begun = self.env.reset(**keywords)
        else:
            observation, *_, info = self.env.step(_NOTHING)
            begun = observation, info
        self.lives = self._count_lives()
        return begun

    def _count_lives(self) -> int:
        return int(self.unwrapped.ale.lives())  # type: ignore[attr-defined]


class MaxAndSkipEnv(Wrapper):
    """Repeats each action; shows, of each pixel, the brighter one of the last two frames."""

    def __init__(self, env: Env, skip: int = 4) -> None:
        super().__init__(env)
        self._num_frames = skip

    def step(self, action: Any) -> Any:
        """Take up to `skip` steps; return the last one with the sum of the rewards."""
        total, terminated, truncated = 0.0, False, False
        frames: list[Any] = []
        info: dict[str, Any] = {}
        for _ in range(self._num_frames):
            observation, reward, terminated, truncated, info = self.env.step(action)
            frames = [*frames[-1:], observation]
            total += float(reward)
            if terminated or truncated:
                break
        return np.maximum.reduce(frames), total, terminated, truncated, info


class ClipRewardEnv(gymnasium.RewardWrapper[Any, Any]):
    """Leaves of a reward its sign."""

    def reward(self, reward: Any) -> float:
        """Return -1, 0 or 1."""
        return float(np.sign(reward))
