"""Reading what both recorders write, from outside of their process: at full speed, stopped, and killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sample_profiler.errors import RecordError
from sample_profiler.profiling.record.reader import EventFollower, OpenBlock, read_record_file

PROGRAM = Path(__file__).with_name("recorded_program.py")


@pytest.fixture(params=["compiled", "pure Python"])
def environment(request):
    environment = {**os.environ, "SAMPLE_PROFILER_PURE_PYTHON": "1" if request.param == "pure Python" else ""}
    code = "from sample_profiler.profiling.recorder.choice import TWIN; print(TWIN)"
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    if found.stdout.strip() != request.param:
        pytest.skip(f"the {request.param} recorder is not here")
    return environment


@pytest.fixture
def run_program(environment, tmp_path):
    path = tmp_path / "Work.rec"
    processes = []

    def run(way, is_ready):
        with (tmp_path / "output").open("wb") as output:
            command = [sys.executable, PROGRAM, way, path]
            processes.append(subprocess.Popen(command, env=environment, stdout=output))
        deadline_s = time.monotonic() + 30
        while not is_ready(read_blocks(path)):
            assert processes[-1].poll() is None and time.monotonic() < deadline_s
            time.sleep(0.01)
        return processes[-1], path

    yield run
    for process in processes:
        process.kill()
        process.wait()


def read_blocks(path, **options):
    """Return the statistics of all blocks by key; of a file in the making none."""
    with contextlib.suppress(RecordError, KeyError):
        root = read_record_file(path, **options).trees["Work"]
        return {node.key: node.statistics for node in root.walk() if node is not root}
    return {}


def stop(process):
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)


def test_a_reader_that_hammers_a_recorder_at_full_speed_never_sees_a_torn_value(run_program):
    _, path = run_program("spin", lambda blocks: "inner" in blocks)
    counts, totals = {}, {}
    for _ in range(1500):
        record = read_record_file(path, now_ns=0)  # so that open passes count with nothing
        outer = record.trees["Work"].children["outer"]
        for node in (outer, outer.children["inner"]):
            found = node.statistics
            num_open = sum(block.path[-1] == node.key for block in record.open_blocks)
            assert sum(found.histogram.values()) == found.count >= counts.get(node.key, 0)
            assert found.total_ns >= totals.get(node.key, 0)
            assert found.total_ns <= found.max_ns * found.count
            counts[node.key], totals[node.key] = found.count - num_open, found.total_ns
    assert counts["inner"] > 1000


def test_a_reader_of_a_recorder_that_begins_anew_again_and_again_never_sees_a_torn_value(run_program):
    _, path = run_program("restart", lambda blocks: "inner" in blocks)
    largest = 0
    for _ in range(500):
        record = read_record_file(path, now_ns=0)
        for node in record.trees["Work"].walk():
            found = node.statistics
            if node.key:
                assert sum(found.histogram.values()) == found.count <= 501
                assert found.total_ns <= found.max_ns * found.count
                largest = max(largest, found.count)
        assert len(record.paths) == 3
    assert largest > 100


def test_a_stopped_process_is_told_with_the_block_it_sits_in(run_program):
    process, path = run_program("sit", lambda blocks: "env_step" in blocks)
    stop(process)
    record = read_record_file(path)
    assert (record.state, record.name, record.pid) == ("stopped", "Work", process.pid)
    assert [block[:2] for block in record.open_blocks] == [
        ("Work", ("main_loop",)),
        ("Work", ("main_loop", "env_step")),
    ]
    assert isinstance(record.open_blocks[0], OpenBlock)
    assert record.start_anchor.monotonic_ns <= record.open_blocks[0].since_ns <= record.open_blocks[1].since_ns
    assert record.gauges["fps"].value == 250.0
    first, second = (read_blocks(path)["env_step"].total_ns for _ in range(2))
    assert 0 < first <= second
    totals = [node.statistics.total_ns for node in record.trees["Work"].walk()]
    assert totals == sorted(totals, reverse=True)


def test_a_killed_process_leaves_its_open_blocks_up_to_its_latest_sign_of_life(run_program):
    process, path = run_program("sit", lambda blocks: "env_step" in blocks)
    process.kill()
    process.wait()
    first, second = read_record_file(path), read_record_file(path, with_events=True)
    assert (first.state, first.is_alive, first.is_closed) == ("gone", False, False)
    assert first.read_ns == second.read_ns <= time.perf_counter_ns()
    assert first.innermost_open_block("Work").path == ("main_loop", "env_step")


def test_every_block_that_was_over_before_a_kill_is_there(run_program, tmp_path):
    process, path = run_program("count", lambda blocks: blocks.get("inner") and blocks["inner"].count > 100)
    process.kill()
    process.wait()
    told = int((tmp_path / "output").read_text())
    record = read_record_file(path, with_events=True)
    inner = record.trees["Work"].children["outer"].children["inner"].statistics
    assert inner.count in (told, told + 1, told + 2)
    keys = [record.paths[event.node][-1] for event in record.events]
    assert keys.count("inner") in (told, told + 1, told + 2)


def test_a_follower_of_a_recorder_at_full_speed_gets_whole_events_in_order(run_program):
    _, path = run_program("spin", lambda blocks: "inner" in blocks)
    starts = {}
    with EventFollower(path) as follower:
        deadline_s = time.monotonic() + 1.0
        while time.monotonic() < deadline_s:
            for event in follower.poll():
                assert event.start_ns <= event.end_ns
                assert event.start_ns >= starts.get(event.node, 0)
                starts[event.node] = event.start_ns
            time.sleep(0.05)
    assert len(starts) == 2
    record = read_record_file(path)
    assert {record.paths[node] for node in starts} == {("Work", "outer"), ("Work", "outer", "inner")}


def test_files_of_a_recorder_cut_off_or_damaged_are_an_error_or_a_whole_reading(run_program):
    process, path = run_program("sit", lambda blocks: "env_step" in blocks)
    process.kill()
    process.wait()
    size, draw = path.stat().st_size, random.Random(5)
    cut = path.with_name("cut.rec")
    data = path.read_bytes()
    for length in (0, 1, 100, 1023, 1024, 50_000, size // 2, size - 1):
        cut.write_bytes(data[:length])
        with pytest.raises(RecordError):
            read_record_file(cut)
    file = os.open(path, os.O_RDWR)
    for place in [*range(0, 512, 3), *(draw.randrange(1024, 1 << 15) for _ in range(100))]:
        byte = os.pread(file, 1, place)
        os.pwrite(file, bytes([byte[0] ^ 1 << draw.randrange(8)]), place)
        with contextlib.suppress(RecordError):
            read_record_file(path, with_histograms=False)
        os.pwrite(file, byte, place)
    os.close(file)
