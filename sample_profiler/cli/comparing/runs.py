"""Owns the runs of `sample-profiler compare`: each in a fresh process, unless it is there already."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sample_profiler.analysis.comparing.costs import different_machines
from sample_profiler.cli.common.problems import describe_os_error
from sample_profiler.errors import SessionError, UsageError
from sample_profiler.files import read_small_text, written_whole
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.render import printable
from sample_profiler.run_folder import RunFolder

__all__ = ["CompareRequest", "ComparedRun", "ComparedRuns"]


@dataclass(frozen=True)
class CompareRequest:
    """What is compared.

    Attributes:
        command: that trains, without the flags that differ.
        flags: of A and of B.
        num_pairs: runs of each.
        blocks: at most five, whose differences are tested; empty: none.
        margin: differences of throughput, or of time, up to this share do not matter.
        output: folder for the runs; those that are complete in it are not made again.
        allow_different_machines: whether kept runs of other machines are compared with new ones.
        goal: condition until which runs are timed, and at which they end; empty: their throughput is compared.
    """

    command: Sequence[str]
    flags: tuple[str, str]
    num_pairs: int
    blocks: Sequence[str]
    margin: float
    output: Path
    allow_different_machines: bool
    goal: str = ""


@dataclass(frozen=True)
class ComparedRun:
    """A run that is complete.

    Attributes:
        folder: of the run.
        steady: session of its steady part, without events.
    """

    folder: Path
    steady: Session


class ComparedRuns:
    """Makes the runs of a comparison, all of one machine.

    Args:
        request: what is compared.

    Raises:
        UsageError: its flags are none.
    """

    def __init__(self, request: CompareRequest) -> None:
        self._request = request
        self._flags = [_split(name, flags) for name, flags in zip(("--a", "--b"), request.flags, strict=True)]
        self._first: tuple[Path, Session] | None = None

    def make(self, which: int, number: int) -> ComparedRun:
        """Make one run, unless it is there.

        Raises:
            SessionError: it failed, or is of another machine than the first.
            UsageError: the command cannot be started.
            OSError: a file cannot be written.
        """
        request = self._request
        until = [f"--thresholds={request.goal}", f"--stop_at={request.goal}"] if request.goal else []
        name = f"{'ab'[which]}_{number:02d}"
        folder = request.output / name
        command = [*request.command, *self._flags[which], *until, f"--train_dir={request.output}"]
        command.append(f"--experiment={name}")
        mark = RunFolder(folder).compared
        if _is_made_by(command, mark):
            made = datetime.fromtimestamp(mark.stat().st_mtime).isoformat(" ", "minutes")
            print(printable(f"{folder}: kept from {made}"), flush=True)
        else:
            _train(command, folder)
            with written_whole(mark) as partial:
                partial.write_text(json.dumps(command))
        session = Session.load(RunFolder(folder).steady, with_events=False)
        self._check_machine(folder, session)
        return ComparedRun(folder, session)

    def _check_machine(self, folder: Path, session: Session) -> None:
        self._first = self._first or (folder, session)
        differences = different_machines(self._first[1], session)
        if differences and not self._request.allow_different_machines:
            raise SessionError(
                f"the runs in {self._first[0]} and {folder} are of different machines ({'; '.join(differences)}): give "
                "another --output, or --allow-different-machines compares them all the same"
            )


def _is_made_by(command: Sequence[str], mark: Path) -> bool:
    try:
        made_by: object = json.loads(read_small_text(mark))
    except (OSError, ValueError, RecursionError):  # not there, cut off, or not of ours
        return False
    return made_by == command


def _train(command: Sequence[str], folder: Path) -> None:
    steady = RunFolder(folder).steady
    earlier = _identify(steady)
    words = [*command, "--restart_behavior=overwrite"]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        reason = describe_os_error(error)
        raise UsageError(f"the training command cannot be started: {reason}: give one that can after --") from error
    last = "\n".join(done.stdout.decode(errors="backslashreplace").splitlines()[-15:])
    if done.returncode:
        raise SessionError(f"{shlex.join(command)} ended with status {done.returncode}:\n{last}")
    if _identify(steady) in (None, earlier):  # there may be that of an earlier comparison
        raise SessionError(
            f"{shlex.join(command)} ended well and left no run in {folder}: give a command that trains, and takes "
            f"--train_dir and --experiment:\n{last}"
        )


def _identify(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one that takes its place; None: there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _split(name: str, flags: str) -> list[str]:
    try:
        return shlex.split(flags)
    except ValueError as error:
        raise UsageError(f"{name} cannot be split into flags: {error} in {flags!r}: close what is quoted") from error
