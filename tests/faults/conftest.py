"""Runs of a small environment in the process of the tests; with `make fuzz`, what came of made-up input."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from harness.kept_lines import append_line, describe_origin, read_lines, tell_origins
from sample_profiler.cli.train import train
from sample_profiler.envs import register_env, registry
from sample_profiler.profiling import get_timing, set_timing
from tests.faults.fuzzing import NUM_EXAMPLES, RESULTS, TRIED, describe_fuzzing, is_done, latest_of
from tests.faults.walking import FLAGS, Stroll, Walk

FUZZED = pytest.StashKey[list[str]]()
_MOST_TEXT = 3000


@pytest.fixture
def begin(monkeypatch, tmp_path, capsys) -> Iterator:
    """Run a training in this process, and return its exit status."""
    monkeypatch.setattr(registry, "_makers", {})
    register_env("walk", lambda *_, **__: Walk())
    register_env("stroll", lambda *_, **__: Stroll())
    timing = get_timing()
    yield lambda *flags: train([*FLAGS, *flags, f"--train_dir={tmp_path}"])
    set_timing(timing, process_wide=True)
    torch.set_flush_denormal(False)  # as networks of a run want it; numbers made up by other tests are such
    capsys.readouterr()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items) -> None:
    """Choose the tests with made-up input that have not passed yet, if results are kept."""
    if RESULTS is None:
        return
    fuzzed = [item for item in items if getattr(item.function, "is_hypothesis_test", False)]
    config.stash[FUZZED] = [item.nodeid for item in fuzzed]
    kept = latest_of(read_lines(RESULTS))
    wanted = [item for item in fuzzed if not is_done(kept.get(item.nodeid))]
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = wanted


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Keep what came of a test, also if it failed before or after it."""
    report = yield
    if RESULTS is not None and (report.when == "call" or report.failed):
        tried = TRIED.pop(item.function.__name__, 0)
        line = {"test": item.nodeid, "asked": NUM_EXAMPLES, "tried": tried, "outcome": report.outcome}
        line |= {"seconds": round(call.duration, 1), "problem": report.longreprtext[-_MOST_TEXT:]}
        append_line(RESULTS, line | describe_origin())
    return report


def pytest_sessionfinish(session, exitstatus) -> None:
    """Count nothing left to do as success."""
    if FUZZED in session.config.stash and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter, config) -> None:
    """Tell what came of each kind of made-up input, in this session and before."""
    if FUZZED in config.stash:
        lines = read_lines(RESULTS)
        for text in describe_fuzzing(config.stash[FUZZED], lines):
            terminalreporter.write_line(text)
        terminalreporter.write_line(tell_origins(latest_of(lines).values()))
