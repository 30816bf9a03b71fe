"""Owns what the Runner can ask of a component while it runs, and how it answers.

A command travels down the pipe that also says stop; the component runs it between two turns, and its answer is one of
its reports. In the serial wiring the same commands are run in place.
"""

from __future__ import annotations

import math
import pickle
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sample_profiler.portable import pack_by_value
from sample_profiler.profiling import set_recording_enabled
from sample_profiler.profiling.ranges import set_profiling_enabled
from sample_profiler.runtime.commands.process_captures import start_capture, stop_capture

__all__ = ["CAPTURE_COMMANDS", "Command", "CommandResult", "Commanded", "Patience", "portable", "run_command"]

_BEGIN_CAPTURE = frozenset({"start_capture", "enable_profile"})
_WRITING_AT_END_S = 120.0
_UNKNOWN_S = 600.0  # that a capture takes of which the time is not known, as of rollouts, of which the number is
_LIMIT = 2  # where start_capture has the time after which it ends by itself

CAPTURE_COMMANDS = _BEGIN_CAPTURE | {"stop_capture", "disable_profile"}
"""Commands that may take minutes."""


@dataclass(frozen=True)
class Command:
    """A method to call.

    Attributes:
        number: tells the answers apart.
        method: one that the component offers, or that every process has (see `PROCESS_COMMANDS`).
        arguments: of the call.
    """

    number: int
    method: str
    arguments: Any = ()


@dataclass(frozen=True)
class CommandResult:
    """What came of a command.

    Attributes:
        number: of the command.
        component: who ran it.
        value: what the method returned.
        error: the traceback, or what is wrong; None: it went well.
    """

    number: int
    component: str
    value: Any
    error: str | None


class Patience:
    """How long a process may take to finish: longer while it may have to write what a profiler saw.

    Args:
        seconds: otherwise.
    """

    def __init__(self, seconds: float) -> None:
        self._usual_s = seconds
        self._may_write_until_s = -math.inf

    def note(self, command: Command) -> None:
        """Take note of a command that the process gets; what becomes of it is not known."""
        if command.method not in CAPTURE_COMMANDS:
            return
        lasts_s = _UNKNOWN_S if command.method in _BEGIN_CAPTURE else 0.0
        if command.method == "start_capture" and len(command.arguments) > _LIMIT:
            lasts_s = command.arguments[_LIMIT]
        # Of several captures one may go on when another ends.
        self._may_write_until_s = max(self._may_write_until_s, time.monotonic() + lasts_s + _WRITING_AT_END_S)

    @property
    def seconds(self) -> float:
        """What it is given."""
        may_write = time.monotonic() < self._may_write_until_s
        return max(self._usual_s, _WRITING_AT_END_S) if may_write else self._usual_s


class Commanded(Protocol):
    """Who can be asked for something."""

    @property
    def name(self) -> str:
        """The component's name."""

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Return the methods that may be called from outside, by name."""


PROCESS_COMMANDS: dict[str, Callable[..., Any]] = {
    "set_profiling_enabled": set_profiling_enabled,
    "set_recording_enabled": set_recording_enabled,
    "start_capture": start_capture,
    "stop_capture": stop_capture,
}
"""What every process can do, whatever its component."""


class _Portable:
    """Arguments of a command that travel by value where pickle alone could only name them, as lambdas."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self._payload,)


def portable(command: Command) -> Command:
    """Return a command for another process, which its arguments reach by value, lambdas of the main script included.

    Raises:
        ValueError: they cannot be sent.
    """
    try:
        return replace(command, arguments=_Portable(pack_by_value(command.arguments)))
    except Exception as error:  # whatever an object's own pickling code may raise
        raise ValueError(
            f"{command.arguments!r} cannot be sent to the worker processes: {type(error).__name__}: {error}; use "
            "functions and objects that can be pickled, or --serial_mode=True"
        ) from error


def run_command(component: Commanded, command: Command) -> CommandResult:
    """Run a command now; whatever goes wrong is part of the answer."""
    methods = PROCESS_COMMANDS | component.commands()
    method = methods.get(command.method)
    if method is None:
        error = f"{component.name} has no command {command.method!r}; allowed are {', '.join(sorted(methods))}"
        return CommandResult(command.number, component.name, None, error)
    try:
        value = method(*command.arguments)
        pickle.dumps(value)  # here, where the failure is part of the answer
    except Exception:
        return CommandResult(command.number, component.name, None, traceback.format_exc())
    return CommandResult(command.number, component.name, value, None)
