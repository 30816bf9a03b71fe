"""Named ranges for `torch.profiler`: on when ``SAMPLE_PROFILER_PROFILING=1`` is set, and otherwise not there at all.

The variable is read once, when `sample_profiler` is imported; spawned processes inherit it. PyTorch is imported only
when it is set.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar

from sample_profiler.switches import ARE_RANGES_ARMED, RANGES_VARIABLE

Function = TypeVar("Function", bound=Callable[..., Any])

_is_enabled = ARE_RANGES_ARMED

if ARE_RANGES_ARMED:
    try:
        from torch.profiler import record_function
    except ImportError as error:
        raise ImportError(
            f"{RANGES_VARIABLE} is 1 and PyTorch cannot be imported: {error}; ranges need it: install torch, or "
            "unset the variable"
        ) from error


class Range(Protocol):
    """What `profile_range` returns: a context manager, and a decorator that keeps the function's type."""

    def __enter__(self) -> None:
        """Begin the range."""

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it."""

    def __call__(self, func: Function) -> Function:
        """Return a function whose calls are this range; the same object where ranges are unarmed."""


class _NoRange(contextlib.nullcontext[None]):
    """What every unarmed range is: a context that does nothing, and a decorator that returns its function."""

    def __call__(self, func: Function) -> Function:
        return func


class _Range:
    """A range that `torch.profiler` sees: a context manager, also one inside itself, and a decorator."""

    def __init__(self, name: str) -> None:
        self._name = name
        # What each entry pushed; None where ranges were off, so that a switch in between leaves nothing open.
        self._entered: list[Any] = []

    def __enter__(self) -> None:
        pushed = record_function(self._name) if _is_enabled else None
        if pushed is not None:
            pushed.__enter__()  # type: ignore[no-untyped-call]
        self._entered.append(pushed)

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pushed = self._entered.pop()
        if pushed is not None:
            pushed.__exit__(exc_type, exc, traceback)

    def __call__(self, func: Function) -> Function:
        if isinstance(func, (staticmethod, classmethod)):
            # A plain function in their place would be bound as any method is, and what @classmethod returns cannot be
            # called by itself: they stay outside.
            return type(func)(self(func.__func__))
        wrapper: Any
        if inspect.iscoroutinefunction(func):

            @functools.wraps(func)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with _Range(self._name):
                    return await func(*args, **kwargs)
        else:

            @functools.wraps(func)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                if not _is_enabled:
                    return func(*args, **kwargs)
                with record_function(self._name):
                    return func(*args, **kwargs)

        return wrapper  # type: ignore[no-any-return]  # functools.wraps keeps what is known of the function


_NO_RANGE = _NoRange()


def profile_range(name: str) -> Range:
    """Return a range with this name, to be entered or to decorate a function with.

    Write ``with profile_range("update"):`` or ``@profile_range("update")``.
    Unless ``SAMPLE_PROFILER_PROFILING=1`` was set when `sample_profiler` was imported, decorating returns the very same
    function, and ``with`` enters a null context that all ranges share. One object is for one thread at a time.

    Args:
        name: What the trace shows, such as ``RolloutWorker.env_step``.
    """
    return _Range(name) if ARE_RANGES_ARMED else _NO_RANGE


def set_profiling_enabled(is_enabled: bool) -> None:
    """Turn the ranges of this process off, or on again.

    Ranges that are open end as they began. Where they were not armed at import, turning them on warns and does
    nothing.

    Args:
        is_enabled: Whether ranges entered from now on are recorded.
    """
    global _is_enabled
    if is_enabled and not ARE_RANGES_ARMED:
        warnings.warn(
            f"ranges stay off: {RANGES_VARIABLE} was {os.environ.get(RANGES_VARIABLE)!r} or was set after "
            "the import; set it to 1 before Python starts",
            UserWarning,
            stacklevel=2,
        )
        return
    _is_enabled = is_enabled
