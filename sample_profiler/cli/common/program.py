"""Owns what a program that trains or plays is called with, and what `sample-profiler` makes of an environment's name.

Every process of a run may import the main script, and this module with it: what only the program itself needs is
imported when it is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from sample_profiler.cli.common.arguments import Commands

__all__ = ["Program", "add_gymnasium_parser", "gymnasium_program"]


@dataclass(frozen=True)
class Program:
    """A program that trains or plays.

    Attributes:
        argv: its command line, without its name.
        extra_parts: dataclasses with options beyond those of every run.
        defaults: values that count instead of the flags' own defaults, by flag.
        introduction: what its help begins with; empty: how a module is called.
    """

    argv: Sequence[str]
    extra_parts: Sequence[type] = ()
    defaults: Mapping[str, Any] | None = None
    introduction: str = ""

    def has_shown_help(self) -> bool:
        """Print the help if the command line asks for it, and tell whether it does."""
        from sample_profiler.config import format_help, wants_help

        if not wants_help(self.argv):
            return False
        print(format_help(introduction=self.introduction, extra_parts=self.extra_parts, defaults=self.defaults))
        return True


def add_gymnasium_parser(commands: Commands, name: str, text: str, run: Callable[[argparse.Namespace], int]) -> None:
    """Add a command whose line is that of a program, but for the id of Gymnasium that comes first.

    Args:
        commands: of `sample-profiler`.
        name: of the command.
        text: what it does.
        run: does it, with the line as `words`; returns its exit status.
    """
    from sample_profiler.cli.common.arguments import taken_literally

    parser = commands.add_parser(name, help=text, add_help=False, prepare=taken_literally)
    parser.add_argument("words", nargs="*")
    parser.set_defaults(run=run)


def gymnasium_program(words: Sequence[str], introduction: str, extra_parts: Sequence[type] = ()) -> Program:
    """Return a program for any environment that Gymnasium knows; from now on its ids are names of environments.

    Args:
        words: the id, unless a flag comes first, and flags.
        introduction: what its help begins with.
        extra_parts: as of a `Program`.
    """
    from sample_profiler.envs.gymnasium_ids import gym_defaults, register_gym_envs

    register_gym_envs()
    _find_modules_here()
    has_id = bool(words) and not words[0].startswith("-")
    argv = [f"--env={words[0]}", *words[1:]] if has_id else list(words)
    return Program(argv, extra_parts, gym_defaults(argv), introduction)


def _find_modules_here() -> None:
    """Let a module that registers an id be in the current folder, as for `python -m`, unless Python is told not to.

    It comes last, so that no file that happens to lie there takes the place of another module.
    """
    here = os.getcwd()
    if here not in sys.path and not getattr(sys.flags, "safe_path", False):
        sys.path.append(here)
