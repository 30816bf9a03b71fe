"""Owns how a vector tells of the ends of episodes: when members begin anew, and what their episodes led to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from sample_profiler.errors import EnvContractError

__all__ = ["FINAL_OBSERVATION_KEYS", "check_infos", "read_autoreset", "tells_finals", "with_named_finals"]

FINAL_OBSERVATION_KEYS = ("final_obs", "final_observation")


def read_autoreset(metadata: Mapping[str, Any], name: str) -> AutoresetMode | None:
    """Return when members of a vector begin anew, as its metadata say; None: they do not say.

    Args:
        metadata: Of the vector.
        name: Of the vector, for errors.

    Raises:
        EnvContractError: They say something else.
    """
    told = metadata.get("autoreset_mode")
    if told is None:
        return None
    for mode in AutoresetMode:
        if told in (mode, mode.value, mode.name):
            return mode
    allowed = ", ".join(f"AutoresetMode.{mode.name}" for mode in AutoresetMode)
    raise EnvContractError(
        f"environment {name}: its metadata say autoreset_mode {told!r}; it is one of gymnasium.vector's {allowed}, or "
        "left out"
    )


def check_infos(infos: Any, num_members: int, name: str) -> None:
    """Check that infos of a step are of all members.

    Args:
        infos: As the vector returned them.
        num_members: Of the vector.
        name: Of the vector, for errors.

    Raises:
        EnvContractError: They are neither one dictionary nor one for each.
    """
    if isinstance(infos, Mapping):
        return
    is_list = isinstance(infos, Sequence) and not isinstance(infos, str)
    is_list |= isinstance(infos, np.ndarray) and infos.ndim > 0
    if not is_list or len(infos) != num_members:
        told = f"a {type(infos).__name__} of {len(infos)}" if is_list else f"{infos!r:.60}"
        raise EnvContractError(
            f"environment {name}: step() returned infos {told}; they are one dictionary of arrays, empty if need be, "
            f"or a list with one dictionary for each of {num_members} members"
        )


def tells_finals(infos: Any) -> bool:
    """Tell whether infos, of all members or of each, say what an episode has led to."""
    of_members: Iterable[Any] = [infos] if isinstance(infos, Mapping) else infos
    return any(info and info.get(key) is not None for info in of_members for key in FINAL_OBSERVATION_KEYS)


def with_named_finals(infos: Any, space: gymnasium.Space[Any]) -> Any:
    """Return infos in which a batch of final observations has its Tuples as dictionaries, by the numbers of entries.

    A list, or an array of objects, has one for each member, and is what it was; so is a tuple where observations are
    none themselves.

    Args:
        infos: As a vector returned them.
        space: Of the observations of one member.
    """
    if not isinstance(infos, Mapping):
        return infos
    batches = (Mapping, tuple) if isinstance(space, spaces.Tuple) else Mapping
    told = {key: infos[key] for key in FINAL_OBSERVATION_KEYS if isinstance(infos.get(key), batches)}
    return {**infos, **{key: _named(batch) for key, batch in told.items()}} if told else infos


def _named(batch: Any) -> Any:
    if isinstance(batch, tuple):
        batch = {str(index): part for index, part in enumerate(batch)}
    return {key: _named(part) for key, part in batch.items()} if isinstance(batch, Mapping) else batch
