"""The number of files that a process may have open."""

from __future__ import annotations

import resource

import psutil
import pytest

from sample_profiler.runtime.machine.open_files import allow_open_files

OPEN = 10


@pytest.fixture
def limits(monkeypatch):
    """Stand in for the limits of this process, soft and hard, which has ten files open."""
    limits = [64, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: limits.__setitem__(slice(None), wanted))
    monkeypatch.setattr(psutil.Process, "num_fds", lambda _: OPEN)
    return limits


@pytest.mark.parametrize(("num_more", "soft"), [(54, 64), (55, 65), (4086, 4096)])
def test_the_soft_limit_is_raised_as_far_as_needed(limits, num_more, soft):
    assert allow_open_files(num_more) == ""
    assert limits == [soft, 4096]


def test_what_the_hard_limit_forbids_is_told_with_both_numbers(limits):
    assert allow_open_files(4087) == "it takes about 4,097 open files, and this process may have 4,096"
    assert limits == [64, 4096]


def test_without_limits_nothing_is_done(limits):
    limits[:] = [resource.RLIM_INFINITY] * 2
    assert allow_open_files(10**6) == ""
    limits[:] = [64, resource.RLIM_INFINITY]
    assert allow_open_files(90) == ""
    assert limits == [100, resource.RLIM_INFINITY]


def test_a_system_that_refuses_is_told(limits, monkeypatch):
    def refuse(*_):
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert allow_open_files(90).endswith(
        "this process may have 64, and more are refused: not allowed to raise maximum limit"
    )
