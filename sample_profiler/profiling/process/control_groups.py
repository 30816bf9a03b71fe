"""Owns where the kernel tells of the control groups that a process is in: those of a container, a service, a job."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ControlGroup", "groups_of", "read_number", "read_quickly"]

_CGROUPS = Path("/sys/fs/cgroup")
_PROCESSES = Path("/proc")


@dataclass(frozen=True)
class ControlGroup:
    """A group under one of its controllers.

    Attributes:
        version: of the kernel's interface, 1 or 2; files have other names in each.
        root: of the hierarchy that it is in.
        folder: with the files that tell of it; may not be there.
    """

    version: int
    root: Path
    folder: Path


def groups_of(controller: str, pid: int | str = "self") -> tuple[ControlGroup, ...]:
    """Return the groups that a process is in, each before those around it; nothing where the system has none.

    A container often sees its own group as the outermost one, and its path as it is outside: then the inner folders are
    not there.

    Args:
        controller: such as "cpu" or "memory".
        pid: number of the process.
    """
    try:
        text = read_quickly(f"{_PROCESSES}/{pid}/cgroup").decode(errors="surrogateescape")
    except OSError:  # another system, or the process is gone
        return ()
    return _parse(_CGROUPS, controller, text)


def read_number(path: Path, name: str = "") -> float | None:
    """Return the number that a file consists of, or that follows a name in one of its lines; None: there is none."""
    begin = f"{name} ".encode() if name else b""
    try:
        found = (line for line in read_quickly(path).splitlines() if line.startswith(begin))
        return float(next(found).split()[-1])
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def read_quickly(path: str | Path) -> bytes:
    """Return what the kernel tells in a file, in a tenth of the time that `Path.read_text` takes.

    Raises:
        OSError: there is no such file.
    """
    with open(path, "rb", buffering=0) as file:
        return file.readall()


@functools.lru_cache(maxsize=64)  # the processes of a run are in the same ones, and stay there
def _parse(root: Path, controller: str, text: str) -> tuple[ControlGroup, ...]:
    groups: list[ControlGroup] = []
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            # Beside groups of version 1, those of version 2 are in a folder of their own.
            groups += [*_groups_around(2, root, path), *_groups_around(2, root / "unified", path)]
        elif controller in controllers.split(","):
            groups += _groups_around(1, root / controller, path)
    return tuple(groups)


def _groups_around(version: int, root: Path, path: str) -> Iterator[ControlGroup]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield ControlGroup(version, root, root.joinpath(*parts[:length]))
