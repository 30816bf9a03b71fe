"""What the kernel tells of memory, of this process and in files made as a kernel makes them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from sample_profiler.profiling.process.control_groups import ControlGroup
from sample_profiler.runtime.machine import memory_limits
from sample_profiler.runtime.machine.memory_limits import (
    available_bytes,
    count_kills,
    find_limit,
    format_bytes,
    read_process_memory,
)

OF_V1 = {"memory.limit_in_bytes": "1073741824\n", "memory.oom_control": "under_oom 0\noom_kill 2\n"}
OF_V2 = {"memory.max": "1073741824\n", "memory.events": "oom 5\noom_kill 2\noom_group_kill 0\n"}


def make_group(folder, version, files):
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(content)
    return ControlGroup(version, folder.parent, folder)


@pytest.mark.parametrize(("version", "files"), [(1, OF_V1), (2, OF_V2)])
def test_limit_and_kills_of_a_group_are_found(version, files, tmp_path, monkeypatch):
    monkeypatch.setattr(memory_limits, "_PROCESSES", tmp_path)
    (tmp_path / "vmstat").write_text("nr_free_pages 5\noom_kill 9\n")
    group = make_group(tmp_path / "box", version, files)
    around = ControlGroup(version, tmp_path, tmp_path / "none")
    limit = find_limit([group, around])
    assert limit.num_bytes == 1 << 30
    assert limit.describe() == f"1.0 GiB of the control group {tmp_path / 'box'} (a container, a service or a job)"
    assert list(count_kills([group, around]).values()) == [2], "those of others are not this run's"
    assert list(count_kills([around]).values()) == [9], "nothing else tells"


def test_a_group_without_a_limit_has_that_of_the_machine(tmp_path):
    groups = [make_group(tmp_path / "box", 2, {"memory.max": "max\n"})]
    assert find_limit(groups) == find_limit([])
    assert find_limit([]).owner == "of this machine"
    huge = make_group(tmp_path / "old", 1, {"memory.limit_in_bytes": "9223372036854771712\n"})
    assert find_limit([huge]) == find_limit([])


USED_OF_V1 = {
    "memory.limit_in_bytes": "2000",
    "memory.usage_in_bytes": "1500",
    "memory.stat": "total_inactive_file 300",
}
USED_OF_V2 = {"memory.max": "2000", "memory.current": "1500", "memory.stat": "anon 7\ninactive_file 300"}


@pytest.mark.parametrize(("version", "files"), [(1, USED_OF_V1), (2, USED_OF_V2)])
def test_what_a_group_has_left_counts_files_that_nobody_uses_as_free(version, files, tmp_path):
    assert available_bytes([make_group(tmp_path / "box", version, files)]) == 800


def test_without_a_limit_the_memory_of_the_machine_is_available(tmp_path):
    machine, group = available_bytes([]), make_group(tmp_path / "box", 2, {"memory.max": "max"})
    assert machine > 1 << 20
    assert available_bytes([group]) == pytest.approx(machine, rel=0.2)


def test_a_process_has_memory_and_limits_of_its_own():
    own = read_process_memory(os.getpid())
    assert own is not None and own.resident > 1 << 20
    code = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (1 << 33, 1 << 33)); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        before = {limit.owner for limit in own.limits}
        memory = read_process_memory(process.pid)
        process.communicate(b"\n")
    (limit,) = [limit for limit in memory.limits if limit.owner not in before] or memory.limits
    assert (limit.num_bytes, limit.owner) == (1 << 33, "of data that the process may have (ulimit -d)")
    assert 0 < limit.used < 1 << 33
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] != 1 << 33


def test_who_has_ended_has_none():
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert read_process_memory(process.pid) is None, "nobody has taken notice of its end"
    process.wait()
    assert read_process_memory(process.pid) is None


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(310 << 20, "310 MiB"), (2 << 30, "2.0 GiB"), (1234 << 30, "1,234.0 GiB")]
)
def test_memory_is_told_for_people(num_bytes, text):
    assert format_bytes(num_bytes) == text
