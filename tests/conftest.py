"""What all tests share: nothing that a test starts outlives it, and nobody spins on the cores of others."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.isolation.shared_names import SHARED_MEMORY, owner_of

# Before anything loads a numerical library; processes that tests start inherit it.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # a pool of several would outlive the test that compiles
if "torch" in sys.modules:
    sys.modules["torch"].set_num_threads(1)

# Ignored in the background of a shell, or under nohup, and then in programs that tests interrupt, too.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

PATIENCE_S = 5.0
PATIENCE_FOR_NAMES_S = 60.0
"""Others test beside us: names of runs that they kill are nobody's until these have been cleaned up after."""
WHOLE_RUNS = tuple(Path(__file__).parent / name for name in ("faults", "integration"))


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "of each test that starts whole runs, at most so many cases; 0: all"
    parser.addoption("--few_cases", type=int, default=0, help=words)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no module in which nothing has the mark that is asked for: each of several processes would load them all."""
    mark = next((mark for mark in ("whole_run", "alone") if config.option.markexpr.startswith(mark)), "")
    if not mark or collection_path.suffix != ".py" or (mark == "whole_run" and starts_whole_runs(collection_path)):
        return None
    return None if f"pytest.mark.{mark}" in collection_path.read_text(encoding="utf-8") else True


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Mark what starts whole runs by its folder; elsewhere tests say so themselves. Choose a few cases, if asked to."""
    for item in items:
        if starts_whole_runs(item.path):
            item.add_marker("whole_run")
    if num_cases := config.getoption("--few_cases"):
        from tests.isolation.few_cases import choose_few

        whole_runs = [item for item in items if item.get_closest_marker("whole_run")]
        left_out = set(whole_runs).difference(choose_few(whole_runs, num_cases))
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))


def starts_whole_runs(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in WHOLE_RUNS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist=loadscope`` keep together only what shares something."""
    from tests.isolation.scheduling import SharedScheduling

    return SharedScheduling(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Let reports reach the process that shows them whatever a test has logged: texts travel as UTF-8."""
    return escape_surrogates((yield))


def escape_surrogates(data: Any) -> Any:
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, dict):
        return {key: escape_surrogates(value) for key, value in data.items()}
    return type(data)(map(escape_surrogates, data)) if isinstance(data, list | tuple) else data


def pytest_collection_finish() -> None:
    """Leave thousands of tests and the libraries they load out of every later look for garbage, half a second each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Prove that no child process, named shared memory or thread outlives a test."""
    children, names, threads = list_children(), list_shared_memory(), set(threading.enumerate())
    yield
    wait_for_none(lambda: describe_leaks(children, threads), PATIENCE_S)
    wait_for_none(lambda: describe_new_names(names), PATIENCE_FOR_NAMES_S)


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    """Leave no part of networks registered: every network of a later test would be made of it."""
    registered = dict(makers_of_networks())
    yield
    if makers_of_networks() != registered:
        makers_of_networks().clear()
        makers_of_networks().update(registered)


def makers_of_networks() -> dict[str, Any]:
    module = sys.modules.get("sample_profiler.model.registry")
    makers: dict[str, Any] = module._makers if module else {}
    return makers


def wait_for_none(find: Callable[[], list[str]], patience_s: float) -> None:
    """Fail where something is still found in the end; what ends by itself may take a moment."""
    deadline_s = time.monotonic() + patience_s
    while found := find():
        assert time.monotonic() < deadline_s, f"the test left behind: {'; '.join(found)}"
        time.sleep(0.02)


def describe_leaks(children: set[int], threads: set[threading.Thread]) -> list[str]:
    leaks = [f"process {describe_process(pid)}" for pid in list_children() - children]
    begun = {thread for thread in threading.enumerate() if thread.name != "exit_watch"}  # that waits for the exit
    return leaks + [f"thread {thread.name}" for thread in begun - threads]


def describe_new_names(before: set[str]) -> list[str]:
    new_names = list_shared_memory() - before
    return [f"shared memory {name}" for name in sorted(new_names - list_names_of_others())] if new_names else []


def list_children() -> set[int]:
    try:  # quick, and the usual case: no children at all
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()
    # multiprocessing keeps one helper process for the whole session.
    helper = getattr(resource_tracker._resource_tracker, "_pid", None)
    return {process.pid for process in psutil.Process().children()} - {helper}


def describe_process(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return f"{pid} ({process.status()}: {' '.join(process.cmdline())[:120]})"
    except psutil.NoSuchProcess:
        return str(pid)


def list_shared_memory() -> set[str]:
    return set(os.listdir(SHARED_MEMORY)) if os.path.isdir(SHARED_MEMORY) else set()


def list_names_of_others() -> set[str]:
    """Return the shared memory that processes map, or tests have named, which this one has not started."""
    ours = {os.getpid(), *(process.pid for process in psutil.Process().children(recursive=True))}
    names = {name for name in list_shared_memory() if owner_of(name) not in {None, *ours}}
    for pid in set(psutil.pids()) - ours:
        try:
            maps = Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            continue
        for line in maps.splitlines():
            _, found, path = line.partition(f"{SHARED_MEMORY}/")
            if found:
                names.add(path.partition("/")[0])
    return names
