"""Owns a cluster of Ray whose nodes are all on this machine, and ends, freezes and renews them."""

from __future__ import annotations

import contextlib
import importlib
import random
import signal
import subprocess
import time
from collections.abc import Iterable
from typing import Any

import psutil

from harness.remote_runs import find_actors, is_alive

__all__ = ["LocalNodes", "SamplingNode"]

_RAYLET = "raylet"
_BEGIN_S = 60.0


class SamplingNode:
    """A node with an actor.

    Attributes:
        actor: its process.
    """

    def __init__(self, node: Any, actor: psutil.Process) -> None:
        self.actor = actor
        self._node = node

    def everybody(self) -> list[psutil.Process]:
        """Return all processes of the node, whoever has started them."""
        found: list[psutil.Process] = []
        for infos in self._node.all_processes.values():
            for own in map(_as_process, (info.process for info in infos)):
                found += [own, *_below(own)] if own else []
        return found

    def kill_raylet(self) -> None:
        """Kill what Ray has on the node; actors end when they notice."""
        _kill(self._node)

    def kill(self) -> None:
        """Kill everybody on the node in one moment."""
        for process in self.everybody():
            _send(process, signal.SIGKILL)
        _kill(self._node)

    def send(self, number: signal.Signals) -> list[psutil.Process]:
        """Send everybody on the node a signal; return who that was."""
        told = self.everybody()
        for process in told:
            _send(process, number)
        return told


class LocalNodes:
    """Nodes on this machine; a context, which ends them with all that runs there.

    The first is the run's own and has no room for actors, the others for one each.

    Args:
        num_others: beside the run's own.
    """

    def __init__(self, num_others: int) -> None:
        cluster = importlib.import_module("ray.cluster_utils").Cluster
        self._cluster = cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self._seen: dict[int, psutil.Process] = {}
        for _ in range(num_others):
            self._cluster.add_node(num_cpus=1)
        self._cluster.wait_for_nodes(_BEGIN_S)

    def __enter__(self) -> LocalNodes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.left_over():
            process.kill()
        self._cluster.shutdown()

    @property
    def address(self) -> str:
        """Where the cluster can be joined."""
        return str(self._cluster.address)

    def look(self) -> None:
        """Note who is there: actors, and what they have started."""
        for node in self._cluster.list_all_nodes():
            for actor in _actors_on(node):
                self._seen |= {process.pid: process for process in (actor, *_below(actor))}

    def choose(self, rng: random.Random) -> SamplingNode:
        """Return one of the nodes with an actor."""
        found = [SamplingNode(node, actor) for node in self._cluster.worker_nodes for actor in _actors_on(node)]
        return rng.choice(sorted(found, key=lambda node: node.actor.pid))

    def kill_own_raylet(self) -> None:
        """Kill what Ray has on the run's own node, but for what keeps the books of the cluster."""
        _kill(self._cluster.head_node)

    def renew(self) -> None:
        """Put nodes in the place of those whose raylet is gone."""
        for node in list(self._cluster.worker_nodes):
            if _raylet_of(node).poll() is not None:
                self._cluster.remove_node(node, allow_graceful=False)
                self._cluster.add_node(num_cpus=1)

    def left_over(self, patience_s: float = 0.0) -> list[psutil.Process]:
        """Return which actors, and what they have started, are still there after a while."""
        return wait_for_ends(self._seen.values(), patience_s)


def wait_for_ends(processes: Iterable[psutil.Process], patience_s: float) -> list[psutil.Process]:
    """Return which processes have not ended after a while."""
    end_s = time.monotonic() + patience_s
    while (left := [each for each in processes if is_alive(each)]) and time.monotonic() < end_s:
        time.sleep(0.1)
    return left


def _raylet_of(node: Any) -> subprocess.Popen[bytes]:
    process: subprocess.Popen[bytes] = node.all_processes[_RAYLET][0].process
    return process


def _actors_on(node: Any) -> list[psutil.Process]:
    raylet = _as_process(_raylet_of(node))
    return find_actors(_below(raylet)) if raylet else []


def _as_process(process: subprocess.Popen[bytes]) -> psutil.Process | None:
    return psutil.Process(process.pid) if process.poll() is None else None


def _kill(node: Any) -> None:
    raylet = _raylet_of(node)
    raylet.kill()
    raylet.wait()  # what it has started takes it for alive as long as it is a zombie


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        children: list[psutil.Process] = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return children


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)
