"""Starts real training commands for tests, and looks at what they leave behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import torch

from sample_profiler.runtime.processes.orphans import list_shared_memory, mapped_shared_memory

COLLECTED = re.compile(r"Collected (\{.*\}), FPS: ([\d.]+)$", re.MULTILINE)
CARTPOLE = ("sf_examples.gym.train_gym", "--env=CartPole-v1", "--num_workers=2", "--num_envs_per_worker=4")
SMALL = ("--rollout=16", "--batch_size=64", "--num_batches_per_epoch=1", "--num_epochs=1", "--encoder_mlp_layers", "16")
DOOM = (
    "sf_examples.vizdoom.train_vizdoom",
    *("--env=doom_basic", "--num_workers=2", "--num_envs_per_worker=2", "--rollout=8", "--batch_size=32"),
    *("--res_w=48", "--res_h=36", "--encoder_conv_architecture=convnet_atari", "--encoder_conv_mlp_layers", "16"),
    *("--rnn_size=16", "--decorrelate_envs_on_one_worker=False"),
)


def command(module: str, *flags: str, folder: Path, experiment: str = "run") -> list[str]:
    """Return the command line of a training module that writes below `folder`."""
    return [sys.executable, "-m", module, *flags, f"--train_dir={folder}", f"--experiment={experiment}"]


def run(
    module: str, *flags: str, folder: Path, experiment: str = "run", timeout_s: float = 100, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a training module to its end and return its output (both streams) and exit status."""
    return subprocess.run(
        command(module, *flags, folder=folder, experiment=experiment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **environment},
        check=False,
    )


@contextmanager
def live_run(module: str, *flags: str, folder: Path, log_name: str = "output.txt") -> Iterator[LiveRun]:
    """Start a training module; kill what is left of it in the end."""
    with running(command(module, *flags, folder=folder), folder / log_name, folder / "run") as live:
        yield live


@contextmanager
def running(words: list[str], log: Path, run_folder: Path, **environment: str) -> Iterator[LiveRun]:
    """Start a command that trains; kill what is left of it in the end."""
    with log.open("w") as file:
        process = subprocess.Popen(
            words, stdout=file, stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, **environment}
        )
    live = LiveRun(process, log, run_folder)
    try:
        yield live
    finally:
        for left in live.everybody():
            left.kill()
        process.kill()
        process.wait()


class LiveRun:
    """A training command that is running."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self._log = log
        self._seen: dict[int, psutil.Process] = {}

    @property
    def output(self) -> str:
        """What the run has printed so far."""
        return self._log.read_text()

    def everybody(self) -> list[psutil.Process]:
        """Return every process that the run has ever been seen to have and that still exists, zombies included."""
        try:
            for process in psutil.Process(self.process.pid).children(recursive=True):
                self._seen.setdefault(process.pid, process)
        except psutil.NoSuchProcess:
            pass
        return [process for process in self._seen.values() if process.is_running()]

    def wait_until_training(self, timeout_s: float = 60) -> None:
        """Wait until the Learner has saved a checkpoint after its first training steps, or the log shows progress."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            assert self.process.poll() is None, self.output
            self.everybody()
            if any(int(path.name.split("_")[1]) > 0 for path in self.folder.glob("checkpoint_p0/checkpoint_*.pth")):
                return
            time.sleep(0.1)
        raise AssertionError(f"no training within {timeout_s} s:\n{self.output}")

    def find(self, name: str) -> psutil.Process:
        """Return a component's process (`Learner_0`, `RolloutWorker_w0`, …), a `game`, or the `Runner`."""
        if name == "Runner":
            return psutil.Process(self.process.pid)
        if name == "game":
            return next(process for process in self.everybody() if process.name() == "vizdoom")
        pids = re.findall(rf"Started {name} as process (\d+)", self.output)
        return psutil.Process(int(pids[0]))

    def wait(self, timeout_s: float) -> int:
        """Wait for the end of the run and return its exit status."""
        return self.process.wait(timeout_s)

    def left_over(self, patience_s: float = 3.0) -> list[str]:
        """Return the processes that are left, waiting a little for those that are just ending."""
        deadline_s = time.monotonic() + patience_s
        while (left := [p for p in self.everybody() if _is_alive(p)]) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        return [f"{process.pid} {process.name()}" for process in left]


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def unused_shared_memory() -> set[str]:
    """Return the names under /dev/shm that no living process has mapped: left over, or about to be used."""
    return set(list_shared_memory()) - mapped_shared_memory(psutil.pids())


def left_shared_memory(before: set[str], patience_s: float = 3.0) -> set[str]:
    """Return the names that are unused now, were not before, and stay so: other programs make theirs meanwhile."""
    left = unused_shared_memory() - before
    deadline_s = time.monotonic() + patience_s
    while left and time.monotonic() < deadline_s:
        time.sleep(0.2)
        left &= unused_shared_memory()
    return left


def load_latest_checkpoint(folder: Path, policy: int = 0) -> dict[str, object]:
    """Load a run's newest checkpoint with the restricted unpickler."""
    paths = sorted((folder / f"checkpoint_p{policy}").glob("checkpoint_*.pth"))
    state: dict[str, object] = torch.load(paths[-1], weights_only=True)
    return state


def load_all_checkpoints(folder: Path) -> list[dict[str, object]]:
    """Load every checkpoint of a run with the restricted unpickler: the latest, the best and milestones.

    Raises:
        FileNotFoundError: there is none.
    """
    paths = sorted(folder.glob("checkpoint_p*/**/[!.]*.pth"))
    if not paths:
        raise FileNotFoundError(f"no checkpoint in {folder}")
    return [torch.load(path, weights_only=True) for path in paths]


def send(process: psutil.Process, number: signal.Signals) -> None:
    """Send a signal."""
    process.send_signal(number)
