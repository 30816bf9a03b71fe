"""How much of the machine is used, and may be."""

from __future__ import annotations

import os

import pytest

from sample_profiler.runtime.machine import machine_use
from sample_profiler.runtime.machine.machine_use import MachineUse


def test_in_a_container_the_machine_is_as_busy_as_its_quota_is_used(in_container, monkeypatch):
    monkeypatch.setattr(machine_use.psutil, "cpu_times", lambda **_: pytest.fail("those of the whole host"))
    in_container(400_000)
    use = MachineUse()
    assert "machine_busy_s" not in use.gauges(), "not told"
    in_container(400_000, 30_000_000)
    assert use.gauges()["machine_busy_s"] == 30.0
    in_container(150_000, 30_000_000)
    assert use.gauges()["machine_busy_s"] == 40.0, "20 s of one and a half cores, counted as two"


def test_what_was_before_the_run_is_not_counted(in_container):
    in_container(400_000, 30_000_000, 200, 150)
    use = MachineUse()
    in_container(400_000, 50_000_000, 260, 160)
    gauges = use.gauges()
    assert gauges["machine_busy_s"] == 20.0
    assert (gauges["quota_periods"], gauges["quota_periods_held_up"]) == (60, 10)
    assert gauges["quota_cores"] == 4.0, "no count"


def test_a_quota_is_told_with_the_cores_of_the_machine(in_container, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    in_container(50_000, 30_000_000, 200, 150)
    gauges = MachineUse().gauges()
    assert (gauges["machine_cores"], gauges["quota_cores"]) == (16, 0.5)


def test_without_a_quota_there_is_the_time_of_the_cores(in_container):
    in_container("max")
    gauges = MachineUse().gauges()
    assert gauges.keys() == {"machine_cores", "available_memory_mib"} or gauges["machine_busy_s"] >= 0
    assert not gauges.keys() & {"quota_cores", "quota_periods", "quota_periods_held_up"}
