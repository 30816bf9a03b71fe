"""The processor time of what a process has started."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from sample_profiler.runtime.machine import children_time as module
from sample_profiler.runtime.machine.children_time import ChildrenTime

pytestmark = pytest.mark.skipif(
    not os.path.exists(f"/proc/self/task/{os.getpid()}/children"), reason="the kernel does not list children"
)

COMPUTE = "import time\nwhile time.process_time() < 0.3: pass\n"
# A child of a child computes, and its parent waits for it; then both wait for the end of their input.
NESTED = (
    f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {COMPUTE!r}])\nprint(flush=True); sys.stdin.read()"
)
LIVING = f"import sys\n{COMPUTE}print(flush=True); sys.stdin.read()"


def start(program):
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize("program", [LIVING, NESTED])
def test_children_count_while_they_live_and_after_their_end(program):
    moments = [0.0]
    children = ChildrenTime(lambda: moments[-1])
    before_s = children.seconds()
    process = start(program)
    process.stdout.readline()
    assert children.seconds() == before_s, "new ones are looked for now and then"
    moments.append(10.0)
    living_s = children.seconds()
    assert before_s + 0.25 <= living_s
    process.communicate()
    assert children.seconds() >= living_s
    moments.append(20.0)
    assert living_s <= children.seconds() <= living_s + 2.0, "once"


def test_a_thread_that_has_ended_hides_no_other(monkeypatch):
    process = start("import sys; print(flush=True); sys.stdin.read()")
    process.stdout.readline()
    listed = os.listdir
    monkeypatch.setattr(module.os, "listdir", lambda path: ["999999999", *listed(path)])
    assert process.pid in module.list_descendants()
    process.communicate()


def test_children_of_any_thread_count():
    children = ChildrenTime()
    before_s = ChildrenTime().seconds()
    started = []
    thread = threading.Thread(target=lambda: started.append(start(LIVING)) or time.sleep(2.0))
    thread.start()
    while not started:
        time.sleep(0.01)
    started[0].stdout.readline()
    assert children.seconds() >= before_s + 0.25
    started[0].communicate()
    thread.join()


def test_without_the_kernels_list_nothing_is_told(monkeypatch):
    def no_folder(_path):
        raise FileNotFoundError

    monkeypatch.setattr(module.os, "listdir", no_folder)
    assert ChildrenTime().seconds() is None


def test_time_that_ends_unnoticed_does_not_go_back(monkeypatch):
    ticks = [500]
    monkeypatch.setattr(module, "list_descendants", lambda: [1])
    monkeypatch.setattr(module, "_ticks_of", lambda _pid: ticks[0])
    children = ChildrenTime()
    most_s = children.seconds()
    ticks[0] = 0
    assert children.seconds() == most_s > 0
