"""Trains on games of copying: the observation says what each part of the action has to be, an episode is one step.

`copy_*` have actions of every kind, `tell_*` observations of every kind; `copy_each` has an agent for each kind of
action, which sees what it has to do as an observation of that kind.
"""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sample_profiler import register_env, train
from sample_profiler.spaces import action_converter, action_parts, as_dict_space, part_width

ACTION_SPACES = {
    "multi": spaces.MultiDiscrete([3, 4], start=[0, 2]),
    "hybrid": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)]),
    "combined": spaces.Tuple(
        [spaces.Discrete(3), spaces.MultiDiscrete([2, 4], start=[1, 0]), spaces.Box(-1, 1, (2,), np.float32)]
    ),
    "number": spaces.Discrete(4, start=7),
    "bits": spaces.MultiBinary((2, 2)),
    "named": spaces.Dict(
        {
            "keys": spaces.MultiBinary(2),
            "aim": spaces.Tuple([spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3, start=2)]),
        }
    ),
    "nested": spaces.Tuple([spaces.Tuple([spaces.Discrete(2), spaces.MultiDiscrete([3, 2])]), spaces.Discrete(3)]),
}

OBSERVATION_SPACES = {
    "discrete": spaces.Discrete(2, start=3),
    "bits": spaces.MultiBinary(2),
    "numbers": spaces.MultiDiscrete([[2, 3], [3, 2]], start=[[0, 5], [-1, 0]]),
    "in_tuples": spaces.Tuple(
        [spaces.Discrete(2), spaces.Dict({"in": spaces.Tuple([spaces.Box(-1, 1, (2,), np.float32)])})]
    ),
    "small_image": spaces.Box(0, 255, (3, 7, 7), np.uint8),
    "number": spaces.Box(-1, 1, (), np.float32),
    "matrix": spaces.Box(-1, 1, (3, 2), np.float32),
    "image": spaces.Box(0, 255, (3, 36, 40), np.uint8),
    "rank_4": spaces.Box(-1, 1, (2, 2, 1, 3), np.float32),
    "image_and_vector": spaces.Dict(
        {"image": spaces.Box(0, 255, (1, 40, 36), np.uint8), "vector": spaces.Box(-1, 1, (3,), np.float32)}
    ),
    "inner": spaces.Dict(
        {
            "place": spaces.Dict({"room": spaces.Discrete(2), "doors": spaces.MultiBinary([2, 2])}),
            "time": spaces.Box(-1, 1, (), np.float32),
        }
    ),
}


