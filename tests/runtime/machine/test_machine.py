"""Facts about the machine."""

from __future__ import annotations

import os

import psutil
import pytest

from sample_profiler.runtime.machine import machine
from sample_profiler.runtime.machine.machine import Machine, machine_busy_s, usable_cpus


def test_the_machine_is_described_in_plain_data():
    facts = Machine.this().to_dict()
    assert set(facts) == {"processor", "num_cpus", "memory_gib", "system", "python"}
    assert 1 <= facts["num_cpus"] <= len(os.sched_getaffinity(0))
    assert facts["memory_gib"] == pytest.approx(psutil.virtual_memory().total / 2**30, abs=0.1)
    assert all(isinstance(value, str | int | float) and value != "" for value in facts.values())


def test_usable_cores_are_those_of_this_process_only(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 2})
    assert usable_cpus() == [2, 5]


def test_in_a_container_the_machine_is_as_busy_as_its_quota_is_used(in_container, monkeypatch):
    monkeypatch.setattr(machine.psutil, "cpu_times", lambda **_: pytest.fail("those of the whole host"))
    in_container(400_000)
    assert machine_busy_s() is None, "not told"
    in_container(400_000, 30_000_000)
    assert machine_busy_s() == 30.0
    in_container(150_000, 30_000_000)
    assert machine_busy_s() == 40.0, "20 s of one and a half cores, counted as two"
