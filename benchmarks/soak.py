"""Train for a long while and print whether the run stays as it was: its memory, its throughput, its files.

A soak is the ordinary training script in a process of its own. Every few seconds its frames are read from its record
files and the memory of all its processes is added up (proportional share: what they share counts once). Memory may
grow while everything is used for the first time; after that its slope is that of the least squares. Throughput is
compared between the first and the last sixth of the time. The exit status is 1 if memory grows by more than 1 MB a
minute, if throughput changes by more than 5 %, or if the run does not end well.

    python -m benchmarks.soak --task cartpole --minutes 60
    python -m benchmarks.soak --task doom_basic --minutes 60
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.measuring.peer_runs import measure_memory
from sample_profiler.errors import SessionError
from sample_profiler.profiling.session import read_session
from sample_profiler.runtime.machine import Machine

RESULTS = Path(__file__).parent / "results"
TASKS = {
    "cartpole": ("sf_examples.gym.train_gym", "--env=CartPole-v1"),
    "doom_basic": (
        *("sf_examples.vizdoom.train_vizdoom", "--env=doom_basic", "--num_workers=2", "--num_envs_per_worker=16"),
        *("--batch_size=2048", "--rollout=32"),
    ),
}
_INTERVAL_S = 10.0
_SETTLED = 1 / 12  # of the time; five minutes of an hour
_PART = 1 / 6
_SPARE_S = 120.0
_MOST_MB_PER_MINUTE = 1.0
_MOST_CHANGE = 0.05  # of throughput


@dataclass(frozen=True)
class Moment:
    """A look at a run: seconds since its start, frames trained on, MiB of all its processes, MiB of its folder."""

    time_s: float
    frames: float
    memory_mib: float
    folder_mib: float


def watch(command: Sequence[str], folder: Path, seconds: float) -> tuple[list[Moment], int]:
    """Run a command and look at it from time to time; return what was seen, and its exit status."""
    moments: list[Moment] = []
    log = folder / "output.txt"
    with log.open("w") as output:
        process = psutil.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        begin_s = time.monotonic()
        try:
            while process.poll() is None and time.monotonic() - begin_s < seconds + _SPARE_S:
                time.sleep(_INTERVAL_S)
                moments += look(process, folder / "run", log, time.monotonic() - begin_s)
            return moments, process.wait(_SPARE_S)
        finally:
            process.kill()


def look(process: psutil.Process, run_folder: Path, log: Path, time_s: float) -> list[Moment]:
    """Return how a run is now; nothing if that cannot be seen, as while it starts and ends."""
    try:
        session = read_session(run_folder)
    except SessionError:
        return []
    frames = [gauge.value for r in session.processes for name, gauge in r.gauges.items() if name == "Runner/frames"]
    memory = measure_memory(process, log)
    files_mib = sum(path.stat().st_size for path in run_folder.rglob("*") if path.is_file()) / 2**20
    return [Moment(time_s, frames[0], memory[0].total, files_mib)] if frames and frames[0] and memory else []


def slope_per_minute(moments: Sequence[Moment]) -> float:
    """Return the growth of memory in MiB a minute, by least squares."""
    return statistics.linear_regression([m.time_s / 60 for m in moments], [m.memory_mib for m in moments]).slope


def throughput(moments: Sequence[Moment]) -> float:
    """Return the frames a second between the first and the last of these."""
    return (moments[-1].frames - moments[0].frames) / (moments[-1].time_s - moments[0].time_s)


def evaluate(moments: Sequence[Moment]) -> dict[str, float]:
    """Return what a soak shows.

    Raises:
        SystemExit: it was too short.
    """
    begin_s, end_s = moments[0].time_s, moments[-1].time_s
    length_s = end_s - begin_s
    settled = [m for m in moments if m.time_s >= begin_s + _SETTLED * length_s]
    first = [m for m in moments if m.time_s <= begin_s + _PART * length_s]
    last = [m for m in moments if m.time_s >= end_s - _PART * length_s]
    if min(map(len, (settled, first, last))) < 2:
        raise SystemExit("too short to say anything: give more --minutes")
    return {
        "minutes": length_s / 60,
        "memory_mib": settled[0].memory_mib,
        "memory_mib_per_minute": slope_per_minute(settled),
        "first_fps": throughput(first),
        "last_fps": throughput(last),
        "last_to_first": throughput(last) / throughput(first),
        "files_mib": moments[-1].folder_mib,
    }


def find_problems(figures: Mapping[str, float]) -> list[str]:
    """Return what did not stay as it was, in words.

    Args:
        figures: from `evaluate`.
    """
    problems = []
    growth_mb = figures["memory_mib_per_minute"] * 2**20 / 1e6
    if growth_mb > _MOST_MB_PER_MINUTE:
        problems.append(f"memory grows by {growth_mb:.2f} MB a minute, more than {_MOST_MB_PER_MINUTE:g}")
    if abs(figures["last_to_first"] - 1) > _MOST_CHANGE:
        problems.append(
            f"throughput at last is {figures['last_to_first']:.3f} of that at first, more than {_MOST_CHANGE:.0%} off"
        )
    return problems


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, and keep what was seen; the exit status is 1 if anything is not as it has to be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, required=True, help="what is trained")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of soak-TASK.json")
    options = parser.parse_args(argv)
    seconds = options.minutes * 60
    with tempfile.TemporaryDirectory(prefix="sample_profiler_soak_") as name:
        folder = Path(name)
        command = [sys.executable, "-m", *TASKS[options.task], f"--train_dir={folder}", "--experiment=run"]
        moments, status = watch([*command, f"--train_for_seconds={seconds}"], folder, seconds)
        if status:
            print(f"ended with status {status}:\n{(folder / 'output.txt').read_text()[-3000:]}")
    if len(moments) < 2:
        raise SystemExit("too short to say anything: give more --minutes")
    figures = evaluate(moments)
    points = [[round(m.time_s), m.frames, round(m.memory_mib, 1), round(m.folder_mib, 1)] for m in moments]
    document = {"machine": Machine.this().to_dict(), "task": options.task, "figures": figures, "points": points}
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / f"soak-{options.task}.json").write_text(json.dumps(document) + "\n")
    print(
        f"{options.task}, {figures['minutes']:.0f} minutes: memory {figures['memory_mib']:,.0f} MiB, "
        f"{figures['memory_mib_per_minute']:+.2f} MiB a minute; {figures['first_fps']:,.0f} frames/s at first, "
        f"{figures['last_fps']:,.0f} at last: {figures['last_to_first']:.3f}; files {figures['files_mib']:,.0f} MiB"
    )
    problems = find_problems(figures)
    for problem in problems:
        print(f"FAILED: {problem}")
    return int(status != 0 or bool(problems))


if __name__ == "__main__":
    sys.exit(main())
