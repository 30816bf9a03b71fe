"""What tests of the machine share: a container with a quota."""

from __future__ import annotations

import os

import pytest

from sample_profiler.profiling.process import control_groups


@pytest.fixture
def in_container(tmp_path, monkeypatch):
    """Have the process run in a container with a quota, on a machine of sixteen cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(control_groups, "_CGROUPS", tmp_path)
    monkeypatch.setattr(control_groups, "_PROCESSES", tmp_path)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/\n")

    def begin(quota_us, used_us=None, num_periods=0, num_held_up=0):
        (tmp_path / "cpu.max").write_text(f"{quota_us} 100000\n")
        if used_us is not None:
            stat = f"usage_usec {used_us}\nnr_periods {num_periods}\nnr_throttled {num_held_up}\n"
            (tmp_path / "cpu.stat").write_text(stat)

    return begin
