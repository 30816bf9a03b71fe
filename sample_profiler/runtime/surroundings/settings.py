"""Owns what a process has one of: how each setting is read, put back, and told where it has changed."""

from __future__ import annotations

import contextlib
import gc
import locale
import logging
import operator
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import psutil

from sample_profiler.files import read_at_once
from sample_profiler.profiling.tree.render import printable
from sample_profiler.runtime.messages.channels import PipeEnd
from sample_profiler.runtime.signals.ending_signals import ENDING_SIGNALS

__all__ = ["Setting", "list_settings", "list_torch_settings"]

_OWN_LOGGERS = "sample_profiler"
_WATCHED_SIGNALS = (*ENDING_SIGNALS, signal.SIGCHLD, signal.SIGPIPE)
_TIME_FUNCTIONS = ("time", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep")
_LIMITS_OF_WHO_IS_NEXT = ("AS", "DATA", "FSIZE", "NOFILE", "NPROC")
_LIMITS = ("AS", "CPU", "DATA", "FSIZE", "NOFILE", "NPROC", "STACK")
_MOST_NAMES = 5
_entered: list[object] = []
_OF_CUDNN = ("enabled", "benchmark", "deterministic")
_DELETED = "deleted"
_UNKNOWN = object()


def _say_nothing(_: Any, __: Any) -> str:
    return ""


@dataclass(frozen=True)
class Setting:
    """Something that a process has one of.

    Attributes:
        name: in words.
        read: returns its value.
        put_back: sets it to a value; None: it stays as it was changed.
        is_kept: tells, of an earlier value and the present one, whether they are the same as far as it matters.
        describe: says what has changed, beyond the name.
        is_urgent: whether it hurts who is next in the process; cheap to read, and always readable.
    """

    name: str
    read: Callable[[], Any]
    put_back: Callable[[Any], object] | None = None
    is_kept: Callable[[Any, Any], bool] = operator.eq
    describe: Callable[[Any, Any], str] = _say_nothing
    is_urgent: bool = False

    def read_if_possible(self) -> Any:
        """Return its value; `_UNKNOWN` where it cannot be read, as by a process that may open no more files."""
        try:
            return self.read()
        except (OSError, RuntimeError):  # RuntimeError: PyTorch has two ways for some, which exclude each other
            return _UNKNOWN

    def is_as_it_was(self, before: Any, now: Any) -> bool:
        """Tell whether nothing that matters has changed, as far as is known."""
        return before is _UNKNOWN or now is _UNKNOWN or self.is_kept(before, now)

    def restore(self, before: Any) -> bool:
        """Set it to an earlier value, if it has to be; tell whether that was done."""
        if self.put_back is None:
            return False
        try:
            self.put_back(before)
        except (OSError, ValueError, TypeError, RuntimeError):  # not allowed, or only in the main thread
            return False
        return True


class _StandardStreams:
    """What the first three file descriptors lead to, with copies of them that lead there, too."""

    def __init__(self) -> None:
        self._copies: dict[int, PipeEnd] = {}
        for number in range(3):
            with contextlib.suppress(OSError):  # it was closed before
                self._copies[number] = PipeEnd(os.dup(number))

    def settings(self) -> list[Setting]:
        """Return a setting for each."""
        names = {0: "standard input", 1: "standard output", 2: "standard error"}
        return [
            Setting(names[number], partial(_read_descriptor, number), partial(self._put_back, number))
            for number in self._copies
        ]

    def _put_back(self, number: int, _: Any) -> None:
        os.dup2(self._copies[number].fileno(), number)


def list_settings() -> list[Setting]:
    """Return what every process has, as it is now; limits first: with too few files little else can be read."""
    root = logging.getLogger()
    limits = [(name, getattr(resource, f"RLIMIT_{name}")) for name in _LIMITS]
    settings = [
        Setting(
            f"the limit RLIMIT_{name}",
            partial(resource.getrlimit, limit),
            partial(resource.setrlimit, limit),
            _is_no_lower,
            is_urgent=name in _LIMITS_OF_WHO_IS_NEXT,
        )
        for name, limit in limits
    ]
    settings += [
        Setting("the current folder", _read_folder, _leave_deleted_folder, describe=_describe_change),
        Setting("the mask of new files' permissions (umask)", _read_umask, os.umask, describe=_describe_octal),
        Setting("signals that are blocked", partial(signal.pthread_sigmask, signal.SIG_BLOCK, ()), _set_signal_mask),
        Setting("variables", lambda: dict(os.environ), describe=_describe_variables),
        Setting("sys.stdout or sys.stderr", lambda: [getattr(sys, name, None) for name in ("stdout", "stderr")]),
        Setting("handlers of the log", _read_handlers, _put_back_handlers, _are_among),
        Setting("the level of the log", lambda: root.level, root.setLevel),
        Setting("whether logging is switched off", lambda: root.manager.disable, logging.disable),
        Setting("this package's loggers", _read_own_loggers, _set_own_loggers, _are_entries_kept),
        Setting("warnings that are errors", _read_error_filters, _drop_error_filters, _has_no_more),
        Setting("what numpy does about floating-point errors", np.geterr, lambda before: np.seterr(**before)),
        Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit, operator.le),
        Setting("the interval in which threads take turns", sys.getswitchinterval, sys.setswitchinterval),
        Setting("garbage collection", lambda: (gc.isenabled(), gc.get_threshold())),
        Setting("clocks of the module time", _read_clocks, _set_clocks),
        Setting("the locale", lambda: locale.setlocale(locale.LC_ALL), describe=_describe_change),
        Setting("the time zone", lambda: time.tzname, describe=_describe_change),
        Setting("niceness", psutil.Process().nice, describe=_describe_change),
        Setting("the cores that it may use", lambda: sorted(os.sched_getaffinity(0)), describe=_describe_change),
        Setting("the process group", os.getpgrp, partial(os.setpgid, 0)),  # Ctrl+C goes to that of the command
    ]
    settings += [
        Setting(f"what {number.name} does", partial(signal.getsignal, number), partial(_set_handler, number))
        for number in _WATCHED_SIGNALS
    ]
    return [*settings, *_StandardStreams().settings()]


