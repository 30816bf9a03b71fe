"""Owns the log, and helpers around files, modules and texts."""

from __future__ import annotations

import argparse
import functools
import getpass
import importlib
import logging
import os
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sample_profiler.profiling.process.gauges import process_gauges

__all__ = [
    *(
        "EPS",
        "Configurable",
        "called_again",
        "debug_log_every_n",
        "ensure_dir_exists",
        "get_username",
        "is_module_available",
    ),
    *("is_udp_port_available", "log", "log_every_n", "maybe_ensure_dir_exists", "memory_consumption_mb"),
    *("project_tmp_dir", "remove_if_exists", "retry", "safe_ensure_dir_exists", "set_attr_if_exists", "static_vars"),
    "str2bool",
]

EPS = 1e-8


class _WithoutRun(logging.StreamHandler[Any]):
    """Shows records on the terminal where nobody else does: outside of runs, which have a log."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            super().emit(record)


log = logging.getLogger("sample_factory")
"""Its records travel from all processes of a run to the run's log."""

log.setLevel(logging.DEBUG)
log.addHandler(_WithoutRun())

Function = TypeVar("Function", bound=Callable[..., Any])

_num_asked: Counter[str] = Counter()


class Configurable:
    """Has options.

    Attributes:
        cfg: The options.
    """

    def __init__(self, cfg: Any) -> None:
        self.cfg = cfg


def str2bool(v: bool | str) -> bool:
    """Read True or False, of a command line.

    Raises:
        argparse.ArgumentTypeError: It is neither.
    """
    if isinstance(v, bool):
        return v
    if isinstance(v, str) and v.lower() in ("true", "false"):
        return v.lower() == "true"
    raise argparse.ArgumentTypeError(f"{v!r} is not True or False")


def log_every_n(n: int, _level: int, msg: str, *args: Any, **kwargs: Any) -> None:
    """Log a message each n-th time that it is asked for, the first time included."""
    if _num_asked[msg] % n == 0:
        log.log(_level, msg, *args, **kwargs)
    _num_asked[msg] += 1


def debug_log_every_n(n: int, msg: str, *args: Any, **kwargs: Any) -> None:
    """Do that as a message for those who look for faults."""
    log_every_n(n, logging.DEBUG, msg, *args, **kwargs)


def is_module_available(module_name: str) -> bool:
    """Tell whether a module can be imported, by importing it."""
    try:
        importlib.import_module(module_name)
    except ImportError:
        return False
    return True


def set_attr_if_exists(obj: Any, attr_name: str, attr_value: Any) -> None:
    """Set an attribute of something that has it already."""
    if hasattr(obj, attr_name):
        setattr(obj, attr_name, attr_value)


def is_udp_port_available(port: int) -> bool:
    """Tell whether nobody listens at a UDP port of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def ensure_dir_exists(path: str) -> str:
    """Make a folder, unless it is there; return its path."""
    os.makedirs(path, exist_ok=True)
    return path


safe_ensure_dir_exists = ensure_dir_exists


def maybe_ensure_dir_exists(path: str, mkdir: bool) -> str:
    """Do so if `mkdir`; return the path."""
    return ensure_dir_exists(path) if mkdir else path


def remove_if_exists(file: str) -> None:
    """Remove a file, if it is there."""
    Path(file).unlink(missing_ok=True)


def get_username() -> str:
    """Return who runs this: a name, or a number where there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def project_tmp_dir(mkdir: bool = True) -> str:
    """Return a folder of the user's for what may be lost."""
    return maybe_ensure_dir_exists(os.path.join(tempfile.gettempdir(), f"sf2_{get_username()}"), mkdir)


def memory_consumption_mb() -> float:
    """Return the memory of this process, in MB."""
    return process_gauges()["memory_mib"] * 2**20 / 1e6


def static_vars(**kwargs: Any) -> Callable[[Function], Function]:
    """Give a function attributes."""

    def decorate(function: Function) -> Function:
        vars(function).update(kwargs)
        return function

    return decorate


def retry(times: int, exceptions: Any) -> Callable[[Function], Function]:
    """Have a function called again after these exceptions, so many times at most, with longer and longer pauses."""
    return lambda function: called_again(function, exceptions, [min(2**attempt, 10) for attempt in range(times)])


def called_again(function: Function, exceptions: Any, pauses_s: Sequence[float]) -> Function:
    """Return a function that calls another one, and once more after each pause where that raises."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for pause_s in pauses_s:
            try:
                return function(*args, **kwargs)
            except exceptions as error:  # noqa: PERF203 - it is what the loop is for
                log.warning("%s failed with %r, trying again in %g s", function.__name__, error, pause_s)
                time.sleep(pause_s)
        return function(*args, **kwargs)

    return called  # type: ignore[return-value]
