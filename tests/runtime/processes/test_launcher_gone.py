"""A rank finds whoever has started it, and notices when that one is gone, and not before."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sample_profiler.errors import ConfigError
from sample_profiler.runtime.processes import launcher_gone
from sample_profiler.runtime.processes.launcher_gone import Launcher, find_launcher

RANK = """
import os
import time

from sample_profiler.runtime.processes.launcher_gone import find_launcher

launcher, end_s = find_launcher(os.environ), time.monotonic() + 60
print(f"found {launcher.pid}", flush=True)
input()
print("goes on" if not launcher.is_gone() else "gone too early", flush=True)
while not launcher.is_gone() and time.monotonic() < end_s:
    time.sleep(0.02)
print("gone" if launcher.is_gone() else "still there", flush=True)
"""
LAUNCHER = """
import os
import subprocess
import sys
import threading
import time

from sample_profiler.runtime.processes.launcher_gone import Launcher

told = Launcher.this().variables() if sys.argv[1] == "tells" else {"TORCHELASTIC_RUN_ID": "none"}
start = lambda: subprocess.Popen(sys.argv[2:], env=os.environ | told, start_new_session=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(60)
"""
WRAPPERS = {"nothing": (), "a script": ("sh", "-c", '"$0" "$@"; true')}


@pytest.mark.parametrize("says", ["tells", "is found"])
@pytest.mark.parametrize("between", WRAPPERS)
def test_a_rank_goes_on_when_the_thread_has_ended_that_started_it_and_not_without_its_process(says, between):
    words = [sys.executable, "-c", LAUNCHER, says, *WRAPPERS[between], sys.executable, "-c", RANK]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC")}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as launcher:
        try:
            assert launcher.stdin is not None and launcher.stdout is not None
            assert launcher.stdout.readline() == f"found {launcher.pid}\n"
            print(file=launcher.stdin, flush=True)
            assert launcher.stdout.readline() == "goes on\n"
        finally:
            launcher.kill()  # and is a zombie until the end
        assert launcher.stdout.readline() == "gone\n"


def test_another_process_of_its_number_is_another_one():
    this = Launcher.this()
    assert not this.is_gone()
    assert Launcher(this.pid, this.start_ticks + 1).is_gone()


def test_what_cannot_be_seen_is_not_gone(monkeypatch):
    this = Launcher.this()

    def refuse(path):
        raise OSError(24, "Too many open files", path)

    monkeypatch.setattr(launcher_gone, "read_at_once", refuse)
    assert not this.is_gone()
    assert find_launcher({"TORCHELASTIC_RUN_ID": "none"}) is None


def test_who_is_no_rank_has_no_launcher_and_one_that_cannot_be_read_is_told():
    assert find_launcher({"RANK": "0", "WORLD_SIZE": "2"}) is None
    with pytest.raises(ConfigError, match="SAMPLE_PROFILER_LAUNCHER='me' names no process"):
        find_launcher({"SAMPLE_PROFILER_LAUNCHER": "me"})
