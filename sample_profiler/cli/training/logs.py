"""Owns where log records go: the terminal and `log.txt` in the run's folder."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import sys
from pathlib import Path
from typing import IO, cast

from rich.console import Console

from sample_profiler.profiling.tree.render import printable_text
from sample_profiler.runtime.surroundings.outputs import Output

__all__ = ["ConsoleHandler", "RunFormatter", "RunLog", "log_to_console", "log_to_file", "make_console"]

logger = logging.getLogger(__name__)

_MOST_BYTES = 64 << 20


class RunFormatter(logging.Formatter):
    """`[2026-01-31 12:00:00,123][4711] message`: when, which process, what."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s][%(process)d] %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Format a record, naming its level if it is a warning or worse; what a terminal would obey is escaped.

        Messages repeat what files from elsewhere say, and people show logs in terminals, too.
        """
        text = printable_text(super().format(record).expandtabs())
        if record.levelno >= logging.WARNING:
            prefix, separator, message = text.partition("] ")
            text = f"{prefix}{separator}{record.levelname}: {message}"
        return text


class ConsoleHandler(logging.Handler):
    """Writes records to a rich console, above whatever progress it shows.

    Args:
        console: where to write.
    """

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._has_told_of_loss = False
        self.setFormatter(RunFormatter())

    def handle(self, record: logging.LogRecord) -> bool:
        """Write one record; if the console cannot be written to any more, leave word for the other handlers."""
        is_handled = super().handle(record)
        problem = getattr(self._console.file, "problem", "")
        if problem and not self._has_told_of_loss:
            self._has_told_of_loss = True
            logger.warning("Nothing more is written to standard output: %s; the run goes on", problem)
        return is_handled

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        style = "bold red" if record.levelno >= logging.ERROR else "yellow" if record.levelno >= logging.WARNING else ""
        try:
            self._console.print(
                self.format(record), style=style, markup=False, highlight=False, emoji=False, soft_wrap=True
            )
        except Exception:
            self.handleError(record)


class _LogFile(logging.handlers.RotatingFileHandler):
    """A log file of limited length, on a disk that may become full: what does not fit is in the terminal alone."""

    has_failed = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (a name of logging)
        """Say once that records are missing here, instead of a traceback for each."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self.has_failed:
            self.has_failed = True
            logger.warning("The log cannot be written to %s: %s", self.baseFilename, error.strerror or error)

    def close(self) -> None:
        """Close the file; what did not fit before does not fit now."""
        with contextlib.suppress(OSError):
            super().close()


class RunLog:
    """The records of a run: in the terminal from the beginning, in a file, too, once the run has a folder.

    Attributes:
        console: of the terminal.
    """

    def __init__(self) -> None:
        self.console = make_console()
        self._handlers = [log_to_console(self.console)]

    def add_file(self, path: Path) -> None:
        """Append what comes from now on to a file, too; if there was one before, to this one instead."""
        file = log_to_file(path)
        while len(self._handlers) > 1:
            _remove(self._handlers.pop())
        self._handlers.append(file)

    def keep_to_warnings(self) -> None:
        """Leave the terminal to others but for what is worth their attention; the file has all."""
        self.console = Console(quiet=True)
        self._handlers[0].setLevel(logging.WARNING)

    def close(self) -> None:
        """Leave the log of this process as it was."""
        for handler in self._handlers:
            _remove(handler)


def make_console() -> Console:
    """Return a console for standard output, whose end ends nothing else."""
    # Without one, as after `>&-`, rich writes to nowhere by itself.
    output = sys.stdout if sys.stdout is None or isinstance(sys.stdout, Output) else Output(sys.stdout)
    return Console(file=cast("IO[str] | None", output), soft_wrap=True)


def log_to_console(console: Console) -> logging.Handler:
    """Send the records of this process to a console; return the handler for its removal."""
    return _add(ConsoleHandler(console))


def log_to_file(path: Path) -> logging.Handler:
    """Append the records of this process to a file; return the handler for its removal.

    At 64 MiB the file becomes `log.txt.1`, in the place of the one before, and another is begun.
    """
    handler = _LogFile(path, maxBytes=_MOST_BYTES, backupCount=1, encoding="utf-8")
    handler.setFormatter(RunFormatter())
    return _add(handler)


def _add(handler: logging.Handler) -> logging.Handler:
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(min(root.level or logging.INFO, logging.INFO))
    return handler


def _remove(handler: logging.Handler) -> None:
    logging.getLogger().removeHandler(handler)
    handler.close()
