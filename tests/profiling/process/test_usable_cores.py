"""How many cores a process may keep busy, in folders made as a kernel makes those of containers."""

from __future__ import annotations

import os

import pytest

from sample_profiler.profiling.process import control_groups
from sample_profiler.profiling.process.machine import describe_machine
from sample_profiler.profiling.process.usable_cores import Quota, find_quota, num_usable_cores


@pytest.fixture
def make_groups(tmp_path, monkeypatch):
    """Have the process be in groups, with files of these contents, on a machine of eight cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(control_groups, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(control_groups, "_PROCESSES", tmp_path)
    (tmp_path / "self").mkdir()

    def make(own, files):
        (tmp_path / "self" / "cgroup").write_text(own)
        for name, content in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    return make


_STAT = "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n"


@pytest.mark.parametrize(
    ("own", "files", "quota", "num_cores"),
    [
        ("0::/pod/box\n", {"pod/box/cpu.max": "200000 100000\n", "pod/box/cpu.stat": _STAT}, Quota(2.0, 2.5), 2),
        ("0::/pod/box\n", {"pod/box/cpu.max": "max 100000\n", "pod/cpu.max": "150000 100000\n"}, Quota(1.5, None), 2),
        (
            "0::/pod/box\n",
            {"pod/box/cpu.max": "400000 100000", "pod/cpu.max": "300000 100000", "pod/cpu.stat": _STAT},
            Quota(3.0, 2.5),
            3,
        ),
        ("0::/\n", {"cpu.max": "10000 100000\n"}, Quota(0.1, None), 1),
        # As it is outside of the container, whose own group is the outermost one that it sees.
        ("0::/docker/0123\n", {"cpu.max": "100000 100000\n", "cpu.stat": _STAT}, Quota(1.0, 2.5), 1),
        ("0::/../../other\n", {"cpu.max": "100000 100000\n"}, Quota(1.0, None), 1),
        ("0::/pod\n", {"pod/cpu.max": "3200000 100000\n"}, Quota(32.0, None), 8),
        ("0::/pod\n", {"pod/cpu.max": "max 100000\n"}, None, 8),
        ("0::/pod\n", {"pod/cpu.max": "of another kind\n"}, None, 8),
        ("0::/pod\n", {}, None, 8),
        ("", {}, None, 8),
        (
            "9:memory:/box\n4:cpu,cpuacct:/box\n0::/\n",
            {
                "cpu/box/cpu.cfs_quota_us": "350000\n",
                "cpu/box/cpu.cfs_period_us": "100000\n",
                "cpu/cpu.cfs_quota_us": "-1\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "cpuacct/box/cpuacct.usage": "2500000000\n",
            },
            Quota(3.5, 2.5),
            4,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None, 8),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "0\n"}, None, 8),
        ("1:cpuset:/\n", {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, None, 8),
        ("3:cpu:/a:b\n", {"cpu/a:b/cpu.cfs_quota_us": "1", "cpu/a:b/cpu.cfs_period_us": "1"}, Quota(1.0, None), 1),
    ],
)
def test_the_smallest_quota_of_all_groups_around_bounds_the_cores(make_groups, own, files, quota, num_cores):
    make_groups(own, files)
    assert find_quota() == quota
    assert num_usable_cores() == num_cores
    assert describe_machine()["num_cpus"] == num_cores


def test_where_no_groups_are_told_the_cores_to_run_on_count(make_groups):
    assert find_quota() is None
    assert num_usable_cores() == 8
