"""The command `sample-profiler`: which command lines it understands, and what it says to others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sample_profiler import __version__
from sample_profiler.cli import main as main_module
from sample_profiler.cli.live_capture import CaptureRequest
from sample_profiler.cli.main import main


@pytest.fixture
def asked(monkeypatch):
    """What the command line asked for, instead of doing it."""
    asked = []
    monkeypatch.setattr(main_module, "capture", lambda *arguments: asked.append(arguments) or 0)
    monkeypatch.setattr(main_module, "status", lambda *arguments, **named: asked.append((*arguments, named)) or 0)
    return asked


def test_a_capture_has_defaults(asked):
    assert main(["capture", "train_dir/doom"]) == 0
    assert asked == [(Path("train_dir/doom"), CaptureRequest("timeline", None, None, 5.0), None)]


def test_a_capture_with_everything(asked):
    argv = ["capture", "run", "--tool", "torch", "--components", "rollout, learner", "--workers=0,1"]
    assert main([*argv, "--seconds", "1.5", "--output", "trace.json"]) == 0
    request = CaptureRequest("torch", ["rollout", "learner"], [0, 1], 1.5)
    assert asked == [(Path("run"), request, Path("trace.json"))]


def test_status_once_and_again_and_again(asked):
    assert main(["status", "run"]) == 0
    assert main(["status", "run", "--watch"]) == 0
    assert asked == [(Path("run"), {"watch": False}), (Path("run"), {"watch": True})]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["dance"], "invalid choice: 'dance'"),
        (["capture"], "RUN_DIR"),
        (["status"], "RUN_DIR"),
        (["capture", "run", "--tool", "perf"], "invalid choice: 'perf'"),
        (["capture", "run", "--seconds", "0"], "'0': give a number of seconds above 0"),
        (["capture", "run", "--seconds", "-1"], "'-1': give a number of seconds above 0"),
        (["capture", "run", "--seconds", "nan"], "'nan': give a number"),
        (["capture", "run", "--seconds", "inf"], "'inf': give a number"),
        (["capture", "run", "--seconds", "five"], "'five': give a number"),
        (
            ["capture", "run", "--components", "rolout"],
            "rollout, inference, learner, batcher, evaluator, runner",
        ),
        (["capture", "run", "--components", ","], "give some of rollout"),
        (["capture", "run", "--workers", "one"], "'one': give numbers of rollout workers from 0 on"),
        (["capture", "run", "--workers", ""], "give numbers of rollout workers"),
        (["capture", "run", "--workers=-1"], "give numbers of rollout workers"),
    ],
)
def test_a_wrong_command_line_is_told_what_is_allowed(asked, capsys, arguments, message):
    with pytest.raises(SystemExit) as ending:
        main(arguments)
    assert ending.value.code == 2
    assert message in capsys.readouterr().err
    assert asked == []


def test_the_exit_status_is_that_of_the_command(monkeypatch):
    monkeypatch.setattr(main_module, "status", lambda *_, **__: 2)
    assert main(["status", "run"]) == 2


def test_ctrl_c_is_no_traceback(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(main_module, "capture", interrupt)
    assert main(["capture", "run"]) == 130


@pytest.mark.parametrize("command", [[], ["capture"], ["status"]])
def test_help_helps(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as ending:
        main([*command, "--help"])
    assert ending.value.code == 0
    printed = capsys.readouterr().out
    if command:
        assert "examples:\n  sample-profiler " in printed
    for word in ("capture", "status") if not command else ("RUN_DIR",):
        assert word in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_the_examples_of_the_help_are_understood(asked, capsys):
    for command in ("capture", "status"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
        examples = [line.partition("  ")[0].split() for line in lines if line.startswith("sample-profiler ")]
        assert len(examples) >= 2
        for _, *arguments in examples:
            assert main(arguments) == 0
    assert len(asked) == 5


def test_the_package_is_a_command_and_knows_its_version():
    command = [sys.executable, "-m", "sample_profiler", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == f"sample_profiler {__version__}\n"


def test_a_reader_who_has_seen_enough_gets_no_traceback(tmp_path):
    (tmp_path / "profile").mkdir()
    command = f"{sys.executable} -m sample_profiler capture --help | head -n 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    assert result.stdout.startswith("usage: sample-profiler capture")


@pytest.mark.parametrize("seconds", ["1e10", "86401", "inf", "nan", "0", "-1", "soon"])
@pytest.mark.parametrize("command", [("watch", "--interval"), ("watch", "--window"), ("trace", "--seconds")])
def test_seconds_that_no_clock_can_do_are_told_with_what_is_allowed(command, seconds, tmp_path, capsys):
    name, flag = command
    with pytest.raises(SystemExit) as ended:
        main([name, str(tmp_path), f"{flag}={seconds}"])
    assert ended.value.code == 2
    assert f"{seconds!r}: give a number of seconds above 0 and at most 86,400" in capsys.readouterr().err
