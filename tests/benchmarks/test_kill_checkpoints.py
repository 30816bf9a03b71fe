"""What is kept of kills, what is repeated, and what all of them come to; real ones are in tests/faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import kill_checkpoints
from benchmarks.kill_checkpoints import Kill, LostError, kill_savings, main

SMALL = ("--kills=2", "--run_kills=3", "--mb=0.1")


def make_kill(kind, number, problem=""):
    return Kill(kind, number, 0.1, 5, 6, 7, number == 1, problem)


@pytest.fixture
def asked(monkeypatch):
    """Stand in for the kills; return which were made, and what was lost by them."""
    numbers, problems = [], {}

    def make(kind, wanted):
        for number in wanted:
            numbers.append((kind, number))
            yield make_kill(kind, number, problems.get((kind, number), ""))

    monkeypatch.setattr(kill_checkpoints, "kill_savings", lambda wanted, *_: make("saving", wanted))
    monkeypatch.setattr(kill_checkpoints, "kill_runs", lambda wanted, _: make("run", wanted))
    return numbers, problems


def test_each_kill_is_a_line_and_only_missing_ones_are_made(asked, tmp_path, capsys):
    numbers, _ = asked
    path = tmp_path / "kills.jsonl"
    assert main([*SMALL, f"--output={path}"]) == 0
    lines = path.read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [0, 1, 0, 1, 2]
    path.write_text("\n".join(lines[:3]) + "\n" + lines[3][:20])  # as a kill of this command leaves it
    numbers.clear()
    assert main([*SMALL, f"--output={path}"]) == 0
    assert numbers == [("run", 1), ("run", 2)]
    output = capsys.readouterr().out
    assert "2 kills of a process that saves, 1 of them while" in output
    assert "3 kills of a run on CartPole, 1 of them while a file was being written, 3 after" in output
    assert "nothing was lost" in output and "not there yet" not in output


def test_when_the_time_is_up_the_others_are_told_of(asked, tmp_path, capsys):
    assert main([*SMALL, f"--output={tmp_path / 'kills.jsonl'}", "--seconds=0"]) == 3
    assert "5 kills are not there yet" in capsys.readouterr().out


def test_what_is_lost_fails_also_later(asked, tmp_path, capsys):
    _, problems = asked
    problems["run", 1] = "9 steps were saved, 7 were loaded"
    for _ in range(2):
        assert main([*SMALL, f"--output={tmp_path / 'kills.jsonl'}"]) == 1
        output = capsys.readouterr().out
        assert "run 1: 9 steps were saved, 7 were loaded" in output and "nothing was lost" not in output
        assert "2 times the next start went on" in output


class Run:
    """Stands in for a run; one of its kills may be its last."""

    lost = -1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def start(self):
        pass

    def kill(self, number, after_s):
        return make_kill("run", number, "lost" if number == self.lost else "")

    def finish(self, number):
        return make_kill("end", number)


@pytest.mark.parametrize(
    ("lost", "seen"),
    [
        (-1, [("run", 0), ("run", 1), ("run", 2), ("end", 2)]),
        (1, [("run", 0), ("run", 1), ("run", 2), ("end", 2)]),
        (2, [("run", 0), ("run", 1), ("run", 2)]),
    ],
)
def test_after_a_loss_another_run_is_killed_and_the_last_comes_to_its_end(monkeypatch, lost, seen):
    monkeypatch.setattr(Run, "lost", lost)
    monkeypatch.setattr(kill_checkpoints, "KilledRun", Run)
    kills = list(kill_checkpoints.kill_runs(range(3), 0))
    assert [(kill.kind, kill.number) for kill in kills] == seen
    assert [kill.number for kill in kills if kill.problem] == [lost] * (lost >= 0)


def test_a_run_that_does_not_start_is_a_line(monkeypatch):
    def fail(_):
        raise LostError("no start")

    monkeypatch.setattr(Run, "start", fail)
    monkeypatch.setattr(kill_checkpoints, "KilledRun", Run)
    kills = list(kill_checkpoints.kill_runs([4, 5], 0))
    assert [(kill.kind, kill.number, kill.problem) for kill in kills] == [
        ("run", 4, "no start"),
        ("run", 5, "no start"),
    ]


def test_a_state_that_is_lost_is_a_line_and_the_next_kill_begins_anew(monkeypatch):
    seen: list[tuple[Path, int]] = []

    def kill_once(folder, first, *_):
        seen.append((folder, first))
        return first + 3, False

    monkeypatch.setattr(kill_checkpoints, "kill_once", kill_once)
    monkeypatch.setattr(kill_checkpoints, "load_state", lambda folder, saved, _: saved if len(seen) != 2 else fail())

    def fail():
        raise LostError("older")

    kills = list(kill_savings(range(3), 1, 0))
    assert [kill.problem for kill in kills] == ["", "older", ""]
    assert [first for _, first in seen] == [0, 4, 0] and seen[2][0] != seen[1][0]
