"""How much of the machine is used, and may be."""

from __future__ import annotations

import os

import pytest

from sample_profiler.runtime.machine import machine_use
from sample_profiler.runtime.machine.machine_use import machine_gauges


def test_in_a_container_the_machine_is_as_busy_as_its_quota_is_used(in_container, monkeypatch):
    monkeypatch.setattr(machine_use.psutil, "cpu_times", lambda **_: pytest.fail("those of the whole host"))
    in_container(400_000)
    assert "machine_busy_s" not in machine_gauges(), "not told"
    in_container(400_000, 30_000_000)
    assert machine_gauges()["machine_busy_s"] == 30.0
    in_container(150_000, 30_000_000)
    assert machine_gauges()["machine_busy_s"] == 40.0, "20 s of one and a half cores, counted as two"


def test_a_quota_is_told_with_how_often_it_was_used_up(in_container, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    in_container(50_000, 30_000_000, 200, 150)
    gauges = machine_gauges()
    assert (gauges["machine_cores"], gauges["quota_cores"]) == (16, 0.5)
    assert (gauges["quota_periods"], gauges["quota_periods_held_up"]) == (200, 150)


def test_without_a_quota_there_is_the_time_of_the_cores(in_container):
    in_container("max")
    before = machine_gauges()
    assert before.keys() == {"machine_cores"} or before["machine_busy_s"] > 0
    assert not before.keys() & {"quota_cores", "quota_periods", "quota_periods_held_up"}
