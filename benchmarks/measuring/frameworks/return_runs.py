"""Makes one run until it is good enough, of any framework, in fresh processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.learning import read_curve
from benchmarks.measuring.frameworks.return_tasks import ReturnTask
from benchmarks.measuring.machine.process_tree import signal_tree
from harness.kept_lines import ROOT
from sample_profiler.run_folder import RunFolder

__all__ = ["Installation", "make_return_run"]

_PEERS = ROOT / "benchmarks" / "peers"
_PROGRAMS = {
    "sb3": "sb3_return.py",
    "sbx": "sb3_return.py",
    "sample_factory": "sample_factory_return.py",
    "cleanrl": "cleanrl_return.py",
}
_SPARE_S = 120.0  # for starting and ending


@dataclass(frozen=True)
class Installation:
    """Where a framework is.

    Attributes:
        python: that has it.
        folder: of its scripts, if these are what is run.
    """

    python: str = sys.executable
    folder: Path = ROOT


def make_return_run(task: ReturnTask, framework: str, seed: int, installation: Installation) -> dict[str, Any]:
    """Train once, and return when that was good enough.

    Returns:
        `seconds` since the start of the process and `frames`, until then or until the end, `is_reached`, `wall_s` of
        the whole run, `load` before it (running processes, over a minute), and `curve`, a list of
        `[frames, seconds, mean return]`.

    Raises:
        SystemExit: it failed.
    """
    folder, load = Path(tempfile.mkdtemp(prefix="sample_profiler_return_")), os.getloadavg()[0]
    try:
        begin_s = time.time()
        make = _own_command if framework == "ours" else _peer_command
        _execute(make(task, framework, seed, installation, folder), task.seconds + _SPARE_S, folder)
        wall_s = time.time() - begin_s
        seen = _read_own(folder, begin_s) if framework == "ours" else json.loads((folder / "told.json").read_text())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {**seen, "wall_s": round(wall_s, 1), "load": load}


def _own_command(task: ReturnTask, _: str, seed: int, installation: Installation, folder: Path) -> list[str]:
    threshold = f"{task.ours.threshold:g}"
    until = [f"--thresholds={threshold}", f"--stop_at={threshold}", f"--train_for_seconds={task.seconds:g}"]
    place = [f"--seed={seed}", f"--train_dir={folder}", "--experiment=run", "--experiment_summaries_interval=2"]
    return [installation.python, "-m", task.ours.module, *task.ours.flags, *until, *place]


def _peer_command(task: ReturnTask, framework: str, seed: int, installation: Installation, folder: Path) -> list[str]:
    words = [str(folder / "told.json"), f"{task.ours.threshold:g}", f"{task.seconds:g}", str(seed)]
    flags = list(task.peers[framework])
    if framework == "cleanrl":
        flags[0] = str(installation.folder / flags[0])
    return [installation.python, str(_PEERS / _PROGRAMS[framework]), *words, *flags]


def _execute(command: Sequence[str], most_s: float, folder: Path) -> None:
    log = folder / "output.txt"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with log.open("w") as output:
        environment["BENCHMARK_BEGAN"] = repr(time.time())
        process = psutil.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            status: object = process.wait(timeout=most_s)
        except subprocess.TimeoutExpired:
            status = "none: it did not end"
        finally:
            signal_tree(process, signal.SIGKILL)
    if status:
        said = log.read_text(errors="replace")[-3000:]
        raise SystemExit(f"{' '.join(command)} ended with status {status}; the end of what it said:\n{said}")


def _read_own(folder: Path, begin_s: float) -> dict[str, Any]:
    run = RunFolder(folder / "run")
    benchmark = json.loads(run.benchmark.read_text())
    (entry,) = benchmark["thresholds"]
    is_reached = entry["frames"] is not None
    return {
        "seconds": round(entry["process_s"] if is_reached else benchmark["process_s"], 3),
        "frames": entry["frames"] if is_reached else benchmark["frames"]["0"],
        "is_reached": is_reached,
        "curve": read_curve(run.summary_of(0), begin_s),
    }
