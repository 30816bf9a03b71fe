"""What can be seen from outside of a run whose trajectories come from other nodes, too."""

from __future__ import annotations

import re
from collections.abc import Iterable

import psutil

from harness.runs import LiveRun
from sample_profiler.errors import SessionError
from sample_profiler.profiling.session.session import read_live
from sample_profiler.profiling.tree.tree import TreeNode

__all__ = ["count_brought", "find_actors", "find_sampling", "is_alive"]

_ACTOR = "ray::SamplingGroup"
_EVENT = re.compile(r"Started RemoteSampler as|Actor (\d+) (samples on node|is lost)")


def count_brought(run: LiveRun) -> int:
    """Return how many datasets the RemoteSampler of a run has brought by now, lost ones included."""
    try:
        records = read_live(run.folder, with_events=False).processes
    except SessionError:  # nobody records yet
        return 0
    trees = [record.trees["RemoteSampler"] for record in records if "RemoteSampler" in record.trees]
    return sum(map(_count_datasets, trees))


def _count_datasets(node: TreeNode) -> int:
    inside = sum(map(_count_datasets, node.children.values()))
    return inside + (node.statistics.count if node.key == "copy_trajectories" else 0)


def find_actors(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return those of some processes that are actors with sampling groups, and go on."""
    return [process for process in processes if _is_actor(process)]


def _is_actor(process: psutil.Process) -> bool:
    try:
        return is_alive(process) and _ACTOR in "".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def is_alive(process: psutil.Process) -> bool:
    """Tell whether a process has not ended; one that nobody has heard of since has."""
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def find_sampling(output: str) -> tuple[set[int], int]:
    """Return which actors sample by now, and how many have been lost, by what a run has printed."""
    sampling: set[int] = set()
    num_lost = 0
    for event in _EVENT.finditer(output):
        if event[1] is None:  # whoever asks them is a new one, and so are they
            sampling.clear()
        elif event[2] == "is lost":
            sampling.discard(int(event[1]))
            num_lost += 1
        else:
            sampling.add(int(event[1]))
    return sampling, num_lost
