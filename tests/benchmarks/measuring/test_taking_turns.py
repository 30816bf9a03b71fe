"""Runs take turns, and each is compared with the first one of its round."""

from __future__ import annotations

from benchmarks.measuring.turns import taking_turns


def test_each_round_begins_where_the_one_before_ended(monkeypatch, capsys):
    rates, seen = iter([100.0, 150.0, 300.0, 100.0, 120.0, 240.0]), []
    monkeypatch.setattr(taking_turns, "measure", lambda arm, seconds: seen.append((arm, seconds)) or next(rates))
    arms = {"slow": ("a", ["--x"]), "quick": ("b", [])}
    assert taking_turns.compare("work", arms, 3, 2.0) == {"slow": 1.0, "quick": 2.0}
    assert [arm for (arm, _), _ in seen] == ["a", "b", "b", "a", "a", "b"]
    assert capsys.readouterr().out.splitlines() == [
        "| work | frames/s | to slow |",
        "| --- | --- | --- |",
        "| slow | 100 (100 to 120) | 1.00 (1.00 to 1.00) |",
        "| quick | 240 (150 to 300) | 2.00 (1.50 to 3.00) |",
    ]