def list_torch_settings() -> list[Setting]:
    """Return what PyTorch has one of in a process that has loaded it."""
    import torch  # it is there already
    from torch.backends import cudnn

    return [
        Setting("PyTorch's default type", torch.get_default_dtype, torch.set_default_dtype, is_urgent=True),
        Setting("PyTorch's default device", torch.get_default_device, torch.set_default_device),
        Setting("whether PyTorch keeps gradients", torch.is_grad_enabled, torch.set_grad_enabled, is_urgent=True),
        Setting("PyTorch's inference mode", torch.is_inference_mode_enabled, _set_inference_mode, is_urgent=True),
        Setting("PyTorch's threads", torch.get_num_threads, torch.set_num_threads),
        Setting(
            "whether PyTorch is deterministic",
            torch.are_deterministic_algorithms_enabled,
            torch.use_deterministic_algorithms,
        ),
        Setting("PyTorch's search for anomalies", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
        Setting(
            "the precision of PyTorch's matrix products",
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
        ),
        Setting("PyTorch's autocast", _read_autocast, _set_autocast),
        Setting(
            "how PyTorch uses cuDNN",
            lambda: {name: getattr(cudnn, name) for name in _OF_CUDNN},
            partial(_set_attributes, cudnn),
        ),
    ]


def _is_no_lower(before: tuple[int, int], now: tuple[int, int]) -> bool:
    """Tell whether a limit, soft and hard, is at least what it was; a library may have raised it for itself."""
    return all(
        new == resource.RLIM_INFINITY or (old != resource.RLIM_INFINITY and new >= old)
        for old, new in zip(before, now, strict=True)
    )


def _set_attributes(owner: Any, before: dict[str, Any]) -> None:
    for name, value in before.items():
        setattr(owner, name, value)


def _read_autocast() -> dict[str, bool]:
    import torch

    return {device: torch.is_autocast_enabled(device) for device in ("cpu", "cuda")}


def _set_autocast(before: dict[str, bool]) -> None:
    import torch

    for device, is_enabled in before.items():
        torch.set_autocast_enabled(device, is_enabled)


def _read_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return _DELETED


def _leave_deleted_folder(before: str) -> None:
    """Go back from a folder that is no more, in which libraries cannot be loaded; from others an environment may read.

    Raises:
        OSError: the present one is there.
    """
    if _read_folder() != _DELETED:
        raise OSError("the folder is there")
    os.chdir(before)


def _read_umask() -> int:
    # os.umask() alone reads it, by setting it: files that other threads make meanwhile would have another one.
    for line in read_at_once("/proc/self/status").splitlines():
        if line.startswith(b"Umask:"):
            return int(line.split()[1], 8)
    return -1


def _read_descriptor(number: int) -> tuple[int, ...] | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_rdev


def _set_signal_mask(before: Iterable[int]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _set_handler(number: int, before: Any) -> None:
    signal.signal(number, before)


def _set_inference_mode(before: bool) -> None:
    import torch

    mode: Any = torch.inference_mode(before)  # within the one that was entered, and not left
    mode.__enter__()
    _entered.append(mode)  # without it that would be over


def _read_handlers() -> list[tuple[logging.Handler, int, list[Any]]]:
    return [(handler, handler.level, list(handler.filters)) for handler in logging.getLogger().handlers]


def _put_back_handlers(before: list[tuple[logging.Handler, int, list[Any]]]) -> None:
    for handler, level, filters in before:
        handler.setLevel(level)
        handler.filters[:] = filters
    root, handlers = logging.getLogger(), [handler for handler, _, _ in before]
    root.handlers[:] = [*handlers, *(handler for handler in root.handlers if handler not in handlers)]


def _are_among(before: list[Any], now: list[Any]) -> bool:
    return all(value in now for value in before)


def _read_own_loggers() -> dict[str, tuple[bool, int, bool]]:
    loggers = {name: each for name, each in logging.root.manager.loggerDict.items() if name.startswith(_OWN_LOGGERS)}
    return {
        name: (each.disabled, each.level, each.propagate)
        for name, each in loggers.items()
        if isinstance(each, logging.Logger)
    }


def _set_own_loggers(before: dict[str, tuple[bool, int, bool]]) -> None:
    for name in _read_own_loggers():
        each = logging.getLogger(name)
        each.disabled, each.level, each.propagate = before.get(name, (False, logging.NOTSET, True))
    logging.root.manager._clear_cache()  # type: ignore[attr-defined]


def _are_entries_kept(before: dict[str, Any], now: dict[str, Any]) -> bool:
    usual = (False, logging.NOTSET, True)  # of those that were made since
    return all(value == before.get(name, usual) for name, value in now.items())


def _read_error_filters() -> list[Any]:
    return [each for each in warnings.filters if each[0] == "error"]


def _has_no_more(before: list[Any], now: list[Any]) -> bool:
    return all(each in before for each in now)


def _drop_error_filters(before: list[Any]) -> None:
    kept = [each for each in warnings.filters if each[0] != "error" or each in before]
    warnings.filters[:] = kept  # type: ignore[index]
    warnings.simplefilter("default", append=True)  # what follows where none matches; it makes the change known


def _read_clocks() -> list[Any]:
    return [getattr(time, name, None) for name in _TIME_FUNCTIONS]


def _set_clocks(before: list[Any]) -> None:
    for name, function in zip(_TIME_FUNCTIONS, before, strict=True):
        setattr(time, name, function)


def _describe_change(before: Any, now: Any) -> str:
    return f" ({printable(str(before))} → {printable(str(now))})"


def _describe_octal(before: int, now: int) -> str:
    return f" ({before:03o} → {now:03o})"


def _describe_variables(before: dict[str, str], now: dict[str, str]) -> str:
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    told = ", ".join(map(printable, names[:_MOST_NAMES]))
    return f" ({told}{f' and {len(names) - _MOST_NAMES} more' if len(names) > _MOST_NAMES else ''})"
