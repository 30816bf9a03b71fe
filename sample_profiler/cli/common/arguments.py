"""Owns what the command lines of several commands have in common: arguments, and what their texts stand for."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

__all__ = [
    *("CommandParser", "Commands", "add_allow_different_machines", "add_run_dir", "as_count", "as_names"),
    *("as_output_file", "as_seconds", "as_share", "taken_literally"),
]

_MOST_SECONDS = 86_400  # a day; clocks and sleeps raise at numbers far above

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"


class CommandParser(argparse.ArgumentParser):
    """A parser of the words behind a command.

    Args:
        prepare: writes them as argparse understands them.
        options: of argparse.
    """

    def __init__(self, *, prepare: Callable[[Sequence[str]], Sequence[str]] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._prepare = prepare

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse words; those of this process, if none are given."""
        if args is not None and self._prepare is not None:
            args = self._prepare(args)
        return super().parse_known_args(args, namespace)


def taken_literally(words: Sequence[str]) -> Sequence[str]:
    """Keep argparse from taking any of these words for a flag of its own."""
    return ["--", *words]


def add_run_dir(parser: argparse.ArgumentParser) -> None:
    """Add the folder of the run that a command is about."""
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="the run's folder, {train_dir}/{experiment}")


def add_allow_different_machines(parser: argparse.ArgumentParser) -> None:
    """Add the flag with which runs are compared whatever they ran on."""
    parser.add_argument(
        "--allow-different-machines", action="store_true", help="compare runs of different machines, too"
    )


def as_output_file(text: str) -> Path:
    """Return where a link to a file leads to, such as /dev/stdout: it stays a link, and the file is replaced."""
    return Path(os.path.realpath(text) if os.path.islink(text) and os.path.isfile(text) else text)


def as_names(text: str) -> list[str]:
    """Return what is between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def as_count(text: str) -> int:
    """Return a number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 1 on")
    return int(text)


def as_seconds(text: str) -> float:
    """Return a time that clocks can do."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of seconds above 0 and at most {_MOST_SECONDS:,}")
    return number


def as_share(text: str, is_allowed: Callable[[float], bool], most: float = 100) -> float:
    """Return a percentage as a share.

    Args:
        text: with or without its sign.
        is_allowed: tells whether so many percent are.
        most: of what is allowed, or just above it.
    """
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not is_allowed(percent):
        raise argparse.ArgumentTypeError(f"{text!r}: give a percentage between 0 and {most:g}, such as 5%")
    return percent / 100
