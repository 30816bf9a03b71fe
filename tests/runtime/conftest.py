"""Real child processes, and waiting for them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sample_profiler.runtime.processes.child_process import Child
from sample_profiler.runtime.processes.orphans import is_subreaper
from sample_profiler.runtime.processes.supervisor import Supervisor

FOLDER = str(Path(__file__).parent)
if FOLDER not in sys.path:  # spawned processes get this list, and find `spawned_components` with it
    sys.path.insert(0, FOLDER)

PATIENCE_S = 60.0


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """A supervisor whose children are gone at the end of the test, however it ends."""
    # Else every child would import pytest, because that is the main module here.
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    supervisor = Supervisor()
    yield supervisor
    supervisor.kill()
    assert not is_subreaper()


@pytest.fixture
def wait_until() -> Callable[[Callable[[], Any]], Any]:
    """Wait until a function returns something true, and return that."""

    def wait(function: Callable[[], Any]) -> Any:
        deadline_s = time.monotonic() + PATIENCE_S
        while not (value := function()):
            assert time.monotonic() < deadline_s, "waited in vain"
            time.sleep(0.01)
        return value

    return wait


@pytest.fixture
def reports_until_end(wait_until) -> Callable[[Child], list[Any]]:
    """Take what a child reports until its process has ended."""

    def take(child: Child) -> list[Any]:
        received: list[Any] = []
        wait_until(lambda: received.extend(child.reports.receive()) or not child.is_alive())
        return received + child.reports.receive()

    return take


@pytest.fixture
def await_report(wait_until) -> Callable[[Child, Callable[[Any], bool]], Any]:
    """Take what a child reports until a report is as wanted, and return that one."""

    def take(child: Child, is_wanted: Callable[[Any], bool]) -> Any:
        received: list[Any] = []

        def look() -> list[Any]:
            received.extend(child.reports.receive())
            assert child.is_alive() or any(map(is_wanted, received)), f"it ended after {received}"
            return [report for report in received if is_wanted(report)]

        return wait_until(look)[0]

    return take
