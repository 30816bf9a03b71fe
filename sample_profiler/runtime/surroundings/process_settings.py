"""Owns what belongs to a whole process, and what somebody else's code in it has changed of that.

In a serial run environments share the process with everything else. What the run itself depends on is put back; what
an environment may need as it is, such as the current folder, stays. Either is said once.
"""

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
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import psutil

from sample_profiler.files import read_at_once
from sample_profiler.profiling.tree.render import printable
from sample_profiler.runtime.messages.channels import PipeEnd
from sample_profiler.runtime.signals.ending_signals import ENDING_SIGNALS

__all__ = ["SETTINGS_INTERVAL_S", "ProcessSettings", "alarms_survived", "expect_changes", "survive_alarms"]

logger = logging.getLogger(__name__)

SETTINGS_INTERVAL_S = 1.0
"""How often a loop looks for changes."""

_OWN_LOGGERS = "sample_profiler"
_WATCHED_SIGNALS = (*ENDING_SIGNALS, signal.SIGCHLD, signal.SIGPIPE)
_TIME_FUNCTIONS = ("time", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep")
_LIMITS = ("AS", "CPU", "DATA", "FSIZE", "NOFILE", "NPROC", "STACK")
_MOST_NAMES = 5
_entered: list[object] = []
_URGENT = frozenset(
    (
        *("the limit RLIMIT_NOFILE", "the limit RLIMIT_FSIZE"),  # what is next opens or writes a file
        *("PyTorch's default type", "whether PyTorch keeps gradients", "PyTorch's inference mode"),
    )
)
_OF_CUDNN = ("enabled", "benchmark", "deterministic")
_DEADLY_TIMERS = {
    signal.SIGALRM: signal.ITIMER_REAL,
    signal.SIGVTALRM: signal.ITIMER_VIRTUAL,
    signal.SIGPROF: signal.ITIMER_PROF,
}
_DELETED = "deleted"
_UNKNOWN = object()


def _say_nothing(_: Any, __: Any) -> str:
    return ""


@dataclass(frozen=True)
class _Setting:
    """Something that a process has one of.

    Attributes:
        name: in words.
        read: returns its value.
        put_back: sets it to a value; None: it stays as it was changed.
        is_kept: tells, of an earlier value and the present one, whether they are the same as far as it matters.
        describe: says what has changed, beyond the name.
    """

    name: str
    read: Callable[[], Any]
    put_back: Callable[[Any], object] | None = None
    is_kept: Callable[[Any, Any], bool] = operator.eq
    describe: Callable[[Any, Any], str] = _say_nothing

    def read_if_possible(self) -> Any:
        """Return its value; `_UNKNOWN` where it cannot be read, as by a process that may open no more files."""
        try:
            return self.read()
        except (OSError, RuntimeError):  # RuntimeError: PyTorch has two ways for some, which exclude each other
            return _UNKNOWN

    def is_as_it_was(self, before: Any, now: Any) -> bool:
        """Tell whether nothing that matters has changed, as far as is known."""
        return before is _UNKNOWN or now is _UNKNOWN or self.is_kept(before, now)


class ProcessSettings:
    """What code may change of the process that it runs in, as it is when this is made.

    Attributes:
        is_told: whether it says what is changed; else another process, in which the same happens, does.
    """

    def __init__(self, *, is_told: bool = True) -> None:
        self.is_told = is_told
        self._clock = time.monotonic
        self._settings = [*_list_settings(), *_StandardStreams().settings()]
        self._urgent = [setting for setting in self._settings if setting.name in _URGENT]
        self._has_torch = False
        self._before: dict[str, Any] = {}
        self._told: set[str] = set()
        _watched.add(self)
        self.expect_change()

    def expect_change(self) -> None:
        """Take what is there now for what is to be: the run itself has changed something."""
        if not self._has_torch and "torch" in sys.modules:
            self._has_torch = True
            added = _list_torch_settings()
            self._settings += added
            self._urgent += [setting for setting in added if setting.name in _URGENT]
        self._before = {setting.name: setting.read_if_possible() for setting in self._settings}

    def changes(self) -> dict[str, str]:
        """Return what differs by now, by its name, in words; all of it stays as it is."""
        differing = [
            (setting, before, now)
            for setting in self._settings
            if not setting.is_as_it_was(before := self._before[setting.name], now := setting.read_if_possible())
        ]
        return {setting.name: setting.name + setting.describe(before, now) for setting, before, now in differing}

    def is_kept_where_it_hurts(self) -> bool:
        """Tell, within two microseconds, whether what others in this process need next is as it was."""
        if time.monotonic is not self._clock:  # no timer would be due any more
            return False
        for setting in self._urgent:
            before, now = self._before[setting.name], setting.read()
            if now != before and not setting.is_kept(before, now):
                return False
        return True

    def look(self) -> None:
        """Check, if what is needed next is not as it was."""
        if not self.is_kept_where_it_hurts():
            self.check()

    def check(self) -> None:
        """Look for changes, put back what the run depends on, and say each once."""
        put_back: list[str] = []
        left: list[str] = []
        for setting in self._settings:
            before, now = self._before[setting.name], setting.read_if_possible()
            if setting.is_as_it_was(before, now):
                continue
            is_put_back = setting.put_back is not None and _succeeds(partial(setting.put_back, before))
            if not is_put_back:
                self._before[setting.name] = now
            if setting.name not in self._told:
                self._told.add(setting.name)
                (put_back if is_put_back else left).append(setting.name + setting.describe(before, now))
        whose = "The environment, or what it imports, has changed what belongs to the whole process"
        if put_back and self.is_told:
            logger.warning("%s; as the run depends on it, it was put back: %s", whose, "; ".join(put_back))
        if left and self.is_told:
            logger.info("%s, which stays so: %s", whose, "; ".join(left))


_watched: weakref.WeakSet[ProcessSettings] = weakref.WeakSet()


def expect_changes() -> None:
    """Take what networks have just changed of this process for what is to be, before environments are made in it."""
    for settings in list(_watched):
        settings.expect_change()


class _StandardStreams:
    """What the first three file descriptors lead to, with copies of them that lead there, too."""

    def __init__(self) -> None:
        self._copies: dict[int, PipeEnd] = {}
        for number in range(3):
            with contextlib.suppress(OSError):  # it was closed before
                self._copies[number] = PipeEnd(os.dup(number))

    def settings(self) -> list[_Setting]:
        """Return a setting for each."""
        names = {0: "standard input", 1: "standard output", 2: "standard error"}
        return [
            _Setting(names[number], partial(_read_descriptor, number), partial(self._put_back, number))
            for number in self._copies
        ]

    def _put_back(self, number: int, _: Any) -> None:
        os.dup2(self._copies[number].fileno(), number)


def _list_settings() -> list[_Setting]:
    root = logging.getLogger()
    limits = [(name, getattr(resource, f"RLIMIT_{name}")) for name in _LIMITS]
    settings = [  # limits first: with too few files little else can be read
        _Setting(
            f"the limit RLIMIT_{name}",
            partial(resource.getrlimit, limit),
            partial(resource.setrlimit, limit),
            _is_no_lower,
        )
        for name, limit in limits
    ]
    settings += [
        _Setting("the current folder", _read_folder, _leave_deleted_folder, describe=_describe_change),
        _Setting("the mask of new files' permissions (umask)", _read_umask, os.umask, describe=_describe_octal),
        _Setting("signals that are blocked", partial(signal.pthread_sigmask, signal.SIG_BLOCK, ()), _set_signal_mask),
        _Setting("variables", lambda: dict(os.environ), describe=_describe_variables),
        _Setting("sys.stdout or sys.stderr", lambda: [getattr(sys, name, None) for name in ("stdout", "stderr")]),
        _Setting("handlers of the log", _read_handlers, _put_back_handlers, _are_among),
        _Setting("the level of the log", lambda: root.level, root.setLevel),
        _Setting("whether logging is switched off", lambda: root.manager.disable, logging.disable),
        _Setting("this package's loggers", _read_own_loggers, _set_own_loggers, _are_entries_kept),
        _Setting("warnings that are errors", _read_error_filters, _drop_error_filters, _has_no_more),
        _Setting("what numpy does about floating-point errors", np.geterr, lambda before: np.seterr(**before)),
        _Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit, operator.le),
        _Setting("the interval in which threads take turns", sys.getswitchinterval, sys.setswitchinterval),
        _Setting("garbage collection", lambda: (gc.isenabled(), gc.get_threshold())),
        _Setting(
            "clocks of the module time", lambda: [getattr(time, name, None) for name in _TIME_FUNCTIONS], _set_clocks
        ),
        _Setting("the locale", lambda: locale.setlocale(locale.LC_ALL), describe=_describe_change),
        _Setting("the time zone", lambda: time.tzname, describe=_describe_change),
        _Setting("niceness", psutil.Process().nice, describe=_describe_change),
        _Setting("the cores that it may use", lambda: sorted(os.sched_getaffinity(0)), describe=_describe_change),
        _Setting("the process group", os.getpgrp, partial(os.setpgid, 0)),  # Ctrl+C goes to that of the command
    ]
    return settings + [
        _Setting(f"what {number.name} does", partial(signal.getsignal, number), partial(_set_handler, number))
        for number in _WATCHED_SIGNALS
    ]


