"""A stand-in for Ray's library as far as it tells of the nodes of a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Nodes:
    """Nodes by name, with so many processors each, of which a test says how many are in use.

    Attributes:
        used: processors, by node.
        dead: nodes.
        ports: at which somebody may listen, by node.
        is_client: whether this process is outside the cluster.
    """

    exceptions = SimpleNamespace(RaySystemError=RuntimeError)

    def __init__(self, **num_cpus: int) -> None:
        self._num_cpus = num_cpus
        self.used: dict[str, int] = {}
        self.dead: set[str] = set()
        self.ports: dict[str, int] = {}
        self.is_client = False
        self._private = SimpleNamespace(state=self)

    def nodes(self) -> list[dict[str, Any]]:
        """Return what they have in all."""
        return [
            {
                **{"NodeID": name, "Alive": name not in self.dead, "Resources": {"CPU": float(num), "memory": 1e9}},
                **{"NodeManagerAddress": "127.0.0.1", "NodeManagerPort": self.ports.get(name, 1)},
            }
            for name, num in self._num_cpus.items()
        ]

    def available_resources_per_node(self) -> dict[str, dict[str, float]]:
        """Return what is free, without that of which there is nothing."""
        if self.is_client:
            raise RuntimeError
        free = {name: float(num - self.used.get(name, 0)) for name, num in self._num_cpus.items()}
        return {name: {"memory": 1e9, **({"CPU": num} if num else {})} for name, num in free.items()}
