"""Owns checkpoint files: `checkpoint_p{policy}/checkpoint_{optimizer steps:09}_{frames}.pth`.

A checkpoint is written under a temporary name, synced and renamed, so a kill or a full disk never costs the one before
it. It holds tensors and plain data alone and is loaded with PyTorch's restricted unpickler: nothing in it is executed.
"""

from __future__ import annotations

import errno
import logging
import os
import pickle
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from sample_profiler.errors import CheckpointError, is_out_of_memory
from sample_profiler.files import find_obstacle, make_folder, remove_partials, written_whole
from sample_profiler.profiling.tree.render import printable
from sample_profiler.run_folder import RunFolder
from sample_profiler.storage.archives import check_archive
from sample_profiler.storage.checkpoint_names import (
    best_name,
    holds_training,
    latest_name,
    metric_in_name,
    sorted_checkpoints,
)
from sample_profiler.storage.size_limits import check_size

__all__ = ["FORMAT_VERSION", "CheckpointFolder", "load_checkpoint"]

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
"""Of what is in a checkpoint, under `format_version`."""

_NOT_NOW = {
    errno.EACCES,
    errno.EHOSTDOWN,
    errno.EIO,  # also of a network's file system that does not answer
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOTCONN,
    errno.EPERM,
    errno.ESTALE,
    errno.ETIMEDOUT,
}
"""Reasons why the system does not let us read a file that say nothing about what is in it."""


