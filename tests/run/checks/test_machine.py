"""What a run asks of this machine before it begins."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config
from sample_profiler.run.checks import machine


@pytest.mark.parametrize(
    ("flags", "num_files"),
    [((), 12 * (64 + 4 * 3) + 64), (("--inference=worker",), 12 * (64 + 4 * 2) + 64 + 2 * 64 * 4)],
)
def test_as_many_files_are_asked_for_as_the_pipes_of_a_run_take(monkeypatch, flags, num_files):
    asked = []
    monkeypatch.setattr(machine, "allow_open_files", lambda number: asked.append(number) or "")
    machine.allow_processes(parse_config(["--env=mine", "--num_workers=64", "--num_policies=4", *flags]))
    assert asked == [num_files]
