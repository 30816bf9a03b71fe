"""Commands that the README and the pages tell to enter can be entered: their flags exist, and quick ones do as told."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sample_profiler.cli.main import main as command_line
from sample_profiler.config import parse_run_config
from sample_profiler.envs.registry import export_registration
from tests.docs.pages import PAGES, ROOT, commands

COMMANDS = [pytest.param(words, id=shlex.join(words)[:80]) for page in PAGES for words in commands(page)]
READING = {"diff", "report", "status", "trace", "verdict"}  # what runs have left: quick
RUNNING = {"enjoy", "eval", "train"}  # argparse leaves their flags to those who run something
BIN = ".venv/bin/"


class UnderstoodError(BaseException):
    """Raised where a command line has been parsed: nothing is done that it asks for."""


@pytest.fixture
def understand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[..., Any], Sequence[str]], None]:
    """Check that a program understands its command line."""
    parse_args = argparse.ArgumentParser.parse_args

    def parse_only(self: argparse.ArgumentParser, *arguments: Any) -> argparse.Namespace:
        parsed = parse_args(self, *arguments)
        if getattr(parsed, "command", "") in RUNNING:
            return parsed
        raise UnderstoodError

    def parse_run_only(argv: Sequence[str] | None, **options: Any) -> None:
        config = parse_run_config(argv, **options)
        export_registration(config.run.env)  # there is one of that name
        raise UnderstoodError

    def measure_nothing(*_: Any) -> None:
        raise UnderstoodError

    def check(main: Callable[..., Any], argv: Sequence[str]) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
        for name in ("training.training", "playing.playing", "playing.evaluating"):
            name = f"sample_profiler.cli.{name}"
            monkeypatch.setattr(importlib.import_module(name), "parse_run_config", parse_run_only)
        # It parses twice: its own flags, and those of the family of the environment.
        monkeypatch.setattr(importlib.import_module("benchmarks.env_alone"), "measure_alone", measure_nothing)
        monkeypatch.setattr(sys, "argv", ["program", *argv])
        with pytest.raises(UnderstoodError):
            main(*([argv] if inspect.signature(main).parameters else []))

    return check


def training_program(words: Sequence[str]) -> tuple[Callable[..., Any], list[str]]:
    """Return main function and arguments of `python -m module …` or `python path …`, whichever profiler runs it."""
    for index, word in enumerate(words):
        if word.endswith(".py"):
            assert (ROOT / word).is_file(), word
            return importlib.import_module(word.removesuffix(".py").replace("/", ".")).main, list(words[index + 1 :])
        if word == "-m" and words[index + 1] != "cProfile":
            return importlib.import_module(words[index + 1]).main, list(words[index + 2 :])
    raise AssertionError(f"no program in {words}")


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_exists_and_so_do_its_flags(words: list[str], understand: Any) -> None:
    program, *arguments = [words[0].removeprefix(BIN), *words[1:]]
    match program:
        case "make":
            targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
            assert arguments[0] in targets
        case "source":
            assert arguments == [f"{BIN}activate"]
        case "tensorboard":
            assert arguments == ["--logdir=train_dir"]
        case "sample-profiler":
            understand(command_line, arguments)
            if arguments[0] == "compare":
                check_compared(arguments, understand)
        case "echo":
            assert arguments == ["$?"]
        case "python" if arguments[0] == "-c":
            compile(arguments[1], "command", "exec")
        case "python" | "pyinstrument" | "yappi":
            understand(*training_program(arguments))
        case _:
            pytest.fail(f"nobody knows {program}")


def check_compared(arguments: Sequence[str], understand: Any) -> None:
    """Check that the training understands the flags of both settings, too."""
    start = arguments.index("--") + 1
    main, flags = training_program(arguments[start:])
    for name in ("--a", "--b"):
        understand(main, [*flags, *shlex.split(arguments[arguments.index(name) + 1])])


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run."""
    folder = tmp_path_factory.mktemp("pages")
    flags = ("--serial_mode=True", "--async_rl=False", "--num_workers=1", "--train_for_env_steps=8192")
    module = ("-m", "sf_examples.gym.train_gym", "--env=CartPole-v1", "--experiment=run")
    result = subprocess.run(
        [sys.executable, *module, *flags], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True
    )
    assert result.returncode == 0, result.stderr
    return folder / "train_dir" / "run"


@pytest.mark.whole_run
@pytest.mark.parametrize("words", [each for each in COMMANDS if set(each.values[0][1:2]) & READING])
def test_a_command_that_reads_what_a_run_has_left_does(
    words: list[str], run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (word for word in words[2:] if "/" in word):
        shutil.copytree(run_dir, folder)
    assert command_line(words[1:]) == 0
    assert capsys.readouterr().out.strip()
