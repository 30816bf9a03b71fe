"""What the second verdicts are measured with: what is right, and how many have to be."""

from __future__ import annotations

import json

import pytest

from benchmarks.checks import second_verdicts
from benchmarks.checks.second_verdicts import CASES, main, run
from benchmarks.measuring.runs.drifting_run import DRIFTS
from sample_profiler.reports.run_report.report import make_report
from tests.analysis.learning.test_verdict import session_of


@pytest.fixture
def report(monkeypatch):
    """Have runs that are made leave figures such as these."""

    def make(**figures):
        made = make_report("run", session_of(**figures), None)
        monkeypatch.setattr(second_verdicts, "_train", lambda *_: None)
        monkeypatch.setattr(second_verdicts, "load_report", lambda _: made)

    return make


def test_a_cause_is_right_where_it_is_said_and_where_nothing_is_wrong_nothing_may_be_said(report):
    report(input_scale=500.0)
    assert run("a large input")["is_right"]
    assert not run("gamma 0.5")["is_right"]
    assert not run("nothing spoilt")["is_right"]
    report()
    assert run("nothing spoilt")["is_right"]
    assert run("nothing spoilt")["said"] == []


def test_every_drift_has_a_case():
    assert {case.drifts for case in CASES.values() if case.drifts} == set(DRIFTS)


def test_all_but_one_of_twenty_have_to_be_right(tmp_path, monkeypatch, capsys):
    answers = []
    monkeypatch.setattr(
        second_verdicts, "run", lambda name: {"case": name, "is_right": answers.pop(), "said": [], "text": ""}
    )
    for wrong, status in ((1, 0), (2, 1)):
        answers[:] = [False] * wrong + [True] * (20 - wrong)
        output = tmp_path / f"{wrong}.jsonl"
        assert main(["--rounds", "20", "--cases", "gamma 0.5", "--output", str(output)]) == status
        assert f"gamma 0.5: {20 - wrong} of 20" in capsys.readouterr().out
        assert len([json.loads(line) for line in output.read_text().splitlines()]) == 21
