"""Makes runs of any framework, each in processes of its own, and measures their memory from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.measuring.frameworks.comparison import Points
from benchmarks.measuring.frameworks.comparison_tasks import SCENARIO, Arm, Task
from benchmarks.measuring.machine.process_tree import signal_tree
from harness.kept_lines import ROOT

__all__ = [
    *("RESULTS", "VENVS", "Measured", "Memory", "fill_scenario", "make_command"),
    *("prepare_python", "read_versions", "run_command"),
]

RESULTS = ROOT / "benchmarks" / "results"
VENVS = ROOT / "build" / "versus"

_PEERS = ROOT / "benchmarks" / "peers"
_SPARE_S = 180.0  # for starting and ending
_MOMENT_OF_MEMORY = 0.9  # of the seconds a run trains: it has its final size, and nothing has ended yet
_PACKAGES = {
    # gymnasium 0.29.1, which Sample Factory wants, imports imageio for MuJoCo's environments without asking for it.
    "sample_factory": ("torch==2.13.0", "sample-factory==2.1.1", "vizdoom", "mujoco==2.3.7", "imageio"),
    "sb3": ("torch==2.13.0", "stable-baselines3", "gymnasium>=1.4,<1.5"),
}
_FOLDERS = {"sample_factory": "sf", "sb3": "sb3"}
_VERSIONS_OF = ("torch", "numpy", "gymnasium", "vizdoom", "mujoco", "sample-factory", "stable-baselines3")
_WORKER_PIDS = re.compile(r"(?:Started RolloutWorker_\w+ as process|ROLLOUT worker \d+\s+pid) (\d+)")


@dataclass(frozen=True)
class Memory:
    """What the processes of a run have taken at one moment, in MiB.

    Attributes:
        total: proportional share of all processes together: what they share counts once.
        workers: of each rollout worker, without its environments' own processes: proportional share, and what is its
            alone.
        games: proportional share of all processes that rollout workers have started.
    """

    total: float
    workers: tuple[tuple[float, float], ...]
    games: float


@dataclass(frozen=True)
class Measured:
    """What was seen of a run.

    Attributes:
        points: frames trained on against time.
        memory: near the end; None if the run was over before.
        load: average number of running processes before the run, over a minute.
    """

    points: Points
    memory: Memory | None
    load: float


def prepare_python(framework: str, venvs: Path) -> Path:
    """Return the interpreter that has a framework, after installing it if it is not there."""
    if framework == "own":
        return Path(sys.executable)
    folder = venvs.absolute() / _FOLDERS[framework]
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    # Packages and not the folder: an installation that was interrupted, or lacks one of them, is completed.
    have = _read_all_versions(python)
    if missing := [package for package in _PACKAGES[framework] if re.split("[=<>]", package)[0] not in have]:
        print(f"installing {', '.join(missing)} for {framework}", flush=True)
        # All of them, so that what is there keeps the versions it has to have.
        subprocess.run([python, "-m", "pip", "install", "-q", *_PACKAGES[framework]], check=True)
    return python


def read_versions(python: Path) -> dict[str, str]:
    """Return the versions of an interpreter and of the packages in it that matter."""
    versions = _read_all_versions(python)
    return {name: versions[name] for name in ("python", *_VERSIONS_OF) if name in versions}


def _read_all_versions(python: Path) -> dict[str, str]:
    program = (
        "import importlib.metadata as m, json, platform; "
        "have = {d.metadata['Name'].lower().replace('_', '-'): d.version for d in m.distributions()}; "
        "print(json.dumps({'python': platform.python_version(), **have}))"
    )
    found = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True, cwd="/")
    versions: dict[str, str] = json.loads(found.stdout)
    return versions


def fill_scenario(flags: Sequence[str], venvs: Path) -> list[str]:
    """Return flags with the path of the original's battle.cfg, which lies in the installation of Sample Factory."""
    if not any(SCENARIO in flag for flag in flags):
        return list(flags)
    locate = "import importlib.util as u; print(u.find_spec('sf_examples').submodule_search_locations[0])"
    python = prepare_python("sample_factory", venvs)
    found = subprocess.run([python, "-c", locate], check=True, capture_output=True, text=True, cwd="/")
    scenario = str(Path(found.stdout.strip(), "vizdoom", "doom", "scenarios", "battle.cfg"))
    return [flag.replace(SCENARIO, scenario) for flag in flags]


