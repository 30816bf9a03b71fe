"""How fast environments step with random actions and nothing else, in our installation and in Sample Factory's.

The one is the limit of any training on them; the difference between the two is the simulator's.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

from benchmarks.measuring.frameworks.comparison import order_of_arms
from benchmarks.measuring.frameworks.comparison_tasks import Task
from benchmarks.measuring.frameworks.peer_runs import prepare_python
from benchmarks.measuring.machine.processes import run_processes
from benchmarks.measuring.runs.families import make_family_config
from harness.kept_lines import ROOT
from sample_profiler.config import Config
from sample_profiler.envs import EnvPlacement, export_registration, import_registration, inspect_env, make_env
from sample_profiler.runtime.machine.machine import usable_cpus

__all__ = ["measure_alone", "measure_both"]

_NUM_PREPARED_ACTIONS = 1024
_NUM_ROUNDS = 3
_NUM_ENVS = 8


@dataclass(frozen=True)
class _Task:
    cfg: Config
    registration: bytes
    seconds: float
    num_envs: int
    is_pinned: bool


def measure_alone(
    cfg: Config, seconds: float, num_processes: int, num_envs: int, is_pinned: bool = True
) -> list[float]:
    """Return the steps per second of each process.

    Args:
        cfg: of a run with the environment, which is registered.
        seconds: how long to measure.
        num_processes: that step at the same time.
        num_envs: environments in each process.
        is_pinned: whether each process stays on one core.
    """
    task = _Task(cfg, export_registration(cfg.run.env), seconds, num_envs, is_pinned)
    return run_processes(_step, task, num_processes)


def measure_both(task: Task, seconds: float, venvs: Path) -> dict[str, list[float]]:
    """Return steps per second of all cores together, several figures each, measured in turn.

    Args:
        task: with an environment that Sample Factory's installation has, too.
        seconds: for each figure.
        venvs: where frameworks are installed.
    """
    rates: dict[str, list[float]] = {"sample_factory": [], "ours": []}
    for number in range(_NUM_ROUNDS):
        for name in order_of_arms(list(rates), number):
            measure = _measure_peer if name == "sample_factory" else _measure_own
            rates[name].append(round(measure(task, seconds, venvs), 1))
    return rates


def _measure_own(task: Task, seconds: float, _: Path) -> float:
    return sum(measure_alone(make_family_config(task.env, task.flags), seconds, len(usable_cpus()), _NUM_ENVS))


def _measure_peer(task: Task, seconds: float, venvs: Path) -> float:
    program = ROOT / "benchmarks" / "peers" / "gym_alone.py"
    arguments = [str(task.peer_env), f"{seconds:g}", str(len(usable_cpus())), str(_NUM_ENVS)]
    command = [str(prepare_python("sample_factory", venvs)), str(program), *arguments]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return sum(map(float, found.stdout.split()))


def _step(task: _Task, index: int, barrier: Barrier) -> float:
    if task.is_pinned and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[index % len(cores)]})  # games started from here inherit it
    name = task.cfg.run.env
    import_registration(name, task.registration)
    envs = [
        make_env(name, task.cfg, EnvPlacement(worker_index=index, vector_index=i, env_id=i))
        for i in range(task.num_envs)
    ]
    spec = inspect_env(envs[0], name)
    spec.action_space.seed(index)
    is_single = spec.num_agents == 1
    samples = [[spec.action_space.sample() for _ in range(spec.num_agents)] for _ in range(_NUM_PREPARED_ACTIONS)]
    actions = [sample[0] for sample in samples] if is_single else samples
    for i, env in enumerate(envs):
        env.reset(seed=index * task.num_envs + i)
    barrier.wait()
    num_rounds, start = 0, time.perf_counter()
    while time.perf_counter() - start < task.seconds:
        for i, env in enumerate(envs):
            _, _, terminated, truncated, _ = env.step(actions[(num_rounds * 7 + i) % _NUM_PREPARED_ACTIONS])
            is_over = terminated or truncated if is_single else any(terminated) or any(truncated)
            if is_over:
                env.reset()
        num_rounds += 1
    seconds = time.perf_counter() - start
    for env in envs:
        env.close()
    return num_rounds * task.num_envs / seconds
