"""Owns `sample-profiler enjoy`, and the function with which every `enjoy_*` program plays."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sample_profiler.cli.common.program import Program, add_gymnasium_parser, gymnasium_program
from sample_profiler.config.parts import EvaluationOptions

if TYPE_CHECKING:
    import argparse

    from sample_profiler.cli.common.arguments import Commands
    from sample_profiler.cli.playing.results import PlayResult
    from sample_profiler.components.evaluation import PlayedEpisode

__all__ = ["add_parser", "enjoy", "run"]

_INTRODUCTION = """\
Usage: sample-profiler enjoy ENV [--flag=value …]

Plays a policy that was trained on ENV, any id that Gymnasium knows, prints its rewards, and saves a
video if asked for. ENV stands for --env=ENV; --experiment and --train_dir say which run. All other
flags are those that it was trained with, and those of python -m sf_examples.gym.enjoy_gym; other
families have programs of their own, such as python -m sf_examples.vizdoom.enjoy_vizdoom.

examples:
  sample-profiler enjoy CartPole-v1 --max_num_episodes=5 --no_render
  sample-profiler enjoy Pendulum-v1 --experiment=pendulum --save_video"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like: its words are those of an `enjoy_*` program, but for the first one."""
    add_gymnasium_parser(commands, "enjoy", "watch a policy play that was trained so", run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status, which is that of `enjoy`."""
    return _enjoy(gymnasium_program(arguments.words, _INTRODUCTION, (EvaluationOptions,)))


def enjoy(
    argv: Sequence[str] | None = None,
    *,
    extra_parts: Sequence[type] = (),
    defaults: Mapping[str, Any] | None = None,
) -> PlayResult:
    """Play a policy of a run as a command line says.

    Args:
        argv: the command line without the program's name; None: of this process. `--env`, `--experiment` and
            `--train_dir` say which run; its other flags are those it was trained with.
        extra_parts: dataclasses with the options of the environment family.
        defaults: values the family has instead of the flags' own defaults, by flag.

    Returns:
        Exit status, for `sys.exit`: 0: all episodes were played; 2: the run, its flags or the environment cannot be
        used; 129, 130 or 143: a closed terminal (SIGHUP), Ctrl+C or SIGTERM ended it. It also has the `episodes` that
        were played to their end, and their `mean_reward`.
    """
    argv = sys.argv[1:] if argv is None else argv
    return _enjoy(Program(argv, (*extra_parts, EvaluationOptions), defaults))


def _enjoy(program: Program) -> PlayResult:
    from sample_profiler.cli.playing.results import PlayResult

    if program.has_shown_help():
        return PlayResult(0)
    from sample_profiler.cli.playing.playing import play_as_told

    episodes: list[PlayedEpisode] = []
    return PlayResult(play_as_told(program, episodes), episodes)
