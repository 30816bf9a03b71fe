"""The command `sample-profiler`: which command lines it understands, and what it says to others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sample_profiler.cli.capture.live import CaptureRequest
from sample_profiler.cli.main import main
from sample_profiler.errors import ConfigError, SessionError, TooSlowError, UsageError
from sample_profiler.version import __version__

COMMANDS = (
    "capture",
    "compare",
    "diff",
    "doctor",
    "enjoy",
    "report",
    "status",
    "trace",
    "train",
    "tune",
    "watch",
    "whatif",
)


@pytest.fixture
def asked(monkeypatch):
    """What the command line asked for, instead of doing it."""
    asked = []
    monkeypatch.setattr("sample_profiler.cli.capture.capture.capture", lambda *arguments: asked.append(arguments))
    monkeypatch.setattr(
        "sample_profiler.cli.status.status", lambda *arguments, **named: asked.append((*arguments, named))
    )
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


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (SessionError("it is no run"), 2, "sample-profiler status: it is no run\n"),
        (UsageError("two\nlines\x1b[2J"), 2, "sample-profiler status: two\nlines\\x1b[2J\n"),
        (ConfigError(["one", "another"]), 2, "sample-profiler status: 2 problems with the options:\n"),
        (TooSlowError("by far"), 1, "sample-profiler status: by far\n"),
        (KeyboardInterrupt(), 130, ""),
        (KeyboardInterrupt("what there is is kept"), 130, "what there is is kept\n"),
        (OSError(28, "No space left on device"), 2, "sample-profiler status: cannot write what there is to say: [Err"),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_what_a_command_raises_is_told_in_one_place_with_its_exit_status(monkeypatch, capsys, error, status, told):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("sample_profiler.cli.status.status", fail)
    monkeypatch.setattr("sample_profiler.cli.main.write_to_nowhere", lambda _: None)
    assert main(["status", "run"]) == status
    captured = capsys.readouterr()
    assert captured.err.startswith(told) and bool(captured.err) == bool(told)
    assert captured.out == ""


def test_an_error_that_is_none_of_the_package_has_its_traceback(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("sample_profiler.cli.status.status", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["status", "run"])


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("    ")]
    assert [name for name in listed if name in COMMANDS] == list(COMMANDS)


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
    assert len(asked) == 7


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
