"""Kills RolloutWorkers of a run at random moments, again and again, and looks whether it always goes on.

The run is CartPole with three workers. As soon as a killed one is replaced and its successor has worked for a while,
one of the three is killed. Each kill has to be followed by a replacement within `--limit` seconds, or by the end of the
run; then another one is started. Exit status 1: something hung, or was left behind.

    python -m benchmarks.kill_workers --kills 200 --transport fifo
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from harness.kept_lines import end_when_told
from harness.runs import CARTPOLE, SMALL, LiveRun, left_shared_memory, live_run, unused_shared_memory

_WORKING_S = 2.5  # since the start of its process
_PAUSE_S = (0.05, 0.6)
_END_S = 30.0
_HANG_TIMEOUT_S = 20.0
_STARTED = re.compile(r"Started (RolloutWorker_w\d+) as process (\d+)")
_REPLACED = "takes its place"
_OPENED = "is open again"


def find_victims(live: LiveRun) -> list[psutil.Process]:
    """Return the workers that have begun to work."""
    latest = {name: int(pid) for name, pid in _STARTED.findall(live.output)}
    processes = [psutil.Process(pid) for pid in latest.values() if psutil.pid_exists(pid)]
    return [process for process in processes if time.time() - process.create_time() > _WORKING_S]


def kill_in_one_run(live: LiveRun, num_kills: int, limit_s: float) -> tuple[list[float], str]:
    """Kill workers of a run until there were enough kills, or it has ended.

    Returns:
        How long each replacement took, in seconds; and what went wrong, if anything did.
    """
    waits: list[float] = []
    while len(waits) < num_kills and live.process.poll() is None:
        time.sleep(random.uniform(*_PAUSE_S))
        if not (victims := find_victims(live)):
            continue
        num_replaced, begin_s = live.output.count(_REPLACED), time.monotonic()
        random.choice(victims).kill()
        while live.output.count(_REPLACED) <= num_replaced and live.process.poll() is None:
            if time.monotonic() - begin_s > limit_s:
                return waits, f"nothing came of a kill within {limit_s:g} s"
            time.sleep(0.02)
        live.everybody()
        waits.append(time.monotonic() - begin_s)
    return waits, ""


def play(folder: Path, num_kills: int, transport: str, limit_s: float) -> tuple[list[float], list[str], str]:
    """Make one run, kill in it and end it; return the waits, all problems and what the run said."""
    memory = unused_shared_memory()
    flags = (f"--transport={transport}", f"--hang_timeout={_HANG_TIMEOUT_S:g}", "--max_worker_restarts=1000000")
    with live_run(*CARTPOLE, *SMALL, "--num_workers=3", *flags, "--save_every_sec=1", folder=folder) as live:
        live.wait_until_training()
        waits, problem = kill_in_one_run(live, num_kills, limit_s)
        problems = [problem] if problem else []
        live.process.send_signal(signal.SIGINT)
        try:
            live.wait(_END_S)
        except subprocess.TimeoutExpired:
            problems.append(f"it did not end within {_END_S:g} s")
        problems += [f"left behind: {left}" for left in (*live.left_over(), *left_shared_memory(memory))]
        return waits, problems, live.output


def main(argv: Sequence[str] | None = None) -> int:
    """Kill, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--transport", choices=("pipe", "fifo"), default="pipe", help="of the run's messages")
    parser.add_argument("--limit", type=float, default=_HANG_TIMEOUT_S + 15.0, help="seconds in which each is answered")
    options = parser.parse_args(argv)
    waits: list[float] = []
    problems: list[str] = []
    num_runs = num_opened = 0
    while len(waits) < options.kills and not problems:
        with tempfile.TemporaryDirectory(prefix="sample_profiler_kills_", ignore_cleanup_errors=True) as name:
            seen, problems, output = play(Path(name), options.kills - len(waits), options.transport, options.limit)
        waits += seen
        num_runs += 1
        num_opened += output.count(_OPENED)
        ends = [line for line in output.splitlines() if "The run failed" in line]
        print(f"run {num_runs}: {len(seen)} kills", *ends, *(f"FAILED: {each}" for each in problems), sep="\n  ")
    longest_s = max(waits, default=0.0)
    print(f"{len(waits)} kills in {num_runs} runs, {num_opened} of who held a queue; longest {longest_s:.1f} s")
    return int(bool(problems))


if __name__ == "__main__":
    end_when_told()
    sys.exit(main())
