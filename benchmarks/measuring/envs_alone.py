"""One environment in our installation and in Sample Factory's, alone: how much of a difference is the simulator's."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.env_alone import make_family_config, measure_alone
from benchmarks.measuring.comparison import order_of_arms
from benchmarks.measuring.comparison_tasks import Task
from benchmarks.measuring.peer_runs import ROOT, prepare_python
from sample_profiler.runtime.machine import usable_cpus

__all__ = ["measure_both"]

_NUM_ROUNDS = 3
_NUM_ENVS = 8


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
