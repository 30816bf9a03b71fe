"""The recordings of lost workers: the latest files stay, and what earlier ones tell counts on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sample_profiler.config import parse_config
from sample_profiler.profiling import Timing
from sample_profiler.profiling.record import reader as record_reader
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session.session import read_session
from sample_profiler.run.records.lost_records import KEPT_FILES
from sample_profiler.run.records.run_records import RunRecords
from sample_profiler.run_folder import RunFolder

WORKER = "RolloutWorker_w1"
FIRST_PID = 1_000
NUM_LOST = KEPT_FILES + 3


class Worker:
    """A process that records; several of one name come one after another."""

    def __init__(self, folder, number, name=WORKER):
        self.timing = Timing(name)
        self.file = RecordFile(RunFolder(folder).live().record(name, number), process_name=name)
        self.file.attach(self.timing, name)
        self.file.set_gauge(f"{name}/children_cpu_s", 2.0)
        self.file.set_gauge("map/frames", 50.0)  # one that the environment has named so
        self._number = number

    def step(self):
        if self._number:  # the first of all is lost before it does this
            with self.timing.time_avg("reset", average=3):
                pass
        with self.timing.add_time("main_loop"), self.timing.timeit("env_step"):
            pass
        self.file.flush()

    def end(self):
        self.file.close()


@pytest.fixture
def records(tmp_path):
    RunFolder(tmp_path).live().path.mkdir(parents=True)
    return RunRecords(tmp_path, parse_config(["--env=e"]).profiling)


def num_steps(session):
    loops = [record.trees[record.name].children.get("main_loop") for record in session.processes]
    return sum(loop.children["env_step"].statistics.count for loop in loops if loop is not None)


@pytest.fixture
def lose(records, tmp_path, monkeypatch):
    """Lose workers of one name, each after a step of its own; they are no processes, and have numbers all the same."""
    monkeypatch.setattr(record_reader, "process_state", lambda *_: "alive")
    workers = []

    def begin():
        with monkeypatch.context() as another:
            another.setattr(os, "getpid", lambda: FIRST_PID + len(workers))
            workers.append(Worker(tmp_path, len(workers)))

    def lose(number):
        for _ in range(number):
            workers[-1].step()
            workers[-1].end()
            begin()
            records.add_up_lost(WORKER)
        return workers[-1]

    begin()

    yield lose
    workers[-1].end()


def test_files_of_the_latest_lost_workers_stay_and_all_blocks_count(records, lose, tmp_path):
    other = Worker(tmp_path, 99, "RolloutWorker_w10")
    other.step()
    other.end()
    lose(NUM_LOST)
    kept = [f"{WORKER}.{number}.rec" for number in range(NUM_LOST - KEPT_FILES, NUM_LOST + 1)]
    names = {path.name for path in RunFolder(tmp_path).live().path.iterdir()}
    assert names == {*kept, "RolloutWorker_w10.99.rec"}, "the one that lives, and others, are not touched"
    records.write_timers()
    document = json.loads((tmp_path / "summary" / f"{tmp_path.name}_timers.json").read_text())
    steps = document["children"]["workers"]["children"][WORKER]["children"]["main_loop"]["children"]["env_step"]
    assert steps["count"] == NUM_LOST
    session = records.write_session({"reason": "enough"}, records.end_steady_part(), is_clean=True)
    assert num_steps(session) == num_steps(read_session(tmp_path)) == NUM_LOST + 1
    (added_up,) = [record for record in session.processes if record.pid == FIRST_PID]
    assert added_up.gauges[f"{WORKER}/children_cpu_s"].value == 2.0 * (NUM_LOST - KEPT_FILES)
    step = added_up.trees[WORKER].children["main_loop"].children["env_step"]
    assert (step.kind.method, step.statistics.count) == ("timeit", NUM_LOST - KEPT_FILES)
    assert added_up.trees[WORKER].statistics.total_ns > 0
    assert added_up.gauges["map/frames"].value == 50.0
    reset = added_up.trees[WORKER].children["reset"]
    assert (reset.kind.window, reset.statistics.count) == (3, NUM_LOST - KEPT_FILES - 1)


def test_the_steady_part_has_what_came_since_it_began(records, lose):
    lose(0).step()
    records.begin_steady_part(lambda: None)
    lose(NUM_LOST)
    assert num_steps(records.end_steady_part()) == NUM_LOST


def test_a_file_that_cannot_be_removed_counts_once(records, lose, monkeypatch, caplog):
    lose(KEPT_FILES)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "unlink", _fail)
        lose(2)
    assert "Recordings of lost processes of RolloutWorker_w1 stay" in caplog.text
    assert num_steps(records._read()) == KEPT_FILES + 2
    lose(1)
    assert num_steps(records._read()) == KEPT_FILES + 3


def test_a_file_that_cannot_be_read_stays(records, lose, tmp_path):
    path = RunFolder(tmp_path).live().record(WORKER, 77)
    path.write_bytes(b"nonsense")
    lose(NUM_LOST)
    assert path.exists()


def _fail(*_, **__):
    raise PermissionError(1, "Operation not permitted")
