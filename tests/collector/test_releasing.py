"""The thread that opens what workers have left locked."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from sample_profiler.collector import processes, releasing
from sample_profiler.collector.processes import ProcessBackend
from sample_profiler.collector.releasing import Releasing
from sample_profiler.errors import MessageError

PATIENCE_S = 20.0


def test_it_goes_on_after_what_cannot_be_opened_and_the_caller_is_told_the_first(monkeypatch):
    monkeypatch.setattr(releasing, "_INTERVAL_S", 0.001)
    errors = [MessageError("first"), MessageError("second")]
    calls = []

    def release():
        calls.append(len(calls))
        if len(calls) <= len(errors):
            raise errors[len(calls) - 1]

    thread = Releasing(SimpleNamespace(has_locks=True, release=release))
    deadline_s = time.monotonic() + PATIENCE_S
    while len(calls) <= len(errors) and time.monotonic() < deadline_s:
        time.sleep(0.001)
    thread.end()
    assert len(calls) > len(errors)
    assert thread.error is errors[0]
    backend = ProcessBackend.__new__(ProcessBackend)
    backend._supervisor, backend._releasing = SimpleNamespace(beat=lambda: None), thread
    with pytest.raises(MessageError, match="first"):
        backend._beat()


def test_workers_do_not_outlive_a_backend_whose_thread_cannot_begin(monkeypatch):
    killed = []

    def fail(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(processes, "Supervisor", lambda: SimpleNamespace(kill=lambda: killed.append("all")))
    monkeypatch.setattr(processes, "plan_sampling", lambda _: [])
    monkeypatch.setattr(processes, "Releasing", fail)
    monkeypatch.setattr(processes.LocalBackend, "__init__", lambda *_: None)
    with pytest.raises(RuntimeError, match="can't start"):
        ProcessBackend(SimpleNamespace(transport=None))
    assert killed == ["all"]
