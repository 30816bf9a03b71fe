"""Owns checkpoint files: `checkpoint_p{policy}/checkpoint_{optimizer steps:09}_{frames}.pth`.

A checkpoint is written under a temporary name, synced and renamed, so a kill or a full disk never costs the one before
it. It holds tensors and plain data alone and is loaded with PyTorch's restricted unpickler: nothing in it is executed.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import torch

from sample_profiler.errors import CheckpointError

__all__ = ["CheckpointFolder"]

logger = logging.getLogger(__name__)

_NAME = re.compile(r"(?P<kind>checkpoint|best)_(?P<steps>\d{9,})_(?P<frames>\d+)(_reward_[-\d.einf]+)?\.pth")


class CheckpointFolder:
    """The checkpoints of one policy.

    Args:
        run_folder: the run's folder.
        policy: index of the policy.
        num_kept: how many of the newest regular checkpoints stay.
    """

    def __init__(self, run_folder: Path, policy: int, num_kept: int) -> None:
        self.path = run_folder / f"checkpoint_p{policy}"
        self._num_kept = max(1, num_kept)

    def save(self, state: dict[str, Any], num_steps: int, num_frames: int) -> Path:
        """Write the latest checkpoint and remove those that are older than the newest `num_kept`.

        Those of more steps go, too: training went on from an older one (damaged files, or the best policy), and what
        is loaded next has to be of this training.
        """
        path = self._write(state, f"checkpoint_{num_steps:09}_{num_frames}.pth")
        paths = self._paths("checkpoint")
        num_past = paths.index(path) + 1
        for other in paths[: max(0, num_past - self._num_kept)] + paths[num_past:]:
            other.unlink(missing_ok=True)
        return path

    def save_best(self, state: dict[str, Any], num_steps: int, num_frames: int, metric: float) -> Path:
        """Write the best checkpoint in place of the previous best."""
        path = self._write(state, f"best_{num_steps:09}_{num_frames}_reward_{metric:.3f}.pth")
        for old in self._paths("best"):
            if old != path:
                old.unlink(missing_ok=True)
        return path

    def save_milestone(self, state: dict[str, Any], num_steps: int, num_frames: int) -> Path:
        """Write a checkpoint that is never removed, in the subfolder `milestones`."""
        return self._write(state, f"milestones/checkpoint_{num_steps:09}_{num_frames}.pth")

    def load(self, kind: str) -> dict[str, Any] | None:
        """Load the newest whole checkpoint, going back to older ones past damaged files.

        Args:
            kind: "latest" or "best".

        Returns:
            What was saved; None if nothing was.

        Raises:
            CheckpointError: there are checkpoints, and none of them can be read.
        """
        paths = self._paths("checkpoint" if kind == "latest" else "best")
        for path in reversed(paths):
            try:
                state = _read(path)
            except Exception as error:  # a damaged file can raise anything
                reason = str(error).strip().splitlines()
                logger.warning("Cannot read the checkpoint %s: %s", path, reason[0] if reason else type(error).__name__)
                continue
            logger.info("Loaded the checkpoint %s", path)
            return state
        if paths:
            raise CheckpointError(
                f"none of the {len(paths)} checkpoints in {self.path} can be read: start anew with "
                "--restart_behavior=overwrite, or remove the damaged files"
            )
        return None

    def _paths(self, kind: str) -> list[Path]:
        """Return the checkpoints of a kind, oldest first."""
        found = []
        for path in self.path.glob(f"{kind}_*.pth"):
            match = _NAME.fullmatch(path.name)
            if match:
                found.append((int(match["steps"]), int(match["frames"]), path))
        return [path for _, _, path in sorted(found)]

    def _write(self, state: dict[str, Any], name: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            with temporary.open("wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except (OSError, RuntimeError) as error:  # PyTorch makes a RuntimeError of some of those of a full disk
            temporary.unlink(missing_ok=True)
            free = shutil.disk_usage(path.parent).free >> 20
            raise CheckpointError(f"cannot write the checkpoint {path} ({free} MiB free): {error}") from error
        _sync_folder(path.parent)
        return path


def _read(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:  # PyTorch does not look at the checksums that it writes
        if damaged := archive.testzip():
            raise CheckpointError(f"{damaged} in it has another checksum than when it was written")
    state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict):
        raise CheckpointError(f"it holds a {type(state).__name__}, no state of a training")
    return state


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
