"""A training script of a user whose environment 3 leaks, in the way that LEAK names. Run by test_lack_of_memory.py."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler import register_env

LEAK = os.environ["LEAK"]
LIMIT = int(os.environ.get("LIMIT_MIB", "0")) << 20  # of addresses, of the worker alone
CHUNK = int(os.environ.get("CHUNK_MIB", "32")) << 20
SIMULATOR = "import sys; kept = [b'x' * (32 << 20) for line in iter(sys.stdin.readline, '') if not print(flush=True)]"


class LeakingEnv(gymnasium.Env):
    def __init__(self, placement) -> None:
        self.observation_space = spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._leaks = placement is not None and placement.env_id == 3
        self._num_steps = 0
        self._kept: list[object] = []
        self._simulator = None
        if self._leaks and LIMIT:
            resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
        if self._leaks and LEAK == "simulator":
            command = [sys.executable, "-c", SIMULATOR]
            self._simulator = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
            )

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self._num_steps += 1
        if self._leaks and self._num_steps > 100:
            self._leak()
        return np.zeros(3, np.float32), 1.0, False, self._num_steps % 20 == 0, {}

    def _leak(self):
        try:
            if self._simulator is not None:
                with contextlib.suppress(BrokenPipeError):
                    self._simulator.stdin.write(b"step\n")
                if not self._simulator.stdout.readline():
                    raise ConnectionError("the simulator is gone")
            elif LEAK == "arrays":
                self._kept.append(np.ones(CHUNK // 8))
            else:
                self._kept.append(bytearray(b"x") * CHUNK)
        except MemoryError:
            if LEAK == "abort":  # as libraries in C++ do that nobody catches std::bad_alloc of
                os.abort()
            if LEAK == "segfault":
                ctypes.memset(0, 0, 1)
            raise


register_env("leaking", lambda name, cfg, placement, render_mode=None: LeakingEnv(placement))

if LEAK == "batcher_first":
    from sample_profiler.components.batcher import Batcher

    start = Batcher.start

    def start_as_first_victim(self: Batcher) -> None:
        """Have the kernel end this process first, which has so little that another one has to follow at once."""
        Path("/proc/self/oom_score_adj").write_text("1000")
        start(self)

    Batcher.start = start_as_first_victim  # type: ignore[method-assign]


if __name__ == "__main__":
    from sample_profiler import train

    sys.exit(train())