def make_command(task: Task, arm: Arm, flags: Sequence[str], seconds: float, folder: Path, venvs: Path) -> list[str]:
    """Return the command line of a run that writes its points to `folder/points.json`.

    Args:
        task: what is trained.
        arm: with what.
        flags: of the task and the arm, and more if there are.
        seconds: how long it trains.
        folder: for its files.
        venvs: where frameworks are installed.
    """
    python, output = str(prepare_python(arm.framework, venvs)), str(folder / "points.json")
    if arm.framework == "sb3":
        return [python, str(_PEERS / "sb3_run.py"), output, f"{seconds:g}", *flags]
    program = ["-m", "benchmarks.peers.own_run"]
    if arm.framework == "sample_factory":
        program = [str(_PEERS / "sample_factory_run.py")]
    until = [f"--train_for_seconds={seconds:.0f}", "--train_for_env_steps=1000000000"]
    # First, since a list of numbers may be the last flag of a task.
    place = [f"--train_dir={folder}", "--experiment=run", "--seed=1", *until]
    return [python, *program, output, task.family, *place, *fill_scenario(flags, venvs)]


def run_command(name: str, task: Task, arm: Arm, flags: Sequence[str], seconds: float, venvs: Path) -> Measured:
    """Make one run and return what was seen of it; its files are gone afterwards.

    Raises:
        SystemExit: it failed.
    """
    with _temporary_folder() as folder:
        command = make_command(task, arm, flags, seconds, folder, venvs)
        return _execute(name, command, seconds, folder)


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sample_profiler_versus_"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _execute(name: str, command: Sequence[str], seconds: float, folder: Path) -> Measured:
    load, log = os.getloadavg()[0], folder / "output.txt"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    memory: list[Memory] = []
    with log.open("w") as output:
        environment["BENCHMARK_BEGAN"] = repr(time.time())
        process = psutil.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        timer = threading.Timer(seconds * _MOMENT_OF_MEMORY, lambda: memory.extend(measure_memory(process, log)))
        timer.start()
        try:
            status = process.wait(timeout=seconds + _SPARE_S)
        except subprocess.TimeoutExpired:
            status = "none: it did not end"
        finally:
            timer.cancel()
            signal_tree(process, signal.SIGKILL)
    points = folder / "points.json"
    if status or not points.exists():
        raise SystemExit(f"{name} ended with status {status}; the end of what it said:\n{log.read_text()[-3000:]}")
    return Measured(json.loads(points.read_text()), memory[0] if memory else None, load)


def measure_memory(process: psutil.Process, log: Path) -> list[Memory]:
    """Return the memory of a process and all its descendants; nothing if it has ended meanwhile."""
    pids_of_workers = {int(pid) for pid in _WORKER_PIDS.findall(log.read_text(errors="replace"))}
    with contextlib.suppress(psutil.Error):
        members = [process, *process.children(recursive=True)]
        sizes = {member.pid: _size_mib(member) for member in members}
        workers = [member for member in members if member.pid in pids_of_workers]
        games = {game.pid for worker in workers for game in worker.children(recursive=True)}
        total = sum(share for share, _ in sizes.values())
        return [
            Memory(total, tuple(sizes[w.pid] for w in workers), sum(sizes[pid][0] for pid in games if pid in sizes))
        ]
    return []


def _size_mib(process: psutil.Process) -> tuple[float, float]:
    with contextlib.suppress(psutil.Error):  # it has just ended
        size = process.memory_full_info()
        return size.pss / 2**20, size.uss / 2**20
    return 0.0, 0.0
