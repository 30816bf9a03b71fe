"""What a process tells of itself."""

from __future__ import annotations

import builtins
import subprocess
import sys
import types

import pytest

from sample_profiler.profiling.process import gauges as module
from sample_profiler.profiling.process.gauges import process_gauges

ASK = "from sample_profiler.profiling.process.gauges import process_gauges; print(process_gauges()['memory_mib'])"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the memory of now is read from /proc")
def test_a_child_does_not_show_the_memory_of_its_parent():
    ballast = b"x" * (256 << 20)
    child = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert float(child.stdout) < 200, "an interpreter and the recorder"
    assert process_gauges()["memory_mib"] > len(ballast) >> 20


def test_without_proc_there_is_the_maximum_of_the_system(monkeypatch):
    def no_file(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(builtins, "open", no_file)
    monkeypatch.setattr(module.os, "listdir", no_file)
    gauges = process_gauges()
    assert gauges["memory_mib"] > 1
    assert set(gauges) == {"memory_mib", "cpu_s", "system_s"}


@pytest.mark.parametrize(("platform", "memory_mib"), [("linux", 3072), ("darwin", 3)])
def test_the_maximum_is_in_the_unit_of_the_system(monkeypatch, platform, memory_mib):
    usage = types.SimpleNamespace(ru_maxrss=3 << 20, ru_utime=1.0, ru_stime=0.5)
    monkeypatch.setattr(module, "_memory_mib", dict)
    monkeypatch.setattr(module.resource, "getrusage", lambda _: usage)
    monkeypatch.setattr(module.sys, "platform", platform)
    assert process_gauges()["memory_mib"] == memory_mib
