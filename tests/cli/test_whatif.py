"""`sample-profiler whatif` that is ended before all is measured."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from sample_profiler.analysis.facts import RunFacts
from sample_profiler.cli import slowing as module
from sample_profiler.cli import whatif as command_module
from sample_profiler.cli.main import main
from sample_profiler.errors import CaptureError, SessionError
from tests.analysis.made_runs import learner

FACTS = RunFacts(1.0, 0.0, None, None, None, False, ())


@pytest.fixture
def asked(monkeypatch):
    """Let a run answer without one; its facts are those of nothing."""
    questions = []
    client = SimpleNamespace(ask=lambda question: questions.append(question) or {"slowed": 1}, close=lambda: None)
    monkeypatch.setattr(command_module, "ControlClient", lambda _: client)
    monkeypatch.setattr(module, "look", lambda *_: FACTS)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    return questions


@pytest.mark.parametrize(("end", "status"), [(KeyboardInterrupt(), 130), (SessionError("it is over"), 2)])
@pytest.mark.parametrize("num_measured", [0, 4])
def test_what_was_measured_until_the_end_is_printed(asked, end, status, num_measured, tmp_path, monkeypatch, capsys):
    left = [100.0, 80.0, 100.0, 90.0][:num_measured]

    def throughput(*_):
        if not left:
            raise end
        return left.pop(0), FACTS

    monkeypatch.setattr(module, "_throughput", throughput)
    assert main(["whatif", str(tmp_path)]) == status
    output = capsys.readouterr().out
    assert ("weight" in output) == bool(num_measured)
    if num_measured:
        assert "stepping environments" in output.splitlines()[-3] + output.splitlines()[-2]
        assert "training" not in output.partition("weight")[2], "not measured"
    assert [question["share"] for question in asked[-3:]] == [0.0] * 3, "nothing stays slowed"


@pytest.mark.parametrize("error", [ConnectionError("gone"), CaptureError("half an answer")], ids=str)
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

    monkeypatch.setattr(command_module, "ControlClient", lambda _: Client())
    monkeypatch.setattr(module, "_throughput", lambda *_: (100.0, FACTS))
    assert main(["whatif", str(tmp_path)]) == 130
    assert [(question["stage"], question["share"]) for question in asked[-3:]] == [(s, 0.0) for s in module.STAGES]


@pytest.mark.parametrize("share", ["0", "1000.1%", "nan", "twice"])
def test_a_slowdown_that_no_run_takes_is_refused(asked, share, tmp_path, capsys):
    with pytest.raises(SystemExit) as ending:
        main(["whatif", str(tmp_path), "--slower", share])
    assert ending.value.code == 2
    assert "give a percentage between 0 and 1000" in capsys.readouterr().err
    assert asked == []


@pytest.mark.parametrize("share", ["100%", "1000%"])
def test_a_stage_may_take_several_times_as_long(asked, share, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_throughput", lambda *_: (100.0, FACTS))
    assert main(["whatif", str(tmp_path), "--slower", share]) == 0
    assert max(question["share"] for question in asked) == float(share[:-1]) / 100


def test_measurements_longer_than_a_stage_may_be_slowed_are_refused_before_any(asked, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "_throughput", lambda *_: (100.0, FACTS))
    assert main(["whatif", str(tmp_path), "--seconds=600"]) == 2
    captured = capsys.readouterr()
    assert "give --seconds and --settle of at most 595 s together" in captured.err
    assert (captured.out, asked) == ("", [])
    assert main(["whatif", str(tmp_path), "--seconds=592", "--settle=3"]) == 0
    assert max(question["seconds"] for question in asked) == 600
    assert main(["whatif", str(tmp_path), "--seconds=500"]) == 0, "it settles for as long as is left"
    assert max(question["seconds"] for question in asked) == 600


def test_few_rounds_have_no_interval(asked, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "_throughput", lambda *_: (100.0, FACTS))
    assert main(["whatif", str(tmp_path), "--rounds=5", "--stages=env"]) == 0
    assert "takes six rounds" in capsys.readouterr().out
    assert main(["whatif", str(tmp_path), "--rounds=6", "--stages=env"]) == 0
    assert "+0 to +0 %" in capsys.readouterr().out


@pytest.mark.parametrize("is_folder", [True, False], ids=["ended", "missing"])
def test_nothing_is_promised_of_a_run_that_does_not_answer(is_folder, tmp_path, capsys):
    run_dir = tmp_path / "mine"
    if is_folder:
        (run_dir / "profile").mkdir(parents=True)
    assert main(["whatif", str(run_dir)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{run_dir} cannot be asked" in captured.err


@pytest.mark.parametrize(
    ("seconds", "num_datasets", "cure"),
    [
        (8, 2, "give --seconds=24"),
        (8, 0, "give --seconds=48"),
        (8, 4, "give --seconds=12"),
        (8, 5, None),
        (300, 1, "give --seconds=396"),  # a stage can be slowed for so long, and half of it to settle
        (396, 1, "none can be longer, but a --batch_size smaller"),
    ],
)
def test_measurements_that_hold_too_few_datasets_are_told(
    asked, seconds, num_datasets, cure, tmp_path, monkeypatch, capsys
):
    load = learner(0.9)
    load.counts["train"] = num_datasets
    monkeypatch.setattr(module, "look", lambda *_: RunFacts(float(seconds), 0.0, None, None, None, False, (load,)))
    monkeypatch.setattr(module, "_throughput", lambda *_: (100.0, FACTS))
    assert main(["whatif", str(tmp_path), "--stages=env", "--rounds=1", f"--seconds={seconds}"]) == 0
    captured = capsys.readouterr()
    assert "weight" in captured.out, "it is measured all the same: environments may not wait for datasets"
    if cure is None:
        assert captured.err == ""
    else:
        assert f"trained on {num_datasets} datasets in {seconds} s" in captured.err
        assert captured.err.endswith(f"{cure}\n")


@pytest.mark.parametrize(
    ("datasets_per_s", "lengths"), [(2.0, [3.0]), (1.0, [3.0, 6.0]), (0.001, [3.0, 18.0, 108.0, 396.0])]
)
def test_measurements_are_as_long_as_some_datasets_take(asked, datasets_per_s, lengths, tmp_path, monkeypatch, capsys):
    looked = []

    def look(_, seconds):
        looked.append(seconds)
        load = learner(0.9)
        load.counts["train"] = int(datasets_per_s * seconds)
        return RunFacts(seconds, 0.0, None, None, None, False, (load,))

    monkeypatch.setattr(module, "look", look)
    monkeypatch.setattr(module, "_throughput", lambda *_: (100.0, FACTS))
    assert main(["whatif", str(tmp_path), "--stages=env", "--rounds=1"]) == 0
    assert looked == lengths
    said = capsys.readouterr()
    assert said.out.count("datasets in") == len(lengths) - 1, "how long it will take is told before"
    assert {question["seconds"] for question in asked if question["share"]} == {1.5 * lengths[-1] + 5}
    assert ("none can be longer" in said.err) == (datasets_per_s < 0.01)


def test_facts_are_those_of_a_run_that_is_not_slowed(asked, tmp_path, monkeypatch):
    slowed = replace(FACTS, seconds=2.0)

    def throughput(*_):
        return (80.0, slowed) if asked[-1]["share"] else (100.0, FACTS)

    monkeypatch.setattr(module, "_throughput", throughput)
    pairs = list(module.measure_pairs(command_module.ControlClient(tmp_path), tmp_path, ["env"], 0.5, 3.0, 1.0, 2))
    assert [question["share"] for question in asked] == [0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0], "in both orders"
    assert pairs == [module.Pair("env", 100.0, 80.0, FACTS)] * 2


def test_a_run_whose_environments_waited_for_all_of_a_measurement_is_not_called_ended(
    asked, tmp_path, monkeypatch, capsys
):
    readings = iter(range(8))
    monkeypatch.setattr(module, "read_live", lambda *_, **__: next(readings))
    monkeypatch.setattr(module, "_count_passes", lambda reading: (100, 1e9 * reading))
    assert main(["whatif", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path} cannot be measured: no environment was stepped for 3 s" in error
    assert error.endswith("then give a longer --seconds\n") and "goes on?" not in error
    assert [question["share"] for question in asked[-3:]] == [0.0] * 3, "nothing stays slowed"
