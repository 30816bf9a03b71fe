"""`sample-profiler tune`: what it says at the end, what it writes, and what cannot be tuned."""

from __future__ import annotations

import json

import pytest

from sample_profiler.analysis.findings import Advice
from sample_profiler.analysis.verdict import Verdict
from sample_profiler.cli.main import main
from sample_profiler.cli.tune import tune as module
from sample_profiler.cli.tune.trials import FirstRun
from tests.cli.tune.test_settings import FLAGS

COMMAND = ["python", "train.py", "--num_workers=4", "--env=mine"]


@pytest.fixture
def tune(monkeypatch, tmp_path):
    """Tune a command whose runs are made up: twice as fast with two workers, which a verdict has advised."""

    class MadeUp:
        interrupts_after = 1000
        flags = FLAGS
        seconds_left = 75.0
        refused = ()

        def __init__(self, command, output, budget_s, *, may_change_learning):
            self.num_runs = 0
            self.kept = []
            self.problems = dict(self.refused)
            output.mkdir(parents=True, exist_ok=True)

        def num_left(self):
            return 30 - self.num_runs

        def first(self):
            return FirstRun(self.flags, tmp_path, 100.0)

        def measure(self, setting, _):
            self.num_runs += 1
            if self.num_runs > self.interrupts_after:
                raise KeyboardInterrupt
            return 200.0 if dict(setting).get("num_workers") == 2 else 100.0

    advice = (Advice("--num_workers=2", "why"), Advice("a faster environment", "why"))
    verdict = Verdict("environments", "", "Environments limit it", (), advice, 100.0, 5.0)
    monkeypatch.setattr(module, "Trials", MadeUp)
    monkeypatch.setattr(module, "_verdict_of", lambda _: verdict)
    monkeypatch.setattr(module, "num_usable_cores", lambda: 4)

    def tune(*flags, command=COMMAND, **changes):
        for name, value in changes.items():
            setattr(MadeUp, name, value)
        return main(["tune", f"--output={tmp_path / 'out'}", *flags, "--", *command])

    tune.output = tmp_path / "out"
    return tune


def test_it_ends_with_one_command_line_and_what_that_rests_on(tune, capsys):
    assert tune("--minutes=2") == 0
    captured = capsys.readouterr()
    last = captured.out.splitlines()[-1]
    assert last == "python train.py --env=mine --num_envs_per_worker=12 --num_workers=2"
    assert "2.00 ×" in captured.out
    assert "A is the command as it is, B the best." in captured.out
    assert "Environments limit it" in captured.out
    assert captured.err.startswith("  1:15 left  the command as it is")
    page = (tune.output / "tuning.html").read_text()
    assert last in page
    document = json.loads((tune.output / "tuning.json").read_text())
    assert document["best"] == {"num_envs_per_worker": 12, "num_workers": 2}
    assert len(document["runs"]) <= 30


def test_ctrl_c_gives_the_best_so_far(tune, capsys):
    assert tune(interrupts_after=8) == 0
    captured = capsys.readouterr()
    assert "Interrupted" in captured.err
    assert "the same command line goes on" in captured.out
    assert captured.out.splitlines()[-1].startswith("python train.py")


def test_settings_that_cannot_run_are_told_of(tune, capsys):
    tune(refused=[((("transport", "fifo"),), "no such queue")])
    assert "--transport=fifo cannot run: no such queue" in capsys.readouterr().out


def test_what_makes_no_sense_is_told(tune, capsys):
    assert tune(command=[]) == 2
    assert "give the training command after --" in capsys.readouterr().err
    assert tune(flags=FLAGS | {"serial_mode": True}) == 2
    assert "leave it out" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        tune("--minutes=0")
    assert "give minutes from 1" in capsys.readouterr().err
