"""What a soak says of a run: growth of memory, and throughput at the end against that at the beginning."""

from __future__ import annotations

import json

import pytest

from benchmarks import soak
from benchmarks.soak import Moment, evaluate, find_problems, main


def moments(memory_of, fps_of, minutes=60):
    frames, seen = 0.0, []
    for index in range(minutes * 6):
        seen.append(Moment(10.0 * index, frames, memory_of(index / 6), 1.0))
        frames += 10 * fps_of(index / 6)
    return seen


def test_memory_that_grows_only_at_first_does_not_count():
    figures = evaluate(moments(lambda minute: 500 + 100 * min(minute, 4), lambda minute: 1000))
    assert figures["memory_mib_per_minute"] == pytest.approx(0)
    assert figures["last_to_first"] == pytest.approx(1)


def test_memory_that_leaks_is_seen_by_the_minute():
    figures = evaluate(moments(lambda minute: 500 + 2.5 * minute, lambda minute: 1000))
    assert figures["memory_mib_per_minute"] == pytest.approx(2.5)


def test_a_run_that_becomes_slower_is_seen():
    figures = evaluate(moments(lambda minute: 500, lambda minute: 1000 if minute < 30 else 900))
    assert figures["last_to_first"] == pytest.approx(0.9)


def test_what_is_too_short_says_nothing():
    with pytest.raises(SystemExit, match="too short"):
        evaluate(moments(lambda minute: 500, lambda minute: 1000, minutes=1)[:4])


@pytest.mark.parametrize(
    ("mib_per_minute", "last_fps", "problems"),
    [
        (0.5, 1000, []),
        (-3.0, 960, []),
        (0.99, 1000, ["memory grows by 1.04 MB a minute, more than 1"]),
        (0.0, 940, ["throughput at last is 0.940 of that at first, more than 5% off"]),
        (0.0, 1060, ["throughput at last is 1.060 of that at first, more than 5% off"]),
        (2.0, 500, ["memory grows by 2.10 MB", "throughput at last is 0.500"]),
    ],
)
def test_the_limits_are_held_to(mib_per_minute, last_fps, problems):
    seen = moments(lambda minute: 500 + mib_per_minute * minute, lambda minute: 1000 if minute < 30 else last_fps)
    found = find_problems(evaluate(seen))
    assert len(found) == len(problems)
    assert all(text.startswith(expected) for text, expected in zip(found, problems, strict=True))


@pytest.mark.parametrize(("mib_per_minute", "status"), [(0.0, 0), (5.0, 1)])
def test_the_exit_status_tells_whether_they_were(monkeypatch, tmp_path, capsys, mib_per_minute, status):
    seen = moments(lambda minute: 500 + mib_per_minute * minute, lambda minute: 1000)
    monkeypatch.setattr(soak, "watch", lambda *_: (seen, 0))
    assert main(["--task=cartpole", f"--output={tmp_path}"]) == status
    assert ("FAILED: memory grows" in capsys.readouterr().out) == bool(status)
    assert json.loads((tmp_path / "soak-cartpole.json").read_text())["task"] == "cartpole"
