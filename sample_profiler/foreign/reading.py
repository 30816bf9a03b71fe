"""Owns how checkpoints of Sample Factory are read: tensors and plain data alone, and nothing in them is executed.

Beside what PyTorch's restricted unpickler knows they have a number of numpy's, the best reward, which is allowed while
such a file is read and at no other time.
"""

from __future__ import annotations

import codecs
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sample_profiler.errors import CheckpointError
from sample_profiler.storage.archives import check_archive
from sample_profiler.storage.size_limits import check_size

__all__ = ["read_checkpoint", "read_state"]

_OLDEST_TORCH = (2, 6)  # that can be told under which names numbers of numpy are known
_PIECES = ("model", "optimizer", "train_step", "env_steps")


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint.

    Args:
        path: Of the file.

    Returns:
        What is in it: `model`, `optimizer`, `train_step`, `env_steps`, and perhaps `best_performance` and `curr_lr`.

    Raises:
        CheckpointError: It is none, is damaged, or has more in it than tensors and plain data.
    """
    state = read_state(path)
    if missing := [piece for piece in _PIECES if piece not in state]:
        raise CheckpointError(f"{path} is no checkpoint of Sample Factory 2: it has no {missing[0]!r}")
    return state


def read_state(path: Path) -> dict[str, Any]:
    """Read a checkpoint of Sample Factory's, or of this package.

    Args:
        path: Of the file.

    Returns:
        What is in it, a `model` at least.

    Raises:
        CheckpointError: As above.
    """
    if tuple(map(int, torch.__version__.split(".")[:2])) < _OLDEST_TORCH:
        raise CheckpointError(f"{path} cannot be read with PyTorch {torch.__version__}: install 2.6 or newer")
    try:
        check_archive(path)
        with torch.serialization.safe_globals(_numbers_of_numpy()):
            state = torch.load(path, map_location="cpu", weights_only=True)
        check_size(state, path.stat().st_size)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} is damaged, or holds more than tensors and plain data, which is never loaded"
        ) from error
    except CheckpointError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    except Exception as error:  # a damaged file can raise anything
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{path} cannot be read: {reason}") from error
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise CheckpointError(f"{path} is no checkpoint: it has no 'model'")
    return state


def _numbers_of_numpy() -> list[Any]:
    """Return what a number of numpy is made of in a file, also under the names that older versions have for it."""
    scalar = np._core.multiarray.scalar  # type: ignore[attr-defined]
    types = [type(np.dtype(name)) for name in ("float64", "float32", "int64", "int32")]
    return [
        *((scalar, name) for name in ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar")),
        *(np.dtype, codecs.encode, *types),
    ]
