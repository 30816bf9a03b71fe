"""Two captures as a flame graph of their difference."""

from __future__ import annotations

import json

import pytest

from sample_profiler.cli.main import main
from sample_profiler.reports.flame_difference import write_flame_difference
from sample_profiler.reports.merged.speedscope import read_stacks


def write(path, weights, unit="seconds"):
    """Write a capture of one process: a weight for each stack of functions."""
    names = sorted({name for stack in weights for name in stack})
    profile = {"type": "sampled", "name": "Learner_0", "unit": unit, "startValue": 0, "endValue": 1}
    profile |= {"samples": [[names.index(name) for name in stack] for stack in weights]}
    profile |= {"weights": list(weights.values())}
    frames = [{"name": name, "file": f"/folder/{name}.py", "line": 1} for name in names]
    path.write_text(json.dumps({"shared": {"frames": frames}, "profiles": [profile]}))
    return path


def test_captures_of_time_are_compared_by_shares_whatever_they_took(tmp_path):
    a = write(tmp_path / "a", {("main", "step"): 3.0, ("main", "train"): 1.0})
    b = write(tmp_path / "b", {("main", "step"): 20.0, ("main", "train"): 20.0})
    lines = write_flame_difference(a, b, tmp_path / "page.html")
    assert sorted(lines) == [
        "+25.0 points  train (train.py) (25.0 % → 50.0 %)",
        "-25.0 points  step (step.py) (75.0 % → 50.0 %)",
    ]
    page = (tmp_path / "page.html").read_text()
    assert all(part in page for part in ("main (main.py) (100.0 % → 100.0 %)", "hsl(4 ", "hsl(214 "))


def test_captures_of_memory_are_compared_by_bytes_and_what_only_one_has_is_seen(tmp_path):
    a = write(tmp_path / "a", {("main", "load"): 2**20}, "bytes")
    b = write(tmp_path / "b", {("main", "load"): 2**20, ("main", "leak"): 3 * 2**20}, "bytes")
    assert write_flame_difference(a, b, tmp_path / "page.html") == ["+3.00 MiB  leak (leak.py) (0.00 → 3.00 MiB)"]


def test_time_and_memory_are_not_compared_nor_is_nothing(tmp_path):
    time, memory = write(tmp_path / "a", {("f",): 1.0}), write(tmp_path / "b", {("f",): 1.0}, "bytes")
    with pytest.raises(ValueError, match="different units"):
        write_flame_difference(time, memory, tmp_path / "page.html")
    with pytest.raises(ValueError, match="there is nothing in"):
        write_flame_difference(time, write(tmp_path / "c", {}), tmp_path / "page.html")


def test_stacks_are_read_of_events_as_well(tmp_path):
    events = [("O", 0, 0.0), ("O", 1, 1.0), ("C", 1, 3.0), ("C", 0, 4.5)]
    profile = {"type": "evented", "name": "w", "unit": "seconds", "startValue": 0.0, "endValue": 4.5}
    profile["events"] = [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]
    path = tmp_path / "a"
    path.write_text(json.dumps({"shared": {"frames": [{"name": "f"}, {"name": "g"}]}, "profiles": [profile]}))
    assert [(stack.frames, stack.weight) for stack in read_stacks(path)] == [
        (("w", "f"), 1.0),
        (("w", "f", "g"), 2.0),
        (("w", "f"), 1.5),
    ]


def test_the_command_takes_two_files_and_tells_what_differs_most(tmp_path, capsys):
    a, b = write(tmp_path / "a", {("f",): 1.0}), write(tmp_path / "b", {("g",): 1.0})
    assert main(["diff", str(a), str(b), f"--output={tmp_path / 'd.html'}"]) == 0
    assert "+100.0 points  g (g.py)" in capsys.readouterr().out
    assert (tmp_path / "d.html").exists()
    b.write_text("[]")
    assert main(["diff", str(a), str(b), f"--output={tmp_path / 'e.html'}"]) == 2
    assert "no speedscope document" in capsys.readouterr().err
