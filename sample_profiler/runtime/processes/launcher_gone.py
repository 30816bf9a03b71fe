"""Owns how a rank notices that whoever has started it on this machine is gone: nobody else would end it then.

torchrun's agent and `sample-profiler launch` end their ranks when they end in order. One that is killed cannot, and
what it had started goes on. The kernel's signal for that (PR_SET_PDEATHSIG) comes when the *thread* ends that has
started the child, and to the child alone, not to what a script has started in turn. So the rank itself looks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from sample_profiler.errors import ConfigError
from sample_profiler.files import read_at_once

__all__ = ["Launcher", "find_launcher"]

_LAUNCHER = "SAMPLE_PROFILER_LAUNCHER"
_OF_TORCHRUN = "TORCHELASTIC_RUN_ID"  # torchrun sets it for its ranks, and whatever these start has it, too
_HAS_ENDED = frozenset("ZX")


@dataclass(frozen=True)
class Launcher:
    """A process of this machine that has started ranks.

    Attributes:
        pid: its number.
        start_ticks: when it was started, as the system counts: another one may get its number one day.
    """

    pid: int
    start_ticks: int

    @classmethod
    def this(cls) -> Launcher:
        """Return this process."""
        return cls(os.getpid(), _read_stat(os.getpid()).start_ticks)

    def variables(self) -> dict[str, str]:
        """Return what tells a rank in its environment that this one has started it."""
        return {_LAUNCHER: f"{self.pid} {self.start_ticks}"}

    def is_gone(self) -> bool:
        """Tell whether it has ended, be it that nobody has taken notice yet; what cannot be seen goes on."""
        try:
            stat = _read_stat(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return True
        except OSError:
            return False
        return stat.start_ticks != self.start_ticks or stat.state in _HAS_ENDED


def find_launcher(environ: Mapping[str, str]) -> Launcher | None:
    """Return who has started this process as a rank; None: nobody who would end it, or who cannot be seen.

    `launch` says so itself. torchrun does not, and is the nearest process above this one that is no part of the rank.
    One that is gone before it is looked for is not found. But then nobody is there any more who would tell the ranks of
    this machine where they meet, or those of other machines are started again without it.

    Args:
        environ: variables of this process's environment.

    Raises:
        ConfigError: what they say of it makes no sense.
    """
    if told := environ.get(_LAUNCHER):
        try:
            pid, start_ticks = map(int, told.split())
        except ValueError:
            raise ConfigError([f"{_LAUNCHER}={told!r} names no process: it is `launch` that sets it"]) from None
        return Launcher(pid, start_ticks)
    if not environ.get(_OF_TORCHRUN):
        return None
    try:
        return _find_above()
    except (OSError, IndexError, ValueError):  # of another user, in another container, or there is no /proc
        return None


def _find_above() -> Launcher:
    child = os.getpid()
    while True:
        parent = _read_stat(child).parent
        start_ticks, is_of_rank = _read_stat(parent).start_ticks, _has_variable(parent, _OF_TORCHRUN)
        if _read_stat(child).parent != parent:  # it has ended meanwhile, and its number may be another one's
            child = os.getpid()
        elif is_of_rank:
            child = parent
        else:
            return Launcher(parent, start_ticks)


@dataclass(frozen=True)
class _Stat:
    """What the system tells of a process: a letter for its state, its parent, and when it was started."""

    state: str
    parent: int
    start_ticks: int


def _read_stat(pid: int) -> _Stat:
    # The name, in parentheses, may itself have spaces and parentheses.
    fields = read_at_once(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return _Stat(fields[0].decode(), int(fields[1]), int(fields[19]))


def _has_variable(pid: int, name: str) -> bool:
    """Tell whether a process was started with a variable in its environment."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        return any(entry.startswith(f"{name}=".encode()) for entry in file.read().split(b"\0"))
