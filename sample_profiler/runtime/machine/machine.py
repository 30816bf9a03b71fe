"""Owns facts about the machine: what it is, and which cores of it are ours."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass

from sample_profiler.profiling.process.machine import memory_gib, processor_name
from sample_profiler.profiling.process.usable_cores import num_usable_cores

__all__ = ["Machine", "usable_cpus"]


@dataclass(frozen=True)
class Machine:
    """What a run ran on.

    Attributes:
        processor: its model name.
        num_cpus: that this process may keep busy.
        memory_gib: of the machine.
        system: operating system and its version.
        python: version of the interpreter.
    """

    processor: str
    num_cpus: int
    memory_gib: float
    system: str
    python: str

    @classmethod
    def this(cls) -> Machine:
        """Describe this machine."""
        return cls(
            processor=processor_name(),
            num_cpus=num_usable_cores(),
            memory_gib=memory_gib(),
            system=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the facts by name."""
        return asdict(self)


def usable_cpus() -> list[int]:
    """Return the cores that this process may run on; where it has a quota, it cannot keep all of them busy."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
