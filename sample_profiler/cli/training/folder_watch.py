"""Owns what a run does when somebody removes or renames its folder meanwhile: it says so, and begins its files anew."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from sample_profiler.cli.training.logs import RunLog
from sample_profiler.config import Config, save_config
from sample_profiler.errors import ConfigError
from sample_profiler.files import make_folder
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.records.statistics import RunStatus
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.surroundings.folder_lock import folder_locked

__all__ = ["FolderWatch"]

logger = logging.getLogger(__name__)


class FolderWatch(RunObserver):
    """Looks whether the files are there that a run has written at its start, whenever figures are written down.

    Checkpoints, figures and the report come by themselves: who writes them makes the folder that they belong in.

    Args:
        config: of the run.
        log: of it, also in its folder if the flags say so.
        stack: keeps the lock of the folder.
    """

    def __init__(self, config: Config, log: RunLog, stack: contextlib.ExitStack) -> None:
        self._config = config
        self._log = log
        self._stack = stack
        self._folder = RunFolder(config.run.folder)
        self._files = [self._folder.config, *([self._folder.log] if config.machine.log_to_file else [])]
        self._place = self._find_place()
        self._is_removed = False
        self._told = ""

    def _find_place(self) -> tuple[int, int] | None:
        """Return what is another for another folder of that name; None: there is none."""
        try:
            status = os.stat(self._folder.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def on_summaries(self, status: RunStatus) -> None:  # noqa: ARG002
        """Write again what is gone, and tell of it; of what cannot be mended once."""
        path, gone = self._folder.path, [file for file in self._files if not os.path.lexists(file)]
        if self._find_place() != self._place and os.path.lexists(self._folder.config):
            self._tell_once(f"{path} was replaced: if another run has it now, both write there, so end one of them")
        elif gone:
            try:
                told = self._write_again(gone)
            except (ConfigError, OSError) as error:
                self._tell_once(f"{path} was removed while its run goes on, and cannot be made anew: {error}")
            else:
                self._told = ""
                logger.warning("%s", told)
        else:
            self._told = ""

    def _tell_once(self, text: str) -> None:
        if text != self._told:
            logger.warning("%s", text)
        self._told = text

    def _write_again(self, gone: Sequence[Path]) -> str:
        """Make the folder and its first files anew; return what there is to say of it.

        Raises:
            ConfigError, OSError: they cannot be made.
        """
        path = self._folder.path
        if self._find_place() != self._place:
            self._is_removed = True
            make_folder(path)  # whoever saves a checkpoint may have been quicker
            self._stack.enter_context(folder_locked(path))
            self._place = self._find_place()
        save_config(self._config, self._folder.config)
        if self._folder.log in gone:
            self._log.add_file(self._folder.log)
        is_removed, self._is_removed = self._is_removed, False
        if not is_removed:
            return f"removed from {path}, and written again from now on: {' and '.join(file.name for file in gone)}"
        return (
            f"{path} was removed or renamed while its run goes on: there is one anew, with config.json, and what the "
            "run writes from now on; what it had written before is not in it, and what its processes record is lost"
        )
