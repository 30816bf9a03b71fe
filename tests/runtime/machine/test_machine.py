"""Facts about the machine."""

from __future__ import annotations

import os

import psutil
import pytest

from sample_profiler.runtime.machine.machine import Machine, usable_cpus


def test_the_machine_is_described_in_plain_data():
    facts = Machine.this().to_dict()
    assert set(facts) == {"processor", "num_cpus", "memory_gib", "system", "python"}
    assert 1 <= facts["num_cpus"] <= len(os.sched_getaffinity(0))
    assert facts["memory_gib"] == pytest.approx(psutil.virtual_memory().total / 2**30, abs=0.1)
    assert all(isinstance(value, str | int | float) and value != "" for value in facts.values())


def test_usable_cores_are_those_of_this_process_only(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 2})
    assert usable_cpus() == [2, 5]
