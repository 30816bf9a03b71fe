"""A run whose environment leaks says so, whoever bounds the memory: the kernel, for all, or a limit of the process."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from harness.runs import SMALL

SCRIPT = Path(__file__).with_name("leaking_runs.py")
FLAGS = ("--env=leaking", "--num_workers=2", "--num_envs_per_worker=2", *SMALL, "--use_rnn=False")
GROUPS = Path("/sys/fs/cgroup/memory")
GROUP_BYTES = 1500 << 20
OWN_MIB = 2048
ENVS = "environments 2 to 3 of leaking"


def run_leaking(
    leak: str, folder: Path, *flags: str, group: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *FLAGS, f"--train_dir={folder}", "--train_for_seconds=100", *flags]
    if group is not None:
        command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *command]
    return subprocess.run(
        command,
        env={**os.environ, "LEAK": leak, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group whose processes have a limited amount of memory together."""
    group = GROUPS / f"sample_profiler_test_{uuid4().hex}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(GROUP_BYTES))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    yield group
    deadline_s = time.monotonic() + 10
    while (group / "cgroup.procs").read_text() and time.monotonic() < deadline_s:
        time.sleep(0.1)
    group.rmdir()


def test_a_worker_that_the_kernel_ends_is_told_with_its_environments_and_replaced(tmp_path, group):
    result = run_leaking("bytes", tmp_path, "--max_worker_restarts=1", group=group, CHUNK_MIB="96")
    assert result.returncode == 1, result.stdout
    lost = f"RolloutWorker_w1 is lost: its process ({ENVS}) was ended by the kernel for want of memory: it had "
    assert lost in result.stdout
    assert f"the limit is 1.5 GiB of the control group {group}" in result.stdout
    assert "grown from" in result.stdout and "the others: " in result.stdout
    assert "2 processes in its place have ended so within an hour (it leaks): environments that leak" in result.stdout
    assert "it is not replaced: 1 workers have been replaced within an hour" in result.stdout
    assert "killed by signal" not in result.stdout


def test_a_simulator_that_the_kernel_ends_is_told_with_the_environments_of_its_worker(tmp_path, group):
    result = run_leaking("simulator", tmp_path, "--on_worker_failure=stop", group=group)
    assert result.returncode == 1, result.stdout
    if "ConnectionError" in result.stdout:  # else the kernel has taken its worker, which has a part of its memory
        assert "the kernel has just ended a process of the run for want of memory" in result.stdout
        assert f"RolloutWorker_w1 ({ENVS}) had" in result.stdout
    else:
        assert "was ended by the kernel for want of memory" in result.stdout


def test_what_the_kernel_ends_in_one_moment_is_one_failure(tmp_path, group):
    result = run_leaking("batcher_first", tmp_path, group=group, CHUNK_MIB="160")
    assert result.returncode == 1, result.stdout
    *_, last = result.stdout.splitlines()
    assert "The run failed: Batcher_0: its process was ended by the kernel for want of memory: it had " in last
    assert f"most has grown RolloutWorker_w1 ({ENVS}): " in last
    lost = f"RolloutWorker_w1: its process ({ENVS}) was ended by the kernel for want of memory: it had "
    assert lost in last.partition("(lost in the same moment: ")[2]
    assert "environments that leak" in last
    assert "cannot answer" not in result.stdout


@pytest.mark.parametrize("leak", ["bytes", "arrays"])
def test_a_worker_that_is_refused_memory_is_told_with_its_environments(leak, tmp_path):
    result = run_leaking(leak, tmp_path, "--max_worker_restarts=1", LIMIT_MIB=str(OWN_MIB))
    assert result.returncode == 1, result.stdout
    assert re.search(r"EnvError: environment 3 \(leaking\) raised in step: \w*MemoryError", result.stdout)
    assert "there is not enough memory, " in result.stdout
    assert "of 2.0 GiB of addresses that the process may have (ulimit -v): environments that leak" in result.stdout
    assert f"RolloutWorker_w1 ({ENVS}) had " in result.stdout
    assert "2 processes in its place have ended so within an hour (it leaks)" in result.stdout
    assert "--rnn_size" not in result.stdout


@pytest.mark.parametrize(("leak", "name"), [("abort", "SIGABRT"), ("segfault", "SIGSEGV")])
def test_a_worker_that_breaks_off_since_it_is_refused_memory_is_told_likewise(leak, name, tmp_path):
    result = run_leaking(leak, tmp_path, "--on_worker_failure=stop", LIMIT_MIB=str(OWN_MIB))
    assert result.returncode == 1, result.stdout
    assert f"RolloutWorker_w1 failed: its process ({ENVS}) was killed by signal" in result.stdout
    assert f"({name}), probably for want of memory: it had " in result.stdout


def test_a_serial_run_that_is_refused_memory_names_the_environment(tmp_path):
    flags = ("--serial_mode=True", "--async_rl=False")
    # Large pieces, so that it is the environment that is refused one.
    result = run_leaking("bytes", tmp_path, *flags, LIMIT_MIB=str(2 * OWN_MIB), CHUNK_MIB="256")
    assert result.returncode == 1, result.stdout
    assert "EnvError: environment 3 (leaking) raised in step: MemoryError: there is not enough memory" in result.stdout
    assert "of 4.0 GiB of addresses that the process may have (ulimit -v): environments that leak" in result.stdout