class Copy(gymnasium.Env):
    """The reward is the mean over the parts: 1 for the right value of a discrete one, 1 less the distance for a Box.

    What is to be done is shown as numbers, or as an action.
    """

    def __init__(self, kind: str, is_masked: bool, shows_action: bool = False) -> None:
        self.action_space = ACTION_SPACES[kind]
        self._parts = action_parts(self.action_space)
        sizes = [int(p.n) if isinstance(p, spaces.Discrete) else part_width(p) for p in self._parts]
        num_values = sum(int(part.n) for part in self._parts if isinstance(part, spaces.Discrete))
        box = spaces.Box(-1, 1, (sum(sizes),), np.float32)
        self._is_masked = is_masked
        self._as_action = action_converter(self.action_space) if shows_action else None
        self.observation_space = spaces.Dict({"obs": self.action_space if shows_action else box})
        if is_masked:
            self.observation_space["action_mask"] = spaces.Box(0, 1, (num_values,), np.int8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._target, shown, values, mask = [], [], [], []
        for part in self._parts:
            if isinstance(part, spaces.Discrete):
                value = int(self.np_random.integers(part.n))
                self._target.append(value + int(part.start))
                shown.append(np.eye(part.n)[value])
                values.append([value])
                # Half of the wrong values are forbidden, never the right one.
                mask.append((self.np_random.random(part.n) < 0.5) | (np.arange(part.n) == value))
            else:
                value = self.np_random.uniform(-0.8, 0.8, part.shape)
                self._target.append(value)
                shown.append(value)
                values.append(value)
        if self._as_action is None:
            observation = {"obs": np.concatenate(shown).astype(np.float32)}
        else:
            observation = {"obs": self._as_action(np.concatenate(values).astype(np.float32))}
        if self._is_masked:
            self._mask = np.concatenate(mask).astype(np.int8)
            observation["action_mask"] = self._mask
        self._observation = observation
        return observation, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        rewards, first = [], 0
        for part, taken, target in zip(self._parts, _flat(action), self._target, strict=True):
            if isinstance(part, spaces.Discrete):
                if self._is_masked:
                    assert self._mask[first + int(taken) - int(part.start)], "a forbidden value was drawn"
                first += int(part.n)
                rewards.append(float(taken == target))
            else:
                rewards.append(1 - min(1.0, float(np.abs(taken - target).mean())))
        return self._observation, float(np.mean(rewards)), True, False, {}


def _flat(action):
    if isinstance(action, dict):
        return _flat(tuple(action.values()))
    if isinstance(action, tuple):
        return [part for member in action for part in _flat(member)]
    return list(action.flat) if isinstance(action, np.ndarray) and action.dtype.kind == "i" else [action]


class CopyEach:
    """Agents with spaces of their own, each of whom plays a game for itself, with a mask."""

    num_agents = len(ACTION_SPACES)

    def __init__(self) -> None:
        self._games = [Copy(kind, is_masked=True, shows_action=True) for kind in ACTION_SPACES]
        self.observation_space = [game.observation_space for game in self._games]
        self.action_space = [game.action_space for game in self._games]

    def reset(self, *, seed=None, options=None):
        seeds = [None if seed is None else seed + agent for agent in range(self.num_agents)]
        begun = [game.reset(seed=each) for game, each in zip(self._games, seeds, strict=True)]
        return tuple(map(list, zip(*begun, strict=True)))

    def step(self, actions):
        stepped = [game.step(action) for game, action in zip(self._games, actions, strict=True)]
        return tuple(map(list, zip(*stepped, strict=True)))


class Tell(gymnasium.Env):
    """Each entry of the observation shows its lowest or its highest value; the reward is the share told rightly."""

    def __init__(self, kind: str) -> None:
        self.observation_space = OBSERVATION_SPACES[kind]
        self.action_space = spaces.MultiDiscrete([2] * len(as_dict_space(self.observation_space)))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._shown = self.np_random.integers(2, size=len(self.action_space))
        self._observation = _show(self.observation_space, iter(self._shown))
        return self._observation, {}

    def step(self, action):
        return self._observation, float(np.mean(action == self._shown)), True, False, {}


def _show(space, shown):
    if isinstance(space, spaces.Dict):
        return {name: _show(entry, shown) for name, entry in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_show(entry, shown) for entry in space)
    is_high = next(shown)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start + is_high * (space.nvec - 1)
    if isinstance(space, spaces.Discrete):
        return space.start + is_high
    if isinstance(space, spaces.MultiBinary):
        return np.full(space.shape, is_high, np.int8)
    return np.where(is_high, space.high, space.low).astype(space.dtype)[()]


def make_vector(kind, mode):
    return SyncVectorEnv([lambda: Copy(kind, is_masked=False)] * 16, autoreset_mode=mode)


for kind in ACTION_SPACES:
    for is_masked in (False, True):
        name = f"copy_{kind}{'_masked' if is_masked else ''}"
        register_env(name, lambda *_, kind=kind, is_masked=is_masked, **__: Copy(kind, is_masked))
    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
        name = f"copy_{kind}_vector_{mode.name.lower()}"
        register_env(name, lambda *_, kind=kind, mode=mode, **__: make_vector(kind, mode))

for kind in OBSERVATION_SPACES:
    register_env(f"tell_{kind}", lambda *_, kind=kind, **__: Tell(kind))

register_env("copy_each", lambda *_, **__: CopyEach())

if __name__ == "__main__":
    small = {"use_rnn": False, "encoder_mlp_layers": (32,), "num_workers": 1, "num_envs_per_worker": 16}
    image = {"encoder_conv_architecture": "convnet_atari", "encoder_conv_mlp_layers": (32,)}
    learning = {"learning_rate": 0.01, "rollout": 8, "batch_size": 256, "num_epochs": 4, "exploration_loss_coeff": 0.0}
    stable = {"initial_stddev": 0.3, "ppo_clip_ratio": 0.2, "gamma": 0.5, "stats_avg": 500}
    raise SystemExit(train(sys.argv[1:], defaults={**small, **image, **learning, **stable}))
