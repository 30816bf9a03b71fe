"""`sample-profiler whatif` that is ended before all is measured."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sample_profiler.analysis.facts import RunFacts
from sample_profiler.cli import whatif as module
from sample_profiler.cli.main import main
from sample_profiler.errors import SessionError


@pytest.fixture
def asked(monkeypatch):
    """Let a run answer without one; its facts are those of nothing."""
    questions = []
    client = SimpleNamespace(ask=lambda question: questions.append(question) or {"slowed": 1}, close=lambda: None)
    monkeypatch.setattr(module, "ControlClient", lambda _: client)
    monkeypatch.setattr(module, "look", lambda *_: RunFacts(1.0, 0.0, None, None, None, False, ()))
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    return questions


@pytest.mark.parametrize(("end", "status"), [(KeyboardInterrupt(), 130), (SessionError("it is over"), 2)])
@pytest.mark.parametrize("num_measured", [0, 4])
def test_what_was_measured_until_the_end_is_printed(asked, end, status, num_measured, tmp_path, monkeypatch, capsys):
    left = [100.0, 80.0, 100.0, 90.0][:num_measured]

    def throughput(*_):
        if not left:
            raise end
        return left.pop(0)

    monkeypatch.setattr(module, "_throughput", throughput)
    assert main(["whatif", str(tmp_path)]) == status
    output = capsys.readouterr().out
    assert ("weight" in output) == bool(num_measured)
    if num_measured:
        assert "stepping environments" in output.splitlines()[-3] + output.splitlines()[-2]
        assert "training" not in output.partition("weight")[2], "not measured"
    assert [question["share"] for question in asked[-3:]] == [0.0] * 3, "nothing stays slowed"


@pytest.mark.parametrize("error", [ConnectionError("gone"), ValueError("half an answer")], ids=str)
def test_a_stage_that_cannot_be_reset_neither_hides_the_end_nor_leaves_the_others_slowed(
    asked, error, tmp_path, monkeypatch
):
    class Client:
        """Is interrupted when the first stage is slowed, and cannot reset it."""

        def ask(self, question):
            asked.append(question)
            if question["share"]:
                raise KeyboardInterrupt
            if len(asked) > 1 and asked[-2]["share"]:
                raise error
            return {"slowed": 1}

        def close(self):
            pass

    monkeypatch.setattr(module, "ControlClient", lambda _: Client())
    monkeypatch.setattr(module, "_throughput", lambda *_: 100.0)
    assert main(["whatif", str(tmp_path)]) == 130
    assert [(question["stage"], question["share"]) for question in asked[-3:]] == [(s, 0.0) for s in module.STAGES]
