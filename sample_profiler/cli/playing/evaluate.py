"""Owns `sample-profiler eval`, and the function with which programs of one's own play many episodes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sample_profiler.cli.common.program import Program, add_gymnasium_parser, gymnasium_program
from sample_profiler.config.parts import ManyEpisodesOptions

if TYPE_CHECKING:
    import argparse

    from sample_profiler.cli.common.arguments import Commands
    from sample_profiler.cli.playing.results import PlayResult
    from sample_profiler.components.evaluation import PlayedEpisode

__all__ = ["add_parser", "evaluate", "run"]

_INTRODUCTION = """\
Usage: sample-profiler eval ENV [--flag=value …]

Plays many episodes at once with a policy that was trained on ENV, any id that Gymnasium knows, and
writes what each was like into eval_p0.csv and eval_p0.json in the run's folder. ENV stands for
--env=ENV; --experiment and --train_dir say which run. Environments of one's own have
sample_profiler.evaluate(argv).

examples:
  sample-profiler eval CartPole-v1 --max_num_episodes=500
  sample-profiler eval Pendulum-v1 --experiment=pendulum --load_checkpoint_kind=best --eval_workers=4"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like: an id first, and then flags as of `enjoy`."""
    add_gymnasium_parser(commands, "eval", "play many episodes at once, to CSV and JSON", run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status, which is that of `evaluate`."""
    return _evaluate(gymnasium_program(arguments.words, _INTRODUCTION, (ManyEpisodesOptions,)))


def evaluate(
    argv: Sequence[str] | None = None,
    *,
    extra_parts: Sequence[type] = (),
    defaults: Mapping[str, Any] | None = None,
) -> PlayResult:
    """Play many episodes at once with a policy of a run, in processes, without a window.

    Each of `--eval_workers` processes plays its share of `--max_num_episodes`, whatever its episodes take, so that
    short ones have no better chance to count. Results are in `eval_p{policy}.csv` and `.json` in the run's folder, or
    in `--eval_folder`; with a `--seed`, the same for the same number of workers.

    Args:
        argv: the command line without the program's name; None: of this process. `--env`, `--experiment` and
            `--train_dir` say which run; its other flags are those it was trained with.
        extra_parts: dataclasses with the options of the environment family.
        defaults: values the family has instead of the flags' own defaults, by flag.

    Returns:
        Exit status, as of `enjoy`, with the `episodes` in the order in which they ended, and their `mean_reward`.
    """
    argv = sys.argv[1:] if argv is None else argv
    return _evaluate(Program(argv, (*extra_parts, ManyEpisodesOptions), defaults))


def _evaluate(program: Program) -> PlayResult:
    from sample_profiler.cli.playing.results import PlayResult

    if program.has_shown_help():
        return PlayResult(0)
    from sample_profiler.cli.playing.evaluating import evaluate_as_told

    episodes: list[PlayedEpisode] = []
    return PlayResult(evaluate_as_told(program, episodes), episodes)
