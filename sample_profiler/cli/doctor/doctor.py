"""Owns `sample-profiler doctor`: what is wrong with an environment, looked at alone.

The environment of a program of one's own is registered by that program, and its flags are known to it alone. So the
program itself is started, and examines the environment instead of training on it: a variable tells it to.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sample_profiler.cli.common.arguments import Commands, as_seconds, taken_literally
from sample_profiler.cli.common.program import Program, gymnasium_program
from sample_profiler.cli.common.statuses import BAD_USAGE, FAILED
from sample_profiler.errors import UnknownEnvError, UsageError
from sample_profiler.switches import DOCTOR_VARIABLE

if TYPE_CHECKING:
    from sample_profiler.doctor.process import Diagnosis

__all__ = ["add_parser", "examine_as_told", "run"]

_HANG_TIMEOUT_S = 20.0
_DEFAULTS = {"hang_timeout": _HANG_TIMEOUT_S}

_INTRODUCTION = """\
Plays an environment alone, by random actions, in a process of its own, and says what is wrong with it: its contract,
seeds, arrays that change, times and their tails, what it waits for, memory, threads, processes and files that it
leaves, prints, generators and settings of the whole process, crashes and hangs. Each finding has its evidence and its
cure.
"""

_EXAMPLES = """\
examples:
  sample-profiler doctor --env=CartPole-v1
  sample-profiler doctor --env=my_module:MyEnv-v0 --json     a module of the current folder registers it
  sample-profiler doctor -- python -m sf_examples.vizdoom.train_vizdoom --env=doom_basic
  sample-profiler doctor --seconds=60 -- python my_training.py --env=my_env

Flags of the run, such as --env_frameskip, go to the environment. --hang_timeout is what one call may take; here its
default is 20. What stands behind -- is a program that trains: instead it examines its environment.

Exit status: 0: there is no error, 1: there is, 2: the environment cannot be looked at.
"""


@dataclass(frozen=True)
class DoctorRequest:
    """How an environment is examined.

    Attributes:
        seconds: of the longest part, at most.
        as_json: whether plain data is printed.
        begun_file: is made when an examination begins, for whoever has started the program; empty: none.
    """

    seconds: float
    as_json: bool
    begun_file: str = ""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like: flags of its own, and then those of a run or a program."""
    parser = commands.add_parser(
        "doctor", help="say what is wrong with an environment", add_help=False, prepare=taken_literally
    )
    parser.add_argument("words", nargs="*")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    words = list(arguments.words)
    end = words.index("--") if "--" in words else len(words)
    parser = _make_own_parser()
    own, flags = parser.parse_known_args(words[:end])
    request, command = DoctorRequest(own.seconds, own.json), words[end + 1 :]
    if command and flags:
        raise UsageError(f"{' '.join(flags)} is in front of --: give flags of the run behind the program")
    if command:
        return _run_program(command, request)
    if not flags:
        parser.print_usage()
        raise UsageError("give an environment, as in --env=CartPole-v1, or a program that trains behind --")
    return examine_as_told(gymnasium_program(flags, ""), request)


def _make_own_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sample-profiler doctor",
        usage="sample-profiler doctor [--seconds S] [--json] (--env=NAME [--flag=value …] | -- PROGRAM …)",
        description=_INTRODUCTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--seconds", type=as_seconds, default=20.0, metavar="S", help="to play at most; default: 20")
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")
    return parser


def _run_program(command: Sequence[str], request: DoctorRequest) -> int:
    with tempfile.TemporaryDirectory() as folder:
        begun_file = Path(folder, "begun")
        told = asdict(replace(request, begun_file=str(begun_file)))
        try:
            done = subprocess.run(command, env=os.environ | {DOCTOR_VARIABLE: json.dumps(told)})
        except OSError as error:
            raise UsageError(f"cannot start {command[0]}: {error.strerror}") from error
        if done.returncode == 0 and not begun_file.exists():
            raise UsageError(
                f"{' '.join(command)} ended without training, so nothing was examined: it has to call train()"
            )
    return done.returncode if 0 <= done.returncode <= BAD_USAGE else FAILED


def examine_as_told(program: Program, request: DoctorRequest | None = None) -> int:
    """Examine the environment of a program, print what is found, and return the exit status.

    Args:
        program: that would train on it.
        request: how; None: as the variable of this process says.

    Raises:
        SampleProfilerError: the flags or the environment cannot be used.
    """
    from sample_profiler.cli.common.progress import progress_shown
    from sample_profiler.config import parse_config
    from sample_profiler.doctor.long_play import Limits
    from sample_profiler.doctor.process import diagnose
    from sample_profiler.runtime.processes.main_module import check_main_module

    request = request or DoctorRequest(**json.loads(os.environ.pop(DOCTOR_VARIABLE)))
    if request.begun_file:
        Path(request.begun_file).touch()
    config = parse_config(
        program.argv, extra_parts=program.extra_parts, defaults={**(program.defaults or {}), **_DEFAULTS}
    )
    check_main_module()
    try:
        with progress_shown("examining") as course:
            diagnosis = diagnose(
                config, Limits(seconds=request.seconds), lambda place: course.reach(0.0, f"examining: {place}")
            )
    except UnknownEnvError as error:
        raise UnknownEnvError(
            f"{error}. An environment that a program registers is looked at through that program: "
            "sample-profiler doctor -- python -m my_training --env=…"
        ) from None
    _print(diagnosis, request)
    return FAILED if any(finding.grade == "error" for finding in diagnosis.findings) else 0


def _print(diagnosis: Diagnosis, request: DoctorRequest) -> None:
    from sample_profiler.cli.doctor.text import format_diagnosis
    from sample_profiler.profiling.tree.render import printable_text

    print(json.dumps(asdict(diagnosis), indent=1) if request.as_json else printable_text(format_diagnosis(diagnosis)))
