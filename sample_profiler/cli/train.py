"""Owns `sample-profiler train`, and the function with which every `train_*` program trains.

Every process of a run imports the main script, and this module with it: what only the Runner needs is imported when it
begins to train.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sample_profiler.cli.common.program import Program, add_gymnasium_parser, gymnasium_program
from sample_profiler.profiling.record.process_clock import process_start_ns
from sample_profiler.run.extensions.component import RunComponent, check_components
from sample_profiler.run.observers import RunObserver, check_observers
from sample_profiler.switches import DOCTOR_VARIABLE

if TYPE_CHECKING:
    import argparse

    from sample_profiler.cli.common.arguments import Commands

__all__ = ["add_parser", "run", "train"]

_INTRODUCTION = """\
Usage: sample-profiler train ENV [--flag=value …]

Trains on ENV, any id that Gymnasium knows; module:id imports a module that registers it, from the
current folder, too. ENV stands for --env=ENV, and is left out by who resumes a run. Flags and
defaults are those of python -m sf_examples.gym.train_gym; other families have programs of their
own, such as python -m sf_examples.vizdoom.train_vizdoom, and so have your own environments.

examples:
  sample-profiler train CartPole-v1 --train_for_env_steps=100000
  sample-profiler train Pendulum-v1 --experiment=pendulum --gamma=0.9 --train_for_seconds=60"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like: its words are those of a `train_*` program, but for the first one."""
    add_gymnasium_parser(commands, "train", "train on any environment that Gymnasium knows", run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status, which is that of `train`."""
    started_ns = process_start_ns() if arguments.is_program else time.perf_counter_ns()
    return _train(gymnasium_program(arguments.words, _INTRODUCTION), (), started_ns)


def train(
    argv: Sequence[str] | None = None,
    *,
    extra_parts: Sequence[type] = (),
    defaults: Mapping[str, Any] | None = None,
    observers: Sequence[RunObserver] = (),
    components: Sequence[RunComponent] = (),
) -> int:
    """Train as a command line says.

    Args:
        argv: the command line without the program's name; None: of this process.
        extra_parts: dataclasses with the options of the environment family.
        defaults: values the family has instead of the flags' own defaults, by flag.
        observers: are told how the run goes, in this process.
        components: of one's own, each of which runs in a process of its own beside the others.

    Returns:
        Exit status: 0: the run ended as it should; 1: it failed; 2: the flags or the environment cannot be used;
        129, 130 or 143: a closed terminal (SIGHUP), Ctrl+C or SIGTERM ended it, in order.

    Raises:
        TypeError: an observer is no instance of a RunObserver, a component none of a RunComponent, or a part of the
            options is not usable.
        ValueError: a component's name cannot be used.
    """
    observers, components = check_observers(observers), check_components(components)
    started_ns = process_start_ns() if argv is None else time.perf_counter_ns()
    argv = sys.argv[1:] if argv is None else argv
    return _train(Program(argv, extra_parts, defaults), observers, started_ns, components)


def _train(
    program: Program, observers: Sequence[RunObserver], started_ns: int, components: Sequence[RunComponent] = ()
) -> int:
    if program.has_shown_help():
        return 0
    if DOCTOR_VARIABLE in os.environ:
        from sample_profiler.cli.doctor.program import examine_instead

        return examine_instead(program)
    from sample_profiler.cli.training.training import train_as_told

    return train_as_told(program, observers, started_ns, components)
