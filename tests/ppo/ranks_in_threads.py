"""Several ranks in threads of this process, which talk to each other as those on different machines would."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sample_profiler.runtime.machine.ranks import RankPlace

Result = TypeVar("Result")


def places(size: int) -> list[RankPlace]:
    """Return the places of so many ranks on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return [RankPlace(rank, size, rank, size, "127.0.0.1", port) for rank in range(size)]


def in_ranks(size: int, function: Callable[[RankPlace], Result]) -> list[Result]:
    """Call a function at each of so many ranks, at the same time; return what it returned, by rank."""
    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(function, places(size)))
