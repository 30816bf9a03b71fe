"""Runs of a small environment in the process of the tests; what many cases of the fault matrix came to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from sample_profiler.cli.train import train
from sample_profiler.envs import register_env, registry
from sample_profiler.profiling import get_timing, set_timing
from tests.faults.matrix import describe_throughput
from tests.faults.walking import FLAGS, Stroll, Walk


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


def pytest_terminal_summary(terminalreporter) -> None:
    """Tell how throughput was after replacements, where it was measured."""
    results = Path(os.environ.get("FAULT_RESULTS", ""))
    if results.is_file():
        with results.open() as file:
            terminalreporter.write_line(describe_throughput(map(json.loads, file)))
