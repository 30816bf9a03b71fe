"""A training script whose environment does to its process what SPOIL names. Run by test_spoiled_processes.py."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import gc
import io
import locale
import logging.config
import multiprocessing
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler import register_env, train

SPOIL = os.environ.get("SPOIL", "")
FOREVER_S = 1000


@functools.cache
def change_settings():
    """Everything at once that the environment can change of its process, and that ends nothing; once in each."""
    folder = tempfile.mkdtemp(dir=os.getcwd())
    os.chdir(folder)
    os.umask(0o777)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    signal.setitimer(signal.ITIMER_REAL, 3)
    os.environ |= {"TZ": "ABC-7", "OMP_NUM_THREADS": "7", "LC_ALL": "C"}
    time.tzset()
    locale.setlocale(locale.LC_ALL, "C")
    logging.config.dictConfig({"version": 1, "root": {"level": "CRITICAL"}})
    logging.disable(logging.CRITICAL)
    sys.stdout = io.StringIO()
    warnings.simplefilter("error")
    np.seterr(all="raise")
    sys.setrecursionlimit(400)
    sys.setswitchinterval(10)
    gc.disable()
    random.seed(0)
    os.nice(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    time.monotonic = time.perf_counter = lambda: 5.0
    with contextlib.suppress(OSError):
        os.close(0)


def leave_thread():
    threading.Thread(target=time.sleep, args=(FOREVER_S,), name="left").start()


def leave_process():
    context = multiprocessing.get_context("fork")
    context.Process(target=time.sleep, args=(FOREVER_S,), name="left").start()


def hang_at_exit():
    atexit.register(time.sleep, FOREVER_S)


def close_streams():
    for number in range(3):
        with contextlib.suppress(OSError):  # the second environment
            os.close(number)


def redirect_output():
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def kill_group():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def reap_children():
    """As a simulator that waits for whichever of its processes ends first."""
    process = subprocess.Popen(["true"])
    os.waitpid(-1, 0)
    process.returncode = 0


def hang():
    time.sleep(FOREVER_S)


def hang_without_letting_go():
    """As native code that holds the interpreter's lock."""
    import ctypes

    ctypes.PyDLL(None).sleep(FOREVER_S)


def hang_and_catch_everything():
    while True:
        with contextlib.suppress(Exception):
            time.sleep(FOREVER_S)


def exit_at_once():
    os._exit(3)


def exit_in_order():
    sys.exit(4)


def interrupt():
    raise KeyboardInterrupt("by the environment")


def ask():
    input("Which level? ")


def leave_simulator():
    subprocess.Popen(["sleep", str(FOREVER_S)])


def change_torch():
    import torch

    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)


def alarm():
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def remove_folder():
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


def start_session():
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.setpgid(0, 0) if os.getsid(0) != os.getpid() else None


@functools.cache
def fork_and_exit():
    if os.fork() == 0:
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 3


def fork_and_raise():
    if os.fork() == 0:
        raise ValueError("the copy fails")
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 1


@functools.cache
def fork_and_return():
    if os.fork() == 0:
        return
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0


@functools.cache
def close_all_files():
    """As libraries do that make daemons."""
    os.closerange(3, 256)


def end_own_process():
    """As a vector of environments does, or who starts its simulator anew."""
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(FOREVER_S,))
    process.start()
    process.terminate()
    process.join()


def cancel():
    raise asyncio.CancelledError("by a loop of the environment's own")


def panic():
    class PanicError(BaseException):
        """As code in Rust raises."""

    raise PanicError("of a simulator")


def say_too_much():
    raise ValueError("x" * 30_000_000)


def lower_limits():
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_DATA):
        resource.setrlimit(limit, (0, resource.getrlimit(limit)[1]))


def spoil_precision():
    if torch := sys.modules.get("torch"):
        torch.set_float32_matmul_precision("medium")
        torch.autocast("cpu").__enter__()


@functools.cache
def start_simulator():
    """Start what answers in this process's own group, so that Ctrl+C reaches both."""
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def ask_simulator():
    simulator = start_simulator()
    simulator.stdin.write(b"step\n")
    simulator.stdin.flush()
    if not simulator.stdout.readline():
        raise RuntimeError("the simulator is gone")


@functools.cache
def close_all_files_and_open_others():
    """As a program that becomes a daemon, and then talks to others: under the numbers is something else then."""
    os.closerange(3, 256)
    return [socket.socketpair() for _ in range(60)]


def fail_in_del():
    class Fails:
        def __del__(self):
            raise ValueError("of no use to anybody")

    Fails()
    del Fails


SPOILERS = {name: value for name, value in vars().copy().items() if callable(value) and not name.startswith("_")}


class SpoilingEnv(gymnasium.Env):
    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, placement) -> None:
        self._is_probed = placement is None
        self._spoil("constructor")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._num_steps = 0
        self._spoil("reset")
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self._num_steps += 1
        self._spoil("step")
        return np.full(4, self._num_steps, np.float32), 1.0, False, self._num_steps >= 20, {}

    def close(self):
        self._spoil("close")

    def _spoil(self, where: str) -> None:
        for deed in SPOIL.split():
            wanted, _, what = deed.partition(":")
            if wanted.removeprefix("worker_") == where and not (wanted.startswith("worker_") and self._is_probed):
                SPOILERS[what]()


register_env("spoiling", lambda _, __, placement, render_mode=None: SpoilingEnv(placement))

if __name__ == "__main__":
    raise SystemExit(train())
