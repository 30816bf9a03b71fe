"""Environments with one fault each, and what a doctor has to find of each of them; nothing else."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import threading
import time
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

FAULTS: dict[str, tuple[type[gymnasium.Env], frozenset[str]]] = {}
"""Environments by name, with the names of what has to be found."""


def names(*found: str) -> Any:
    def note(env: type[gymnasium.Env]) -> type[gymnasium.Env]:
        FAULTS[env.__name__] = env, frozenset(found)
        return env

    return note


@names()
class Healthy(gymnasium.Env):
    """A walk along a line; nothing is wrong with it."""

    observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space: gymnasium.Space = spaces.Discrete(3)
    length = 37

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1.0, 1.0)
        self.num_steps = 0
        return self.observe(), {}

    def step(self, action):
        self.num_steps += 1
        self.position += 0.1 * (np.ravel(action)[0] - 1) + self.np_random.normal(0.0, 0.01)
        has_ended = bool(abs(self.position) > 2.0)
        return self.observe(), self.reward(), has_ended, self.num_steps >= self.length, self.info()

    def observe(self):
        return np.array([np.clip(self.position, -10, 10), self.num_steps % 1000 / 1000], np.float32)

    def reward(self):
        return -abs(float(self.position))

    def info(self):
        return {}


class Continuous(Healthy):
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)


@names()
class AsksForTheProgressOfTraining(Healthy):
    def set_training_info(self, info):
        self.trained_frames = info["approx_total_training_steps"]

    def reset(self, *, seed=None, options=None):
        self.length = 37 + self.trained_frames
        return super().reset(seed=seed)


@names("contract")
class WrongShape(Healthy):
    def observe(self):
        return np.append(super().observe(), np.float32(0))


@names("contract")
class NoInfo(Healthy):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


@names("contract")
class FourValues(Healthy):
    def step(self, action):
        observation, reward, end, _, info = super().step(action)
        return observation, reward, end, info


@names("contract")
class OutOfDiscreteSometimes(Healthy):
    observation_space = spaces.Discrete(5)

    def observe(self):
        return 5 if self.np_random.random() < 0.01 else int(self.np_random.integers(5))


@names("contract")
class NoSpace(Healthy):
    observation_space = None


@names("contract")
class TextAsReward(Healthy):
    def reward(self):
        return "much"


@names("type")
class Float64(Healthy):
    def observe(self):
        return super().observe().astype(np.float64)


@names("bounds")
class OutOfBoundsSometimes(Healthy):
    def observe(self):
        return super().observe() + (100 if self.np_random.random() < 0.005 else 0)


@names("not finite")
class NanSometimes(Healthy):
    def observe(self):
        return super().observe() * np.float32("nan" if self.np_random.random() < 0.01 else 1)


@names("not finite")
class InfiniteReward(Healthy):
    def reward(self):
        return float("inf") if self.np_random.random() < 0.01 else 0.5 * self.position


@names("outcome")
class RewardAsArray(Healthy):
    def reward(self):
        return np.array([self.position], np.float32)


@names("seed")
class Unseeded(Healthy):
    def reset(self, *, seed=None, options=None):
        return super().reset()


@names("seed")
class OfTheClock(Healthy):
    def observe(self):
        return super().observe() + np.float32(time.time() % 1e4 * 1e-5)


@names("seed", "global generator")
class GlobalGenerator(Healthy):
    def step(self, action):
        result = super().step(action)
        return np.clip(result[0] + np.random.uniform(-0.1, 0.1, 2), -10, 10).astype(np.float32), *result[1:]


@names("shared state", "global generator")
class SeedsTheGlobalGenerator(Healthy):
    def reset(self, *, seed=None, options=None):
        if seed is not None:
            random.seed(seed)
        return super().reset(seed=seed)

    def observe(self):
        return super().observe() + np.float32(random.random())


@names("seed ignored")
class SeedIgnored(Healthy):
    generator: np.random.Generator | None = None

    def reset(self, *, seed=None, options=None):
        self.generator = self.generator or np.random.default_rng(0)
        return super().reset(seed=int(self.generator.integers(1000)))


@names("seed ignored")
class AlwaysTheSameGenerator(Healthy):
    def reset(self, *, seed=None, options=None):
        self.generator = np.random.default_rng(0)
        return super().reset(seed=int(self.generator.integers(1000)))


@names()
class NothingIsRandom(Healthy):
    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.position, self.num_steps = 0.0, 0
        return self.observe(), {}

    def step(self, action):
        self.num_steps += 1
        self.position += 0.1 * (action - 1)
        return self.observe(), self.reward(), False, self.num_steps >= self.length, {}


@names("shared state")
class StateOfTheClass(Healthy):
    where: ClassVar[list[float]] = [0.0]

    def reset(self, *, seed=None, options=None):
        self.where[0] = 0.0
        return super().reset(seed=seed)

    def observe(self):
        self.where[0] += 0.01
        return super().observe() + np.float32(self.where[0])


@names("stale reset")
class ShowsTheEndAgain(Healthy):
    def reset(self, *, seed=None, options=None):
        end = self.observe() if hasattr(self, "position") else None
        begin, info = super().reset(seed=seed)
        return begin if end is None else end, info


@names("aliasing")
class ReturnsItsBuffer(Healthy):
    def observe(self):
        self.buffer = getattr(self, "buffer", np.zeros(2, np.float32))
        self.buffer[:] = super().observe()
        return self.buffer


@names("changes by itself", "threads left", "seed")
class WrittenByAThread(Healthy):
    def __init__(self):
        self.buffer = np.zeros(2, np.float32)
        threading.Thread(target=self.write, daemon=True).start()

    def write(self):
        while True:
            self.buffer += np.float32(1e-6)
            time.sleep(0.0001)

    def observe(self):
        return self.buffer


@names("actions ignored")
class IgnoresTheAction(Healthy):
    def step(self, action):
        return super().step(2)


@names("action changed")
class ChangesTheAction(Continuous):
    def step(self, action):
        action *= 0.5
        return super().step(action)


@names("rare slow calls")
class SlowOnceIn200(Healthy):
    num_in_all = 0

    def step(self, action):
        self.num_in_all += 1
        if self.num_in_all % 200 == 0:
            end_s = time.thread_time() + 0.02
            while time.thread_time() < end_s:
                pass
        return super().step(action)


@names("slow resets")
class SlowResets(Healthy):
    def reset(self, *, seed=None, options=None):
        end_s = time.thread_time() + 0.02
        while time.thread_time() < end_s:
            pass
        return super().reset(seed=seed)


@names("slower and slower")
class GoesThroughEverMore(Healthy):
    num_in_all = 0

    def step(self, action):
        self.num_in_all += 1
        sum(range(20 * self.num_in_all))
        return super().step(action)


@names("sleeps")
class Sleeps(Healthy):
    def step(self, action):
        time.sleep(0.004)
        return super().step(action)


@names("large infos")
class LargeInfos(Healthy):
    def info(self):
        return {"picture": np.zeros((256, 256), np.uint8)}


@names("memory grows")
class KeepsAllSteps(Healthy):
    kept = None

    def step(self, action):
        self.kept = [*(self.kept or [])[-1:], self.kept, bytearray(2000)]
        return super().step(action)


@names("memory grows")
class KeepsAllEpisodes(Healthy):
    def reset(self, *, seed=None, options=None):
        self.history = getattr(self, "history", [])
        self.history.append(np.ones(30_000))
        return super().reset(seed=seed)


@names("memory grows")
class KeepsSmallObjects(Healthy):
    def step(self, action):
        result = super().step(action)
        self.returns = getattr(self, "returns", [])
        self.returns.append((result[1], self.num_steps))
        return result


@names("threads left")
class ThreadOutlivesClose(Healthy):
    def __init__(self):
        threading.Thread(target=time.sleep, args=(1e6,), daemon=True, name="viewer").start()


@names("processes left", "files left")
class ProcessOutlivesClose(Healthy):
    def __init__(self):
        self.process = subprocess.Popen(["sleep", "1000"], stdin=subprocess.PIPE)


@names("files left")
class FileOutlivesClose(Healthy):
    def __init__(self):
        self.file = os.open("/dev/null", os.O_RDONLY)


@names("files pile up")
class FileOfEachEpisode(Healthy):
    files: list[int] | None = None

    def reset(self, *, seed=None, options=None):
        self.files = [*(self.files or ()), os.open("/dev/null", os.O_RDONLY)]
        return super().reset(seed=seed)

    def close(self):
        for file in self.files or ():
            os.close(file)


@names("prints")
class Prints(Healthy):
    def reset(self, *, seed=None, options=None):
        sys.stdout.write("a new episode begins\n")
        return super().reset(seed=seed)


@names("process")
class ChangesTheFolder(Healthy):
    def reset(self, *, seed=None, options=None):
        os.chdir("/")
        return super().reset(seed=seed)


@names("process")
class SetsAVariable(Healthy):
    def step(self, action):
        os.environ["LEVEL"] = str(self.num_steps)
        return super().step(action)


@names("process")
class HandlesASignal(Healthy):
    def __init__(self):
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)


@names("no end")
class NeverEnds(Healthy):
    length = 10**9

    def step(self, action):
        result = super().step(action)
        self.position *= 0.9
        return *result[:2], False, *result[3:]


@names("constant observation")
class AlwaysTheSame(Healthy):
    def observe(self):
        return np.ones(2, np.float32)


@names("constant reward")
class NoReward(Healthy):
    def reward(self):
        return 0.0


@names("large rewards")
class LargeRewards(Healthy):
    def reward(self):
        return 1e6 * float(self.position)


@names("raises")
class RaisesSometimes(Healthy):
    def step(self, action):
        if self.np_random.random() < 0.01:
            raise KeyError("a level that is not there")
        return super().step(action)


@names("raises")
class RaisesAtTheBounds(Continuous):
    def step(self, action):
        if np.abs(action).max() >= 1.0:
            raise ValueError("an arm cannot be bent so far")
        return super().step(action)


@names("raises")
class RaisesInClose(Healthy):
    def close(self):
        raise OSError("the game is gone")


@names("ends its process")
class CallsSysExit(Healthy):
    def step(self, action):
        if self.num_steps > 20:
            sys.exit(3)
        return super().step(action)


@names("ends its process")
class EndsTheProcess(Healthy):
    def step(self, action):
        if self.num_steps > 20:
            os._exit(0)
        return super().step(action)


@names("ends its process")
class Crashes(Healthy):
    def step(self, action):
        if self.num_steps > 20:
            ctypes.string_at(0)
        return super().step(action)


@names("hangs")
class HangsInClose(Healthy):
    def close(self):
        threading.Event().wait()


@names("hangs")
class HangsInStep(Healthy):
    def step(self, action):
        if self.num_steps > 20:
            time.sleep(1e6)
        return super().step(action)


@names()
class DifferentAgents(gymnasium.Env):
    """Two agents with spaces of their own, who keep to them; nothing is wrong with it."""

    num_agents = 2
    observation_space: Any = (spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(5, start=1))
    action_space: Any = (spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,), np.float32))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.num_steps = 0
        return self.shown(), [{}, {}]

    def step(self, action):
        assert action[0] in range(3) and action[1].shape == (2,)
        self.num_steps += 1
        over = [self.num_steps == 37] * 2
        return self.shown(), [1.0, float(action[1][0])], over, [False, False], [{}, {}]

    def shown(self):
        return [self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32), int(self.np_random.integers(1, 6))]


@names("not finite")
class OneOfDifferentAgents(DifferentAgents):
    def shown(self):
        first, second = super().shown()
        return [first if self.num_steps < 20 else first * np.float32(np.inf), second]


def make(name: str, *_: Any, **__: Any) -> gymnasium.Env:
    """Make one of them."""
    return FAULTS[name][0]()