class CheckpointFolder:
    """The checkpoints of one policy.

    Args:
        run_folder: the run's folder.
        policy: index of the policy.
        num_kept: how many of the newest regular checkpoints stay.
        added: what is written into each beside the state of the training, plain data by name.
    """

    def __init__(
        self, run_folder: Path, policy: int, num_kept: int, added: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.path = RunFolder(run_folder).checkpoints(policy)
        self._milestones = RunFolder.milestones(self.path)
        self._num_kept = max(1, num_kept)
        self._added = added
        self._unreadable: list[Path] = []  # newer than what was loaded

    def save(self, state: dict[str, Any], num_steps: int, num_frames: int) -> Path:
        """Write the latest checkpoint and remove those that are older than the newest `num_kept`.

        Those of more steps go, too: training went on from an older one (damaged files, or the best policy), and what
        is loaded next has to be of this training.

        Raises:
            CheckpointError: it cannot be written, or is not there afterwards; older ones are as they were.
        """
        path = self._write(state, self.path / latest_name(num_steps, num_frames))
        paths = self._paths("checkpoint")
        if path not in paths:
            raise CheckpointError(
                f"cannot write the checkpoint {path}: it was there and is gone; somebody has moved or removed it, or "
                "its folder: leave them to the run"
            )
        past = paths[: paths.index(path) + 1]
        # A damaged one is no checkpoint to fall back to: it takes the place of none, and stays until there are enough.
        self._unreadable = [other for other in self._unreadable if other != path]
        whole = [other for other in past if other not in self._unreadable]
        kept = whole[-self._num_kept :] if len(whole) >= self._num_kept else past
        for other in paths:
            if other not in kept:
                _remove(other)
        return path

    def save_best(self, state: dict[str, Any], num_steps: int, num_frames: int, metric: str, value: float) -> Path:
        """Write the best checkpoint, by the value of a metric, in place of the previous best."""
        path = self._write(state, self.path / best_name(num_steps, num_frames, metric, value))
        for old in self._paths("best"):
            if old != path:
                _remove(old)
        return path

    def save_milestone(self, state: dict[str, Any], num_steps: int, num_frames: int) -> Path:
        """Write a checkpoint that is never removed, in the subfolder `milestones`."""
        return self._write(state, self._milestones / latest_name(num_steps, num_frames))

    def load(self, kind: str, *, sets_aside: bool = True) -> dict[str, Any] | None:
        """Load the newest whole checkpoint, going back to older ones past damaged files.

        Args:
            kind: "latest" or "best".
            sets_aside: rename what cannot be read where nothing has been trained, for whoever trains from here on.

        Returns:
            What was saved; None if nothing was, or nothing that can be read and had been trained.

        Raises:
            CheckpointError: there are checkpoints, and none of them can be read, or is the best; or one cannot be read
                now, though it may be whole.
        """
        if obstacle := find_obstacle(self.path, os.R_OK | os.X_OK):  # it would look as if there were none
            raise CheckpointError(f"the checkpoints cannot be read: {obstacle}")
        paths = self._paths("checkpoint" if kind == "latest" else "best")
        for path, state in _read_whole(paths):
            logger.info("Loaded the checkpoint %s", path)
            self._unreadable = paths[paths.index(path) + 1 :]
            return state
        if not paths:
            # Who takes this for a new run replaces all that was learned.
            if kind == "best" and self.holds_training and (others := self._paths("checkpoint")):
                raise CheckpointError(
                    f"there is no best checkpoint in {self.path}, only {others[-1].name}: use "
                    "--load_checkpoint_kind=latest or another --experiment"
                )
            return None
        if sets_aside and not self.holds_training:
            self.set_aside("no checkpoint can be read")
            return None
        raise CheckpointError(
            f"none of the {len(paths)} checkpoints in {self.path} can be read: restore one; training begins "
            "anew with --restart_behavior=restart, which keeps all files under another name"
        )

    @property
    def holds_training(self) -> bool:
        """Whether anything in it has been trained, by the names of its files."""
        return holds_training(self.path)

    def set_aside(self, reason: str) -> None:
        """Rename checkpoints that cannot be gone on with, where none has been trained: nothing is lost with them.

        Args:
            reason: why the newest cannot be gone on with.
        """
        for path in (*self._paths("checkpoint"), *self._paths("best")):
            kept = path.with_name(f"{path.name}.untrained")
            try:
                path.replace(kept)
            except OSError as error:
                logger.warning("Cannot rename the untrained checkpoint %s: %s", path, error.strerror or error)
            else:
                logger.warning(
                    "Training begins anew: %s, but nothing had been trained when %s was saved, which is kept as %s",
                    *(reason, path, kept.name),
                )

    def better_states(self, metric: str, value: float, num_steps: int) -> Iterator[dict[str, Any]]:
        """Yield what the best checkpoints hold, as far as they may be better than what a training knows of.

        There is one, or two after a kill in between; damaged files are passed over, and those that tell by their names
        that they are not better, or are the best by another metric, are not read.

        Args:
            metric: name of what the best is chosen by.
            value: the best that the training knows of.
            num_steps: up to which it has gone: it knows of all that was saved after fewer.

        Raises:
            CheckpointError: one cannot be read now, though it may be whole.
        """
        known = (float(f"{value:.3f}"), num_steps)  # names tell three digits
        paths = [
            path
            for steps, path in sorted_checkpoints(self.path, "best")
            if (metric_in_name(path, metric), steps) >= known
        ]
        return (state for _, state in _read_whole(paths))

    def remove_partials(self) -> None:
        """Remove what a run that was killed while it saved has left; for whoever has the run's folder for itself."""
        for folder in (self.path, self._milestones):
            for path in remove_partials(folder):
                logger.info("Removed the unfinished checkpoint %s of a run that was killed", path)

    def _paths(self, kind: str) -> list[Path]:
        """Return the checkpoints of a kind, oldest first."""
        return [path for _, path in sorted_checkpoints(self.path, kind)]

    def _write(self, state: dict[str, Any], path: Path) -> Path:
        try:
            make_folder(path.parent)
            with written_whole(path) as partial, partial.open("wb") as file:
                torch.save({**state, **self._added}, file)
        except (OSError, RuntimeError) as error:  # PyTorch makes a RuntimeError of some of those of a full disk
            obstacle = find_obstacle(path.parent)
            reason = obstacle or _describe_reason(error)
            cure = "" if obstacle else f": {_find_cure(error)}"
            raise CheckpointError(
                f"cannot write the checkpoint {path}{_describe_space(path.parent)}: {reason}; checkpoints before it "
                f"are as they were{cure}"
            ) from error
        return path


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Load one checkpoint, wherever it is; nothing in it is executed.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        return _read(path)
    except Exception as error:  # a damaged file can raise anything
        reason = find_obstacle(path, os.R_OK, is_folder=False) or _describe_damage(error)
        raise CheckpointError(f"cannot read the checkpoint {path}: {reason}") from error


def _remove(path: Path) -> None:
    """Remove a checkpoint that is not needed any more; if that fails, the next save tries again."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("Cannot remove the old checkpoint %s: %s", path, error.strerror or error)


def _read_whole(paths: list[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the checkpoints that can be read, the newest first, and warn of the others.

    Raises:
        CheckpointError: one cannot be read now, though it may be whole. Training that goes on from an older one would
            replace it.
    """
    for path in reversed(paths):
        try:
            state = _read(path)
        except Exception as error:  # a damaged file can raise anything
            if _may_be_whole(error):
                reason = find_obstacle(path, os.R_OK, is_folder=False) or printable(_describe_reason(error))
                raise CheckpointError(
                    f"cannot read the checkpoint {path} now: {reason}; that does not mean that it is damaged: try "
                    "again when the cause is gone, or move it away to go on from the one before"
                ) from error
            logger.warning("Cannot read the checkpoint %s: %s", path, _describe_damage(error))
            continue
        yield path, state


def _describe_damage(error: Exception) -> str:
    # It may repeat what the file says, and a program that sets no log up shows warnings as they are.
    reason = printable((str(error).strip().splitlines() or [type(error).__name__])[0])
    if isinstance(error, pickle.UnpicklingError):  # PyTorch's text advises to load it, whatever it executes
        return "it is damaged, or holds more than tensors and plain data, which is never loaded"
    return f"it is damaged ({reason})" if isinstance(error, zipfile.BadZipFile) else reason


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise CheckpointError("it is no file but a folder, a pipe or a device")
    check_archive(path)
    state = torch.load(path, map_location="cpu", weights_only=True)
    check_size(state, path.stat().st_size)
    if not isinstance(state, dict):
        raise CheckpointError(f"it holds a {type(state).__name__}, no state of a training")
    version = state.get("format_version", FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise CheckpointError(f"it has format {version!r}, and this version of the package reads {FORMAT_VERSION}")
    return state


def _may_be_whole(error: BaseException | None) -> bool:
    """Return whether reading a file failed for want of memory, descriptors or permission, not for what is in it."""
    while error is not None:  # zipfile calls a file whose end it cannot read no archive
        if is_out_of_memory(error) or (isinstance(error, OSError) and error.errno in _NOT_NOW):
            return True
        error = error.__context__
    return False


def _describe_reason(error: BaseException) -> str:
    """Return why a file could not be written or read, in the system's words if PyTorch has them behind its own."""
    refused = _find_refused(error)
    if refused is not None and refused.strerror:
        return refused.strerror
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _find_cure(error: BaseException) -> str:
    refused = _find_refused(error)
    if refused is not None and refused.errno == errno.EMFILE:
        return (
            "something in this process, such as an environment, opens files and leaves them open; or raise the limit "
            "of open files (ulimit -n)"
        )
    return "free space, or make the folder writable"


def _find_refused(error: BaseException) -> OSError | None:
    """Return what the system has refused, of an error and what was handled when it was raised."""
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, OSError) and behind.strerror:
            return behind
        behind = behind.__context__
    return None


def _describe_space(folder: Path) -> str:
    try:
        return f" ({shutil.disk_usage(folder).free >> 20} MiB free)"
    except OSError:
        return ""