def _list_torch_settings() -> list[_Setting]:
    import torch  # it is there already
    from torch.backends import cudnn

    return [
        _Setting("PyTorch's default type", torch.get_default_dtype, torch.set_default_dtype),
        _Setting("PyTorch's default device", torch.get_default_device, torch.set_default_device),
        _Setting("whether PyTorch keeps gradients", torch.is_grad_enabled, torch.set_grad_enabled),
        _Setting("PyTorch's inference mode", torch.is_inference_mode_enabled, _set_inference_mode),
        _Setting("PyTorch's threads", torch.get_num_threads, torch.set_num_threads),
        _Setting(
            "whether PyTorch is deterministic",
            torch.are_deterministic_algorithms_enabled,
            torch.use_deterministic_algorithms,
        ),
        _Setting("PyTorch's search for anomalies", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
        _Setting(
            "the precision of PyTorch's matrix products",
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
        ),
        _Setting("PyTorch's autocast", _read_autocast, _set_autocast),
        _Setting(
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


def _ignore_alarm(number: int, _: FrameType | None) -> None:
    name = signal.Signals(number).name
    logger.warning("An alarm (%s) came that nobody handles: it would have ended the process", name)


def survive_alarms() -> list[int]:
    """Let timers whose signal nobody handles end nothing from now on, and return these; who handles them goes on to."""
    is_main = threading.current_thread() is threading.main_thread()
    taken = [number for number in _DEADLY_TIMERS if is_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _ignore_alarm)
        signal.siginterrupt(number, False)
    return [int(number) for number in taken]


@contextlib.contextmanager
def alarms_survived() -> Iterator[None]:
    """Do what `survive_alarms` does for a while; a timer that was set meanwhile ends with it, as it ends nothing."""
    taken = survive_alarms()
    ours = [number for number in taken if not any(signal.getitimer(_DEADLY_TIMERS[signal.Signals(number)]))]
    try:
        yield
    finally:
        for number in taken:
            if signal.getsignal(number) is _ignore_alarm:
                if number in ours:
                    signal.setitimer(_DEADLY_TIMERS[signal.Signals(number)], 0)
                signal.signal(number, signal.SIG_DFL)


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


def _succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except (OSError, ValueError, TypeError, RuntimeError):  # not allowed, or only in the main thread
        return False
    return True


def _describe_change(before: Any, now: Any) -> str:
    return f" ({printable(str(before))} → {printable(str(now))})"


def _describe_octal(before: int, now: int) -> str:
    return f" ({before:03o} → {now:03o})"


def _describe_variables(before: dict[str, str], now: dict[str, str]) -> str:
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    told = ", ".join(map(printable, names[:_MOST_NAMES]))
    return f" ({told}{f' and {len(names) - _MOST_NAMES} more' if len(names) > _MOST_NAMES else ''})"
