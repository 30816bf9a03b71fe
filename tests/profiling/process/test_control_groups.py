"""Where the kernel tells of groups, in folders as it makes them; test_usable_cores.py has more."""

from __future__ import annotations

import pytest

from sample_profiler.profiling.process import control_groups
from sample_profiler.profiling.process.control_groups import groups_of, read_number


@pytest.fixture
def be_in(tmp_path, monkeypatch):
    """Have a process be in groups."""
    monkeypatch.setattr(control_groups, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(control_groups, "_PROCESSES", tmp_path)

    def make(pid, text):
        (tmp_path / pid).mkdir(exist_ok=True)
        (tmp_path / pid / "cgroup").write_text(text)

    return make


def test_a_group_comes_before_those_around_it(be_in, tmp_path):
    be_in("self", "0::/pod/box\n")
    root = tmp_path / "cgroup"
    folders = [root / "pod" / "box", root / "pod", root]
    assert [(group.version, group.folder) for group in groups_of("memory")][:3] == [(2, folder) for folder in folders]


def test_each_process_is_in_groups_of_its_own_and_may_change_them(be_in, tmp_path):
    be_in("self", "4:memory:/\n")
    be_in("7", "5:cpu,cpuacct:/\n4:memory:/box\n")
    assert [group.folder for group in groups_of("memory", 7)] == [
        tmp_path / "cgroup/memory/box",
        tmp_path / "cgroup/memory",
    ]
    assert [group.folder for group in groups_of("memory")] == [tmp_path / "cgroup/memory"]
    be_in("7", "4:memory:/other\n")
    assert groups_of("memory", 7)[0].folder.name == "other"
    assert groups_of("memory", 8) == (), "there is no such process"


@pytest.mark.parametrize(
    ("content", "name", "number"),
    [("max\n", "", None), ("17\n", "", 17), ("low 0\noom_kill 3\n", "oom_kill", 3), ("low 0\n", "oom_kill", None)],
)
def test_numbers_are_read_alone_or_by_name(content, name, number, tmp_path):
    (tmp_path / "file").write_text(content)
    assert read_number(tmp_path / "file", name) == number
    assert read_number(tmp_path / "none", name) is None
