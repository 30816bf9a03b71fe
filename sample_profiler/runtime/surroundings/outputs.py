"""Owns what becomes of standard output and error when whoever read them is gone: nothing that is written there fails.

A reader may end, as `head` does, a terminal be closed, a disk be full. That is no reason for an environment that prints
to lose its worker, nor for a run to end.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import IO, Any, cast

from sample_profiler.runtime.signals.ending_signals import write_to_nowhere

__all__ = ["Output", "keep_outputs", "outputs_kept", "take_any_text"]

_NAMES = ("stdout", "stderr")
_NUM_LATEST = 16


class Output:
    """A stream as long as it can be written to; from then on what is written goes nowhere.

    Nothing is logged here: whoever writes may hold locks that the handlers of the log wait for.

    Args:
        file: where to write; all that is not about writing is that of the file.

    Attributes:
        problem: why it is not written to any more; empty: it is.
    """

    def __init__(self, file: IO[Any]) -> None:
        self._file = file
        self.problem = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    @property
    def buffer(self) -> Output:
        """The stream of bytes below a stream of text, likewise."""
        return Output(self._file.buffer)  # type: ignore[attr-defined]

    def write(self, text: Any) -> int:
        """Write a text, with escapes for what the stream has no characters for, or drop it."""
        with self._surviving():
            try:
                self._file.write(text)
            except UnicodeEncodeError as error:
                self._file.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        return len(text)

    def writelines(self, lines: Iterable[Any]) -> None:
        """Write several texts, or drop them."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Have written what waits for it, or drop that."""
        with self._surviving():
            self._file.flush()

    @contextlib.contextmanager
    def _surviving(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError:  # whoever reads is slow, and does not let writers wait: this text is lost
            return
        except ValueError:
            if not getattr(self._file, "closed", False):
                raise
            self.problem = "it was closed"
        except OSError as error:
            self.problem = error.strerror or str(error)
            with contextlib.suppress(OSError, ValueError):  # it may be no file of the system
                write_to_nowhere(self._file.fileno())


def take_any_text() -> None:
    """Let standard output write escapes for what it has no characters for, as standard error does: it would fail."""
    if getattr(sys.stdout, "errors", None) == "strict" and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


_latest: deque[Output] = deque(maxlen=_NUM_LATEST)
"""Those that were in use are there for a while longer: `print` of another thread, which looks `sys.stdout` up without
holding it, crashes the process where it is gone in that moment (CPython before 3.14)."""


def keep_outputs() -> None:
    """Let nothing that this process writes to standard output or error fail, from now on."""
    for name in _NAMES:
        stream = getattr(sys, name, None)
        if stream is not None and not isinstance(stream, Output):  # None: it was closed before the start
            _latest.append(Output(stream))
            setattr(sys, name, _latest[-1])


@contextlib.contextmanager
def outputs_kept() -> Iterator[None]:
    """Do what `keep_outputs` does for a while; then the streams are those of before, unless somebody has set others."""
    before = {name: getattr(sys, name, None) for name in _NAMES}
    keep_outputs()
    kept = {name: getattr(sys, name, None) for name in _NAMES}
    try:
        yield
    finally:
        for name in _NAMES:
            if isinstance(kept[name], Output):
                with contextlib.suppress(ValueError):  # it may have been closed meanwhile
                    cast("Output", kept[name]).flush()  # here, where it does not fail, not at the end of the program
            if getattr(sys, name, None) is kept[name]:
                setattr(sys, name, before[name])
