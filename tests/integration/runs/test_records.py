"""What a run's processes have recorded is there for others: while it runs, when it hangs, and after it was killed."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.runs import SMALL, live_run, run
from sample_profiler.analysis.accounts import accounts
from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.session.session import Session, read_session

COUNTING = ("counting_runs", "--env=counting", "--num_workers=2", "--num_envs_per_worker=1")
FLAGS = (*SMALL, "--worker_num_splits=1", "--use_rnn=False", "--decorrelate_envs_on_one_worker=False")
ENDLESS = ("--train_for_env_steps=1000000000", "--save_every_sec=1")
S = 1_000_000_000


@pytest.fixture
def counts(tmp_path, monkeypatch):
    path = tmp_path / "counts"
    path.write_bytes(bytes(16 * 64))
    monkeypatch.setenv("COUNTS", str(path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    return path


def counted(counts: Path, env: int) -> tuple[int, int]:
    """Return the steps of an environment and the nanoseconds in them, as it counts them itself."""
    return struct.unpack_from("2Q", counts.read_bytes(), 16 * env)


def process(session: Session, name: str) -> ProcessRecord:
    return next(record for record in session.processes if record.name == name)


def num_env_steps(session: Session, worker: int) -> int:
    """Return how many steps had ended for the recorder; one that was open counts as a pass, too."""
    name = f"RolloutWorker_w{worker}"
    record = process(session, name)
    num_open = sum(block.path == ("env_step",) for block in record.open_blocks)
    return record.trees[name].children["env_step"].statistics.count - num_open


def status(folder: Path) -> str:
    command = [sys.executable, "-m", "sample_profiler", "status", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.alone  # a worker that waits for a core for a second has done nothing in it
def test_ml13_a_killed_worker_loses_no_closed_block_and_its_last_seconds_are_in_its_events(tmp_path, counts):
    with live_run(*COUNTING, *FLAGS, *ENDLESS, "--on_worker_failure=stop", folder=tmp_path) as live:
        live.wait_until_training()
        worker = live.find("RolloutWorker_w1")
        worker.kill()
        killed_ns = time.perf_counter_ns()
        assert live.wait(30) == 1
    session = read_session(live.folder)
    record = process(session, "RolloutWorker_w1")
    num_steps, _ = counted(counts, 1)
    # The step in which it was killed may have ended for the environment and not for the block.
    assert num_steps - num_env_steps(session, 1) in (0, 1)
    assert (record.is_closed, record.is_alive) == (False, False)
    assert killed_ns - S < max(event.end_ns for event in record.events) < killed_ns
    assert process(session, "RolloutWorker_w0").is_closed
    assert session.run["reason"] == "RolloutWorker_w1 failed"


def test_what_a_replaced_worker_has_recorded_is_in_the_session_beside_its_successor_s(tmp_path, counts):
    with live_run(*COUNTING, *FLAGS, *ENDLESS, folder=tmp_path) as live:
        live.wait_until_training()
        worker = live.find("RolloutWorker_w1")
        worker.kill()
        deadline_s = time.monotonic() + 60
        while len(live.output.split("Started RolloutWorker_w1")) < 3 or "takes its place" not in live.output:
            assert time.monotonic() < deadline_s, live.output
            time.sleep(0.05)
        # The successor records, which takes a while where others have the processors.
        while sum(record.name == "RolloutWorker_w1" for record in read_session(live.folder).processes) < 2:
            assert time.monotonic() < deadline_s, live.output
            time.sleep(0.2)
        time.sleep(1)
        live.process.send_signal(signal.SIGINT)
        assert live.wait(30) == 130
    records = [record for record in read_session(live.folder).processes if record.name == "RolloutWorker_w1"]
    assert sorted(record.is_closed for record in records) == [False, True]
    (lost,) = (record for record in records if record.pid == worker.pid)
    assert lost.trees["RolloutWorker_w1"].children["env_step"].statistics.count > 0
    assert lost.events


@pytest.mark.alone
def test_a_run_that_was_killed_as_a_whole_leaves_every_process_s_blocks_and_last_seconds(tmp_path, counts):
    with live_run(*COUNTING, *FLAGS, *ENDLESS, folder=tmp_path) as live:
        live.wait_until_training()
        everybody = [live.find("Runner"), *live.everybody()]
        for one in everybody:
            one.suspend()  # so that none of them can put things in order once the first has been killed
        for one in everybody:
            one.kill()
        killed_ns = time.perf_counter_ns()
        psutil.wait_procs(everybody, timeout=10)
        live.process.wait(10)
        session = read_session(live.folder)
        assert len(session.processes) == 6
        for record in session.processes:
            assert record.is_alive is False, record.name
            last_ns = max(event.end_ns for event in record.events)
            # The Runner does something at least once a second, and everybody else at least every two seconds.
            assert killed_ns - 3 * S < last_ns < killed_ns, record.name
        for worker in range(2):
            num_steps, _ = counted(counts, worker)
            assert num_steps - num_env_steps(session, worker) in (0, 1)
        assert "killed" in status(live.folder) or "gone" in status(live.folder)


def test_the_status_of_a_component_that_hangs_names_the_block_it_sits_in(tmp_path, counts):
    with live_run(*COUNTING, *FLAGS, *ENDLESS, folder=tmp_path) as live:
        live.wait_until_training()
        worker = live.find("RolloutWorker_w0")
        for _ in range(200):  # it is in its environment's step most of the time
            os.kill(worker.pid, signal.SIGSTOP)
            while worker.status() != psutil.STATUS_STOPPED:
                time.sleep(0.001)
            record = process(read_session(live.folder), "RolloutWorker_w0")
            block = record.innermost_open_block("RolloutWorker_w0")
            if block is not None and block.path == ("env_step",):
                break
            os.kill(worker.pid, signal.SIGCONT)
            time.sleep(0.01)
        else:
            raise AssertionError("never found in its environment's step")
        time.sleep(1.2)
        (line,) = [line for line in status(live.folder).splitlines() if line.startswith("RolloutWorker_w0 ")][:1]
        assert "stopped" in line
        assert "env_step" in line
        os.kill(worker.pid, signal.SIGCONT)


@pytest.mark.parametrize("serial_mode", [False, True], ids=["parallel", "serial"])
def test_accounts_make_the_whole_and_the_trees_agree_with_the_environments_own_count(tmp_path, counts, serial_mode):
    result = run(*COUNTING, *FLAGS, "--train_for_env_steps=10000", f"--serial_mode={serial_mode}", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    assert "Where the time went:" in result.stdout
    session = read_session(tmp_path / "run")
    found = accounts(session)
    assert len(found) == 6
    for account in found:
        assert (
            account.wall_ns == sum(account.work_ns.values()) + sum(account.waits_ns.values()) + account.unaccounted_ns
        )
        assert account.wall_ns > S / 2
    trees = {name: tree for record in session.processes for name, tree in record.trees.items()}
    for worker in range(2):
        num_steps, inside_ns = counted(counts, worker)
        block = trees[f"RolloutWorker_w{worker}"].children["env_step"].statistics
        assert block.count == num_steps
        assert inside_ns <= block.total_ns


def test_ml15_ml16_the_run_leaves_the_timers_of_every_worker(tmp_path, counts):
    result = run(*COUNTING, *FLAGS, "--train_for_env_steps=3000", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    import json

    document = json.loads((tmp_path / "run" / "summary" / "run_timers.json").read_text())
    workers = document["children"]["workers"]["children"]
    assert {"Runner", "Learner_0", "RolloutWorker_w0", "RolloutWorker_w1"} <= set(workers)
    assert {"RolloutWorker_w0/free_slots", "Runner/fps", "Learner_0/policy_lag"} <= set(document["gauges"])
    assert {"run_delay_s", "cpu_s", "memory_mib"} <= set(document["gauges"])
    # Set by the environment itself: every value counts, not only those that somebody looked at.
    assert document["gauges"]["steps_of_an_env"]["min"] == 1
    assert document["gauges"]["steps_of_an_env"]["count"] == sum(counted(counts, env)[0] for env in range(2))
