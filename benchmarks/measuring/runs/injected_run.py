"""Train CartPole-v1, or HalfCheetah-v5, with one thing made slow on purpose: for checks of what we say about runs.

What is slowed is said in the environment variable INJECTED as JSON; times are milliseconds of sleep, so that only the
one component becomes slower, not the machine. "computes" says which share of them is processor time instead, as where
there is more to do: 1 is all of it. "inference_row_ms" is for each row of a batch of inference. "env_every" slows the
first of so many environments alone, "rare_share" so many of the steps, by "rare_ms".

Steps may wait for something else: "disk_kib" are written and synced, an answer over TCP takes "network_ms". They may
compute with so many "torch_threads" or "blas_threads". "observer_ms" slows an observer, "all_reduce_ms" each time that
ranks add up, and "cores" and "quota_cores" are what the run may use of the processors.

The environment variable INJECTED_SWITCH may name a file: only while its first byte is not 0 something is slow, and then
in a block of its own, "injected", in the tree of whoever is.
"""

from __future__ import annotations

import functools
import json
import mmap
import os
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from benchmarks.measuring.machine.confinement import confined
from sample_profiler import RunObserver, get_timing, register_encoder, register_env, train

INJECTED: dict[str, float] = json.loads(os.environ.get("INJECTED", "{}"))


def _open_switch() -> mmap.mmap | None:
    path = os.environ.get("INJECTED_SWITCH")
    if not path:
        return None
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)


SWITCH = _open_switch()
_MATRIX = 192  # rows and columns: some 10 million multiplications
_SLOWED = {"slowed_cartpole": "CartPole-v1", "slowed_halfcheetah": "HalfCheetah-v5"}


def spend(milliseconds: float) -> None:
    """Compute, then sleep, for so long together; unless that is switched off."""
    if SWITCH is None:
        _spend(milliseconds)
    elif SWITCH[0]:
        with get_timing().add_time("injected"):
            _spend(milliseconds)


def _spend(milliseconds: float) -> None:
    computes = INJECTED.get("computes", 0.0)
    end_ns = time.thread_time_ns() + round(computes * milliseconds * 1e6)
    while time.thread_time_ns() < end_ns:
        pass
    if computes < 1:
        time.sleep((1 - computes) * milliseconds / 1000)


def _answer_slowly(server: socket.socket) -> None:
    """Answer each byte of one client after a while."""
    connection, _ = server.accept()
    with server, connection:
        while connection.recv(1):
            time.sleep(INJECTED["network_ms"] / 1000)
            connection.sendall(b"a")


def _connect() -> socket.socket:
    server = socket.create_server(("127.0.0.1", 0))
    address = server.getsockname()
    threading.Thread(target=_answer_slowly, args=(server,), daemon=True).start()
    return socket.create_connection(address)


class SlowedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Sleeps in each step, or waits for something else, or computes with many threads."""

    def __init__(self, env: gymnasium.Env[Any, Any], sleep_ms: float) -> None:
        super().__init__(env)
        self._sleep_ms = sleep_ms
        self._file = tempfile.TemporaryFile(buffering=0) if INJECTED.get("disk_kib") else None  # noqa: SIM115
        self._server = _connect() if INJECTED.get("network_ms") else None
        self._random = random.Random(os.getpid())
        self._matrix = np.full((_MATRIX, _MATRIX), 1.0, dtype=np.float32)

    def step(self, action: Any) -> Any:
        """Do what is slow, then step."""
        if self._sleep_ms:
            spend(self._sleep_ms)
        if self._random.random() < INJECTED.get("rare_share", 0.0):
            spend(INJECTED["rare_ms"])
        if self._file is not None:
            self._file.write(bytes(round(1024 * INJECTED["disk_kib"])))
            os.fsync(self._file.fileno())
        if self._server is not None:
            self._server.sendall(b"q")
            self._server.recv(1)
        if INJECTED.get("blas_threads"):
            self._matrix @ self._matrix
        if INJECTED.get("torch_threads"):
            import torch

            torch.set_num_threads(int(INJECTED["torch_threads"]))
            torch.mm(*[torch.from_numpy(self._matrix)] * 2)
        return self.env.step(action)

    def close(self) -> None:
        """Let go of the file and the server."""
        for each in (self._file, self._server):
            if each is not None:
                each.close()
        super().close()


class SlowObserver(RunObserver):
    """Sleeps after each training step."""

    def on_training_step(self, runner: Any, iteration: int) -> None:  # noqa: ARG002 (as observers are called)
        """Sleep."""
        time.sleep(INJECTED["observer_ms"] / 1000)


@functools.cache
def slow_adding_up() -> None:
    """Let each time that ranks add up take longer in this process."""
    from torch.distributed import ProcessGroupGloo

    usual = ProcessGroupGloo.allreduce  # type: ignore[attr-defined]

    def allreduce(group: Any, *arguments: Any) -> Any:
        spend(INJECTED["all_reduce_ms"])
        return usual(group, *arguments)

    ProcessGroupGloo.allreduce = allreduce  # type: ignore[attr-defined]


def make_slowed_env(name: str, _cfg: Any, placement: Any, render_mode: str | None = None) -> Any:
    """Make one environment, as slow as it is to be where it runs."""
    sleep_ms = INJECTED.get("env_ms", 0.0)
    if placement is not None and placement.env_id % INJECTED.get("env_every", 1):
        sleep_ms = 0.0
    if placement is not None and placement.env_id == INJECTED.get("one_env", -1):
        sleep_ms += INJECTED["one_env_ms"]
    if placement is not None and placement.worker_index == INJECTED.get("one_worker", -1):
        sleep_ms += INJECTED["one_worker_ms"]
    if placement is not None and placement.worker_index >= INJECTED.get("slow_workers_from", float("inf")):
        sleep_ms += INJECTED["slow_workers_ms"]
    return SlowedEnv(gymnasium.make(_SLOWED[name], render_mode=render_mode), sleep_ms)


def make_slowed_encoder(cfg: Any, observation_space: gymnasium.spaces.Dict) -> Any:
    """Make the usual encoder, slowed where the policy acts or where it learns."""
    import torch

    from sample_profiler.model.encoders import ObservationEncoder

    if INJECTED.get("all_reduce_ms"):
        slow_adding_up()

    class SlowedEncoder(ObservationEncoder):
        """Sleeps before it computes."""

        def forward(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
            is_learning = torch.is_grad_enabled()
            if is_learning and INJECTED.get("learner_threads"):
                torch.set_num_threads(int(INJECTED["learner_threads"]))
            sleep_ms = INJECTED.get("learner_ms" if is_learning else "inference_ms", 0.0)
            if torch.is_inference_mode_enabled():  # the Learner asks for values, too
                sleep_ms += INJECTED.get("inference_row_ms", 0.0) * len(next(iter(observations.values())))
            if sleep_ms:
                spend(sleep_ms)
            return super().forward(observations)

    return SlowedEncoder(dict(observation_space.spaces), cfg.model)


for slowed in _SLOWED:
    register_env(slowed, make_slowed_env)
if INJECTED.keys() & {"learner_ms", "inference_ms", "inference_row_ms", "learner_threads", "all_reduce_ms"}:
    register_encoder(make_slowed_encoder)

if __name__ == "__main__":
    if INJECTED.get("blas_threads"):
        os.environ["OPENBLAS_NUM_THREADS"] = str(int(INJECTED["blas_threads"]))
    observers = [SlowObserver()] if INJECTED.get("observer_ms") else []
    defaults = {"env": "slowed_cartpole", "use_rnn": False, "encoder_mlp_layers": (256, 256)}
    with confined(int(INJECTED.get("cores", 0)), INJECTED.get("quota_cores", 0.0)):
        status = train(defaults=defaults, observers=observers)
    sys.exit(status)
