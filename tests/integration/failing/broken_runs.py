"""A training script of a user in which one thing is broken: what BREAK names. Run by test_failures.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler import RunObserver, register_env
from sample_profiler.runtime.processes.child import report_shared_memory

BREAK = os.environ.get("BREAK", "")


class Simulator:
    """A process of an environment's own, which answers each step, until somebody ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def step(self):
        self._process.stdin.write(b"step")
        if not self._process.stdout.read(4):
            raise ConnectionError("the simulator is gone")

    def close(self):
        self._process.kill()
        self._process.wait()


class BrokenEnv(gymnasium.Env):
    def __init__(self, placement) -> None:
        self.observation_space = spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._is_last = placement is not None and placement.env_id == 3
        self._num_steps = 0
        self._simulator = Simulator() if BREAK == "simulator" and placement is not None else None
        # The first environment made is the one that the Runner looks at; `probe` is broken there already.
        if BREAK == "probe" or (BREAK == "constructor" and self._is_last):
            raise ValueError("broken constructor")

    def reset(self, *, seed=None, options=None):
        if BREAK == "reset" and self._is_last:
            raise ValueError("broken reset")
        shape = (4,) if BREAK == "shape" and self._is_last else (3,)
        return np.zeros(shape, np.float32), {}

    def step(self, action):
        self._num_steps += 1
        if self._simulator is not None:
            self._simulator.step()
        if BREAK == "step" and self._is_last and self._num_steps > 50:
            raise ValueError("broken step")
        if BREAK.startswith("/dev/shm/") and self._is_last and self._num_steps > 50:
            Path(BREAK).write_text("as a game does that is gone with its worker")
            report_shared_memory([BREAK])
            os.kill(os.getpid(), signal.SIGKILL)
        value = np.nan if BREAK == "nan" and self._is_last and self._num_steps > 50 else 0.0
        return np.full(3, value, np.float32), 1.0, False, self._num_steps % 20 == 0, {}

    def close(self):
        if self._simulator is not None:
            self._simulator.close()


register_env("broken", lambda name, cfg, placement, render_mode=None: BrokenEnv(placement))

if BREAK == "learner":
    import sample_profiler.ppo.trainer as trainer

    def break_training(self, micro_batches, num_valid):
        raise ValueError("broken learner")

    trainer.Trainer.train_minibatch = break_training

if BREAK == "end":
    from sample_profiler.components.learner import Learner

    Learner.finish = lambda self: os.kill(os.getpid(), signal.SIGKILL)

if BREAK == "inference":
    import sample_profiler.model as model

    def break_forward(self, core):
        raise ValueError("broken inference")

    model.ActorCritic.forward_tail = break_forward


class BrokenObserver(RunObserver):
    """Raises in the method that BREAK names, if that is one of an observer's."""

    def __getattribute__(self, name):
        if name == BREAK:
            return self.fail
        return super().__getattribute__(name)

    def fail(self, *_):
        raise ValueError(f"broken {BREAK}")


class LastObserver(RunObserver):
    def on_init(self, runner):
        self.runner = runner

    def on_summaries(self, _):
        """Wait as a write to a file system that has stalled, once."""
        if BREAK == "file_system" and not self.runner.reason and any(self.runner.statistics.trained_frames().values()):
            self.runner.interrupt("the file system has stalled")
            time.sleep(8)

    def on_stop(self, runner):
        assert runner is self.runner
        sys.stdout.write("another observer was told of the end\n")


if __name__ == "__main__":
    from sample_profiler import train

    sys.exit(train(observers=[BrokenObserver(), LastObserver()]))
