"""Print how long the trace and the report of a large session take, and how much memory.

The session is made by the recorder itself: workers that step, ask for actions and get them, and a Learner, taking turns
in one process, with a ring of events each that holds all of it. Its record files are read first, as those of a run that
was killed would be, then the session that a run leaves behind. Every command has a process of its own.

    python -m benchmarks.profiler.large_session
    python -m benchmarks.profiler.large_session --events 100000

More than 60 seconds or 1 GB of resident memory is too much: then it exits with 1.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sample_profiler.profiling import Timing
from sample_profiler.profiling.record.flows import END, REQUEST, SLOT, START, STEP, flow_point
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session.session import read_live
from sample_profiler.run_folder import RunFolder

MOST_SECONDS, MOST_BYTES = 60.0, 10**9
NUM_WORKERS = 6
EVENT_BYTES = 32
# Of a worker and the inference that answers it; and what begins a trajectory and trains on it.
EVENTS_A_TURN, EVENTS_A_TRAINING = 8, 6
MOST_EVENTS_OF_ONE = 3  # in a turn: those of inference
TURNS_A_TRAINING = 32
GAUGES = ("fps", "policy_lag", "free_slots", "memory_mib")
NUM_POINTS = 600


def make_session(run_dir: Path, num_events: int) -> int:
    """Record a session, leave its record files and return how many events these have."""
    live = RunFolder(run_dir).live()
    live.path.mkdir(parents=True)
    workers = [f"RolloutWorker_w{index}" for index in range(NUM_WORKERS)]
    turns = math.ceil(num_events / (EVENTS_A_TURN + EVENTS_A_TRAINING / TURNS_A_TRAINING))
    ring_bytes = EVENT_BYTES * (MOST_EVENTS_OF_ONE * turns + 1024)
    with contextlib.ExitStack() as stack:
        timings: dict[str, Timing] = {}
        for name in (*workers, "InferenceWorker_p0-w0", "Learner_0"):
            file = RecordFile(live.record(name, os.getpid()), process_name=name, ring_bytes=ring_bytes)
            stack.callback(file.close)
            timings[name] = Timing(f"{name} profile")
            file.attach(timings[name], name)
            file.set_gauge("memory_mib", 100.0)
        inference, learner = timings["InferenceWorker_p0-w0"], timings["Learner_0"]
        for turn in range(turns):
            group = turn % NUM_WORKERS
            _take_turn(timings[workers[group]], inference, turn, group)
            if turn % TURNS_A_TRAINING == 0:
                _train(learner, turn // TURNS_A_TRAINING)
    return sum(record.num_events_lost + len(record.events) for record in read_live(run_dir).processes)


def _take_turn(worker: Timing, inference: Timing, turn: int, group: int) -> None:
    with worker.add_time("env_step"):
        with worker.add_time("physics"):
            pass
        worker.mark_flow(flow_point(START, REQUEST, group))
    with inference.add_time("handle_policy_step"):
        inference.mark_flow(flow_point(STEP, REQUEST, group))
        with inference.add_time("forward"):
            pass
    with worker.add_time("process_actions"):
        worker.mark_flow(flow_point(END, REQUEST, group))
        if turn % TURNS_A_TRAINING == 0:
            worker.mark_flow(flow_point(START, SLOT, group))


def _train(learner: Timing, step: int) -> None:
    with learner.add_time("train"), learner.add_time("epochs"):
        for _ in range(2):
            with learner.add_time("forward"):
                pass
        learner.mark_flow(flow_point(END, SLOT, step % NUM_WORKERS))


def save_session(run_dir: Path) -> None:
    """Leave the session that a run leaves behind, with gauges over its time; record files go."""
    session = read_live(run_dir)
    session.run["reason"] = "enough frames"
    session.run["history_start_s"] = session.created_s - NUM_POINTS
    session.run["history"] = {
        name: [(float(second), 100.0 + 10 * math.sin(second / 20)) for second in range(NUM_POINTS)] for name in GAUGES
    }
    session.save(RunFolder(run_dir).session)
    for path in RunFolder(run_dir).live().records():
        path.unlink()


def measure(command: list[str]) -> tuple[float, int]:
    """Run a command of `sample-profiler` and return its seconds and its most resident bytes."""
    begun_s = time.monotonic()
    with subprocess.Popen([sys.executable, "-m", "sample_profiler", *command], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"sample-profiler {' '.join(command)} ended with status {process.returncode}")
    return time.monotonic() - begun_s, usage.ru_maxrss * 1024


def main() -> int:
    """Make the session, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5_000_000, help="in the session; default: 5,000,000")
    options = parser.parse_args()
    is_too_much = False
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        # In processes of their own: a child begins with the memory of who made it, and that would count as its own.
        num_events = int(_call("print(make_session(path, number))", run_dir, options.events))
        print(f"{num_events:,} events of {NUM_WORKERS + 2} processes")
        for source in ("record files", "saved session"):
            if source == "saved session":
                _call("save_session(path)", run_dir, 0)
            for command, name in (("trace", "trace.json"), ("trace", "trace.json.gz"), ("report", "report.html")):
                output = Path(folder) / name
                seconds, num_bytes = measure([command, str(run_dir), "--output", str(output)])
                is_too_much |= seconds > MOST_SECONDS or num_bytes > MOST_BYTES
                size = output.stat().st_size / 1e6
                print(
                    f"{command} of the {source}: {seconds:5.1f} s, {num_bytes / 1e6:6,.0f} MB resident, "
                    f"{name} {size:,.1f} MB",
                    flush=True,
                )
                output.unlink()
    return int(is_too_much)


def _call(code: str, run_dir: Path, number: int) -> str:
    program = (
        "import pathlib, sys; from benchmarks.profiler.large_session import make_session, save_session; "
        f"path, number = pathlib.Path(sys.argv[1]), int(sys.argv[2]); {code}"
    )
    command = [sys.executable, "-c", program, str(run_dir), str(number)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
