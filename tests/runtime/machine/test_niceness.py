"""Niceness counts among the processes of a run, each of which leads a session of its own."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from sample_profiler.runtime.machine import niceness


class Group:
    """Stands for the kernel's file: takes a change after so many refusals."""

    def __init__(self, refusals=0, error=errno.EAGAIN):
        self.refusals = refusals
        self.error = error
        self.value = None

    def write_text(self, text):
        if self.refusals:
            self.refusals -= 1
            raise OSError(self.error, os.strerror(self.error))
        self.value = text


@pytest.fixture
def set_group(monkeypatch):
    monkeypatch.setattr(niceness.os, "nice", lambda increment: 2 + increment)
    monkeypatch.setattr(niceness, "_RETRY_S", 0.001)
    return lambda group: monkeypatch.setattr(niceness, "_AUTOGROUP", group)


def join_threads():
    for thread in threading.enumerate():
        if thread.name == "niceness":
            thread.join(5)


def test_the_group_of_the_session_becomes_as_nice_as_the_process(set_group):
    group = Group()
    set_group(group)
    niceness.add_niceness(5)
    assert group.value == "7"


def test_what_the_kernel_puts_off_is_tried_again(set_group):
    group = Group(refusals=3)
    set_group(group)
    niceness.add_niceness(5)
    join_threads()
    assert group.value == "7"


def test_where_there_are_no_groups_the_process_alone_is_nicer(set_group):
    group = Group(refusals=1, error=errno.ENOENT)
    set_group(group)
    niceness.add_niceness(5)
    join_threads()
    assert group.value is None


def test_what_needs_privileges_is_refused(monkeypatch):
    group = Group()
    monkeypatch.setattr(niceness, "_AUTOGROUP", group)

    def refuse(_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(niceness.os, "nice", refuse)
    with pytest.raises(PermissionError):
        niceness.add_niceness(-5)
    assert group.value is None
