"""Names under /dev/shm that say which process tests with them: several test side by side, and see each other's."""

from __future__ import annotations

import os
import re
from uuid import uuid4

SHARED_MEMORY = "/dev/shm"

_OWN = re.compile(r"_of_(\d+)_[0-9a-f]{32}")


def make_shared_name(prefix: str = "sample_profiler_test") -> str:
    """Return the path of a file in shared memory that nobody has."""
    return f"{SHARED_MEMORY}/{prefix}_of_{os.getpid()}_{uuid4().hex}"


def owner_of(name: str) -> int | None:
    """Return the process that has made a name, None for those that others give."""
    found = _OWN.search(name)
    return int(found[1]) if found else None
