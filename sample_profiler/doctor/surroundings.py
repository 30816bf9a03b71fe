"""Owns what an environment does beside its work: to its process, to generators that all share, to the terminal."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from sample_profiler.doctor.findings import Finding, Findings, Grade
from sample_profiler.doctor.values import fingerprint
from sample_profiler.runtime.machine.children_time import list_descendants
from sample_profiler.runtime.surroundings.process_settings import ProcessSettings

__all__ = ["KINDS", "Belongings", "Surroundings", "describe_left"]

Kind = Literal["threads", "processes", "files"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Of what a process has: names of the attributes of `Belongings`."""

_ENDING_S = 1.0
_OFTEN = 5  # calls of a method that are looked at one by one
_SELDOM = 200  # of the later ones, one in so many
_MOST_SHOWN = 200
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_GENERATORS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "numpy.random": ("numpy", lambda: fingerprint(np.random.get_state(legacy=False))),
    "random": ("random", lambda: fingerprint(hash(random.getstate()))),
    "torch's default generator": ("torch", lambda: fingerprint(sys.modules["torch"].get_rng_state())),
}
"""Generators of the whole process: the module that they are in, and what tells their states apart."""


class Surroundings:
    """Looks at the process around the calls of an environment's methods.

    Args:
        findings: are added to.
        output: descriptor of the file that standard output and error go to.
    """

    def __init__(self, findings: Findings, output: int) -> None:
        self._findings = findings
        self._output = output
        self._settings = ProcessSettings(is_told=False)
        self._variables = dict(os.environ)
        self._states = _read_generators()
        self._num_bytes = self._written()
        self._nums: dict[str, int] = {}

    def check(self, method: str, *, is_often: bool) -> None:
        """Look at what a call has changed.

        Args:
            method: that has returned.
            is_often: whether it is one of those that are called all the time.
        """
        self._check_generators(method, is_often=is_often)
        self._check_output(method, is_often=is_often)
        number = self._nums[method] = self._nums.get(method, 0) + 1
        if number <= _OFTEN or number % _SELDOM == 0:
            self._check_settings(method, is_often=is_often)

    def _check_generators(self, method: str, *, is_often: bool) -> None:
        for name, state in _read_generators().items():
            if state != self._states.get(name, state):
                grade: Grade = "warning" if is_often else "note"
                self._findings.add(
                    Finding(
                        grade,
                        "global generator",
                        f"{method}() draws from {name}, or seeds it, which all of a process share",
                        f"its state was another one after {method}()",
                        "use self.np_random, which reset(seed=…) of gymnasium.Env makes: environments of one worker "
                        "take numbers from each other, and a seed repeats nothing",
                    ),
                    f"{name} {is_often}",
                )
            self._states[name] = state

    def _check_output(self, method: str, *, is_often: bool) -> None:
        # Libraries warn when something is made; what goes through sys.stdout then is somebody's print.
        start = self._num_bytes if is_often else self._written()
        if sys.stdout is not None:
            sys.stdout.flush()
        end = self._written()
        if sys.stderr is not None:
            sys.stderr.flush()
        num_bytes = self._written()
        if (num_bytes if is_often else end) > start:
            text = os.pread(self._output, _MOST_SHOWN, start).decode(errors="replace").strip()
            self._findings.add(
                Finding(
                    "warning" if is_often else "note",
                    "prints",
                    f"{method}() prints",
                    f"for example {text!r}",
                    "take the print out, or log it at the level DEBUG: some hundred processes write into one terminal, "
                    "and a step waits for it",
                ),
                str(is_often),
            )
        self._num_bytes = num_bytes

    def _check_settings(self, method: str, *, is_often: bool) -> None:
        for name, text in self._settings.changes().items():
            if name == "variables" and not is_often and self._variables.items() <= os.environ.items():
                continue  # new ones are how libraries tell their processes something
            self._findings.add(
                Finding(
                    "warning",
                    "process",
                    f"{method}() changes what belongs to the whole process: {name}",
                    text,
                    "leave it as it is, or put it back before the method returns: other environments and the run "
                    "itself are in this process, too",
                ),
                name,
            )
        self._settings.expect_change()
        self._variables = dict(os.environ)

    def _written(self) -> int:
        return os.fstat(self._output).st_size


def _read_generators() -> dict[str, bytes]:
    return {name: read() for name, (module, read) in _GENERATORS.items() if module in sys.modules}


@dataclass(frozen=True)
class Belongings:
    """What a process has at a moment.

    Attributes:
        threads: their names in the kernel, by number.
        processes: names of those that it has started and that live, by number.
        files: what its descriptors lead to, by number.
    """

    threads: dict[int, str]
    processes: dict[int, str]
    files: dict[int, str]

    @classmethod
    def look(cls) -> Belongings:
        """Return what this process has now."""
        names = {thread.native_id: thread.name for thread in threading.enumerate()}
        threads = {int(each): _read_name(f"/proc/self/task/{each}/comm") for each in _list("/proc/self/task")}
        told = {number: names.get(number) or name for number, name in threads.items()}
        processes = {pid: _read_name(f"/proc/{pid}/comm") for pid in list_descendants() or () if _lives(pid)}
        return cls(told, processes, {int(each): _read_link(f"/proc/self/fd/{each}") for each in _list("/proc/self/fd")})

    @classmethod
    def settled(cls, before: Belongings) -> Belongings:
        """Return what is left once what is about to end has had a moment for it."""
        deadline_s = time.monotonic() + _ENDING_S
        now = cls.look()
        while now.num_beyond(before) and time.monotonic() < deadline_s:
            time.sleep(0.02)
            now = cls.look()
        return now

    def num_beyond(self, before: Belongings) -> int:
        """Return how many threads and processes there are that were not there before."""
        return len(self.threads.keys() - before.threads.keys()) + len(self.processes.keys() - before.processes.keys())

    def memory_bytes(self) -> int:
        """Return the memory of this process and of those that it has started, without what files are mapped."""
        return sum(map(_private_bytes, (os.getpid(), *self.processes)))


def describe_left(kind: Kind, left: list[dict[int, str]]) -> Finding | None:
    """Return the finding that closed environments leave something behind; None: they do not.

    Args:
        kind: what it is.
        left: of what is there after each `close`, by number. The first environment may have begun what all of them use.
    """
    nums = [len(each) for each in left]
    num_more = nums[-1] - nums[0]
    if num_more < len(left) - 1 or nums != sorted(nums):
        return None
    new = [name for number, name in left[-1].items() if number not in left[0]]
    cures = {
        "threads": "tell them to end in close(), and join them",
        "processes": "end them in close(), and wait for them",
        "files": "close them in close()",
    }
    return Finding(
        "warning",
        f"{kind} left",
        f"{kind.capitalize()} outlive close()",
        f"{num_more} more at the end than after the first of some environments was closed: "
        f"{', '.join(list(dict.fromkeys(new))[:3])}",
        f"{cures[kind]}: each environment that is made and closed, as when a worker is replaced, leaves more",
    )


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read_name(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # it has ended meanwhile
        return ""


def _read_link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


def _private_bytes(pid: int) -> int:
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1:3]
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES
