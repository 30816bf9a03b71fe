"""Ctrl+C while programs of the package import what they need, and in programs of others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sample_profiler.runtime.signals import early_interrupts
from sample_profiler.runtime.signals.early_interrupts import (
    end_silently_if_program,
    end_silently_when_interrupted,
    interrupts_raising,
)
from sample_profiler.runtime.signals.ending_signals import signals_raising

ROOT = Path(__file__).resolve().parents[3]
INTERRUPTED = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
"""In the place of a package that takes long to import: Ctrl+C comes just then."""


@pytest.fixture
def handler():
    """The handling of Ctrl+C at the start of a program; what it was comes back in the end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def run_python(tmp_path, *arguments, interrupted="numpy"):
    (tmp_path / f"{interrupted}.py").write_text(INTERRUPTED)
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )


@pytest.mark.parametrize(
    ("module", "interrupted"),
    [
        *(("sf_examples.gym.train_gym", package) for package in ("numpy", "gymnasium", "rich")),
        ("sf_examples.gym.enjoy_gym", "numpy"),
        ("sf_examples.custom.train_custom_env", "gymnasium"),
        ("sample_profiler", "numpy"),
    ],
)
def test_a_program_that_still_imports_what_it_needs_ends_without_a_word(tmp_path, module, interrupted):
    result = run_python(tmp_path, "-m", module, "status", interrupted=interrupted)
    assert (result.returncode, result.stdout, result.stderr) == (128 + signal.SIGINT, "", "")


def test_a_program_of_somebody_else_that_imports_the_examples_keeps_its_signals(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(
        "import signal, sf_examples, sample_profiler\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    (tmp_path / "mine" / "program.py").write_text("import sf_examples.gym.train_gym\n")
    result = run_python(tmp_path, "-m", "mine.program", "-m", "sf_examples.gym.train_gym")
    assert result.returncode == -signal.SIGINT
    assert result.stderr.rstrip().endswith("KeyboardInterrupt")


def test_an_example_that_never_takes_interrupts_back_keeps_its_signals(tmp_path):
    result = run_python(tmp_path, "-m", "sf_examples.standalone.ppo_cartpole")
    assert result.returncode == -signal.SIGINT
    assert result.stderr.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("argv", [["-c"], ["program.py", "-m"], [], ["-m"]])
def test_only_programs_of_the_package_are_meant(handler, monkeypatch, argv):
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", ["python", *argv])
    end_silently_if_program("sf_examples")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_work_that_can_be_interrupted_in_order_is(handler):
    end_silently_when_interrupted()
    assert signal.getsignal(signal.SIGINT) is early_interrupts._end
    for raising in (interrupts_raising, signals_raising):
        with pytest.raises(KeyboardInterrupt), raising():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is early_interrupts._end


@pytest.mark.parametrize("theirs", [signal.SIG_IGN, signal.SIG_DFL, lambda *_: None])
def test_whoever_handles_interrupts_already_goes_on_to(handler, theirs):
    signal.signal(signal.SIGINT, theirs)
    end_silently_when_interrupted()
    with interrupts_raising():
        assert signal.getsignal(signal.SIGINT) == theirs
    assert signal.getsignal(signal.SIGINT) == theirs
