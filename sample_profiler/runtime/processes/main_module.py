"""Owns whether processes can be started from the program that runs: each of them imports its main module again."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import sys
from multiprocessing import spawn

from sample_profiler.errors import ConfigError

__all__ = ["IMPORTED_UNGUARDED", "NO_GUARD", "OWN_PROCESS", "check_main_module", "import_no_main_module"]

OWN_PROCESS = "sample_profiler "
"""The names of processes that a run has started begin with it."""

IMPORTED_UNGUARDED = os.EX_CONFIG
"""Exit status of such a process if the program, imported there, was to start a run itself."""

NO_GUARD = (
    'it imports this program, which starts a run there, too: put what starts one below `if __name__ == "__main__":`'
)

_NO_CHILDREN = (
    "may start no processes: use concurrent.futures.ProcessPoolExecutor in the place of the pool, or --serial_mode=True"
)
_CURE = "save it to a file that stays, or use --serial_mode=True"
_STANDARD_INPUT = "<stdin>"
_STANDARD_FILES = 3  # processes that are started have these of the files that are open, and no others


def check_main_module() -> None:
    """See to it that processes can be started from this program, before anything is made.

    Raises:
        ConfigError: they could not import it, or this process may start none.
        SystemExit: this is a process that a run has started, which is still importing the program.
    """
    process = multiprocessing.current_process()
    if getattr(process, "_inheriting", False):
        if process.name.startswith(OWN_PROCESS):
            raise SystemExit(IMPORTED_UNGUARDED)  # its Runner says why, once for all of them
        raise ConfigError([f"{process.name} cannot start processes yet: {NO_GUARD}"])
    if process.daemon:
        raise ConfigError([f"{process.name} is a daemon, as all of a multiprocessing.Pool are, and {_NO_CHILDREN}"])
    main = sys.modules["__main__"]
    if not hasattr(main, "__spec__"):
        main.__spec__ = None  # as that of any script: debuggers leave it out, and multiprocessing asks for it
    if obstacle := _find_obstacle():
        raise ConfigError([f"{obstacle}: processes of their own cannot import it; {_CURE}"])


def import_no_main_module() -> None:
    """Let processes that are started from here import no main module: it is a foreign one that only hosts this code."""
    main = sys.modules["__main__"]
    main.__spec__ = main.__file__ = None


def _find_obstacle() -> str:
    """Return what keeps a process from importing the main module; empty: nothing."""
    try:
        told = spawn.get_preparation_data("")
    except FileNotFoundError:  # which asks for the current folder
        raise ConfigError(
            ["the current folder was removed, and processes begin there: change to another one"]
        ) from None
    name, path = told.get("init_main_from_name"), told.get("init_main_from_path")
    if name is not None:
        return "" if _is_skipped(name) or _can_be_found(name) else f"this program, the module {name}, is not there now"
    if path is None:  # of an interactive session, a notebook, or `python -c`: nothing is imported, functions travel
        return ""
    if os.path.basename(path) == _STANDARD_INPUT:
        return "this program was read from standard input"
    if _is_open_here_alone(path):
        return f"this program was read from {path}, which is open in this process alone"
    return "" if os.path.exists(path) else f"this program's file {path} is not there now"


def _is_skipped(name: str) -> bool:
    """Tell whether `multiprocessing` imports no main module of a name: that of a package, a folder or an archive."""
    return name == "__main__" or name.endswith(".__main__")


def _can_be_found(name: str) -> bool:
    importlib.invalidate_caches()
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # it has been imported, and does not say how
        return True
    except ImportError:  # a package that it is in is gone
        return False


def _is_open_here_alone(path: str) -> bool:
    folder, number = os.path.split(path)
    is_descriptor = os.path.realpath(folder) == os.path.realpath("/proc/self/fd")
    return is_descriptor and number.isdecimal() and int(number) >= _STANDARD_FILES
