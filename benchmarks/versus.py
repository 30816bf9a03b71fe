"""Compare our throughput with that of Sample Factory and Stable-Baselines3, on the same work.

Frameworks are installed in virtual environments of their own and take turns (forth, back, forth, …), each run in fresh
processes with nothing else running. Frames are counted when they have been trained on. A run that is there is not made
again, so an interrupted comparison goes on where it stopped; give another `--output` to begin anew.

    python -m benchmarks.versus --tasks doom cartpole --rounds 5 --seconds 120
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmarks.measuring.comparison import Run, append, make_run, order_of_arms, read_runs, summarize
from benchmarks.measuring.comparison_tasks import SCENARIO, TASKS, Arm, Task
from sample_profiler.runtime.machine import Machine

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PEERS = Path(__file__).parent / "peers"

_LEAST_SECONDS = 120.0
_LEAST_ROUNDS = 5
_SPARE_S = 180.0  # for starting and ending
_PACKAGES = {
    "sample_factory": ("torch==2.13.0", "sample-factory==2.1.1", "vizdoom", "mujoco==2.3.7"),
    "sb3": ("torch==2.13.0", "stable-baselines3", "gymnasium>=1.0"),
}
_VENVS = {"sample_factory": "sf", "sb3": "sb3"}


def prepare_python(framework: str, venvs: Path) -> Path:
    """Return the interpreter that has a framework, after installing it if it is not there."""
    if framework == "own":
        return Path(sys.executable)
    folder = venvs / _VENVS[framework]
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"installing {', '.join(_PACKAGES[framework])}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *_PACKAGES[framework]], check=True)
    return python


def find_scenario(python: Path) -> str:
    """Return the path of the original's battle.cfg, in the installation of Sample Factory."""
    locate = "import sf_examples.vizdoom.doom as d; print(d.__path__[0])"
    found = subprocess.run([python, "-c", locate], check=True, capture_output=True, text=True, cwd="/")
    return str(Path(found.stdout.strip()) / "scenarios" / "battle.cfg")


def make_command(task: Task, arm: Arm, seconds: float, folder: Path, venvs: Path) -> list[str]:
    """Return the command line of a run that writes its points to `folder/points.json`."""
    python, output = prepare_python(arm.framework, venvs), str(folder / "points.json")
    if arm.framework == "sb3":
        return [str(python), str(PEERS / "sb3_run.py"), output, f"{seconds:g}"]
    program = ["-m", "benchmarks.peers.own_run"]
    if arm.framework == "sample_factory":
        program = [str(PEERS / "sample_factory_run.py")]
    flags = [*task.flags, *arm.flags]
    if any(SCENARIO in flag for flag in flags):
        scenario = find_scenario(prepare_python("sample_factory", venvs))
        flags = [flag.replace(SCENARIO, scenario) for flag in flags]
    until = [f"--train_for_seconds={seconds:.0f}", "--train_for_env_steps=1000000000"]
    # First, since a list of numbers may be the last flag of a task.
    own = [f"--train_dir={folder}", "--experiment=run", "--seed=1", *until]
    return [str(python), *program, output, task.family, *own, *flags]


def execute(name: str, number: int, command: Sequence[str], seconds: float, folder: Path) -> Run:
    """Make one run.

    Raises:
        SystemExit: it failed.
    """
    load = os.getloadavg()[0]
    environment = {**os.environ, "BENCHMARK_BEGAN": repr(time.time())}
    with (folder / "log.txt").open("w") as log:
        process = psutil.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
        memory: list[float] = []
        timer = threading.Timer(seconds * 0.6, lambda: memory.append(measure_memory_mib(process)))
        timer.start()
        try:
            status = process.wait(timeout=seconds + _SPARE_S)
        finally:
            timer.cancel()
            for left in [*process.children(recursive=True), process] if process.is_running() else []:
                left.kill()
    points = folder / "points.json"
    if status or not points.exists():
        text = (folder / "log.txt").read_text()
        raise SystemExit(f"{name} ended with status {status}; the end of what it said:\n{text[-3000:]}")
    return make_run(name, number, json.loads(points.read_text()), memory[0] if memory else 0.0, load)


def measure_memory_mib(process: psutil.Process) -> float:
    """Return the memory of a process and all its descendants; what they share counts once."""
    total = 0.0
    for member in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):  # it has just ended
            total += member.memory_full_info().pss
    return total / 2**20


def read_limits(path: Path) -> dict[str, float]:
    """Return the composed limits that `benchmarks.limit` found, in frames per second by arm."""
    return {arm: parts["limit"] for arm, parts in json.loads(path.read_text()).items()} if path.exists() else {}


def main(argv: Sequence[str] | None = None) -> int:
    """Make the runs that are not there yet, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="what is compared")
    parser.add_argument("--arms", nargs="+", help="compare these alone; default: all of a task")
    parser.add_argument("--rounds", type=int, default=_LEAST_ROUNDS, help="runs of each arm")
    parser.add_argument("--seconds", type=float, default=_LEAST_SECONDS, help="how long each run trains")
    parser.add_argument("--venvs", type=Path, default=ROOT / "build" / "versus", help="where frameworks are installed")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of versus-TASK.jsonl and versus-TASK.md")
    options = parser.parse_args(argv)
    if options.rounds < _LEAST_ROUNDS or options.seconds < _LEAST_SECONDS:
        print(f"Less than {_LEAST_ROUNDS} rounds of {_LEAST_SECONDS:g} s are a trial, not a result.", flush=True)
    for name in options.tasks:
        task, path = TASKS[name], options.output / f"versus-{name}.jsonl"
        arms = [arm for arm in task.arms if options.arms is None or arm in options.arms]
        for number in range(options.rounds):
            for arm in order_of_arms(arms, number):
                if any(run.arm == arm and run.round == number for run in read_runs(path)):
                    continue
                folder = Path(tempfile.mkdtemp(prefix="sample_profiler_versus_"))
                try:
                    command = make_command(task, task.arms[arm], options.seconds, folder, options.venvs.absolute())
                    run = execute(arm, number, command, options.seconds, folder)
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
                append(path, run)
                print(f"{name}, round {number}, {arm}: steady {run.steady:,.0f}, whole {run.whole:,.0f}", flush=True)
        table = summarize(read_runs(path), arms, read_limits(options.output / f"limit-{name}.json"))
        machine = ", ".join(f"{key} {value}" for key, value in Machine.this().to_dict().items())
        text = f"# {name}\n\n`{' '.join(task.flags)}`\n\n{machine}; {options.seconds:g} s a run.\n\n{table}\n"
        path.with_suffix(".md").write_text(text)
        print(f"\n{text}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
