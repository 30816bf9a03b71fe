"""Owns the way into a cluster of Ray: its library, the address, and the environment and places of actors."""

from __future__ import annotations

import importlib
import math
import os
import socket
import time
from collections.abc import Collection, Mapping
from typing import Any

from sample_profiler.config import Config
from sample_profiler.errors import ConfigError
from sample_profiler.profiling.process.usable_cores import num_usable_cores
from sample_profiler.switches import ARE_RANGES_ARMED, RANGES_VARIABLE

__all__ = [
    "Places",
    "as_remote",
    "check_cluster",
    "enter_cluster",
    "import_ray",
    "join_cluster",
    "num_reserved_cpus",
]

_LOOPBACK = "127.0.0.1"
_ANSWER_S = 10.0
_SETTLED_S = 2.0  # after which what the cluster says of its nodes takes account of an actor


def as_remote(actor_class: type, **options: Any) -> Any:
    """Make a class one of actors of Ray whose processes are armed for ranges where this one is.

    ::

        Counter = as_remote(Counter, num_cpus=1)
        counter = Counter.remote()

    Args:
        actor_class: of the actors.
        options: of `ray.remote`; variables in a `runtime_env` of theirs stay as they are.

    Raises:
        ConfigError: Ray is not installed.
    """
    runtime_env = dict(options.pop("runtime_env", None) or {})
    armed = {RANGES_VARIABLE: "1"} if ARE_RANGES_ARMED else {}
    runtime_env["env_vars"] = armed | runtime_env.get("env_vars", {})
    return import_ray().remote(runtime_env=runtime_env, **options)(actor_class)


def import_ray() -> Any:
    """Return Ray's library.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError(
            [f"this needs Ray, which cannot be imported ({error}): pip install 'sample_profiler[ray]'"]
        ) from error


def num_reserved_cpus(config: Config) -> int:
    """Return how many processors an actor reserves."""
    given = config.remote.ray_actor_cpus
    return config.sampling.num_workers if given == -1 else given


def enter_cluster(ray: Any, address: str) -> None:
    """Join the cluster at an address, as `ray.init` takes it.

    Raises:
        ConnectionError, RuntimeError, ValueError: there is none.
    """
    _knock(address)
    ray.init(address=address, logging_level="WARNING")


def check_cluster(config: Config) -> None:
    """Look whether somebody answers at the address of the cluster, if there is one, before anything is made.

    Raises:
        ConfigError: nobody does.
    """
    try:
        _knock(config.remote.ray_address)
    except ConnectionError as error:
        raise _no_cluster(config.remote.ray_address, error) from error


def _knock(address: str) -> None:
    """Raise a ConnectionError if nobody answers at a host and port: Ray tries for minutes, and may end the process."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), _ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"nobody answers there: {error}") from error


def _no_cluster(address: str, error: Exception) -> ConfigError:
    return ConfigError([f"--ray_address={address}: there is no cluster of Ray to join ({error}): see `ray status`"])


class Places:
    """Knows which nodes of the cluster have room for an actor.

    What the cluster says of free processors is older than the latest actors, so these are counted here meanwhile.

    Args:
        ray: Ray's library, in a cluster.
        num_cpus: processors that an actor reserves.
        last: nodes that are taken only where there is no room on others.
    """

    def __init__(self, ray: Any, num_cpus: int, last: Collection[str]) -> None:
        self._ray = ray
        self._num_cpus = num_cpus
        self._last = last
        self._free_cpus: dict[str, float] = {}  # by node
        self._counted_s = -math.inf  # when an actor was counted here for the last time

    def find(self, num_actors: Mapping[str, int]) -> str:
        """Return the node with fewest actors of those that have room, and the most of it; empty: none has any.

        Args:
            num_actors: by node, as far as it has some.
        """
        self._renew()
        alive = {str(node["NodeID"]) for node in self._ray.nodes() if node["Alive"]}
        roomy = [node for node, free in self._free_cpus.items() if node in alive and free >= self._num_cpus]
        return min(
            roomy,
            key=lambda node: (node in self._last, num_actors.get(node, 0), -self._free_cpus[node]),
            default="",
        )

    def count(self, node: str, change: int) -> None:
        """Take account of an actor that goes to a node (1), or is lost there (-1)."""
        self._renew()
        if node in self._free_cpus:
            self._free_cpus[node] -= change * self._num_cpus
        self._counted_s = time.monotonic()

    def _renew(self) -> None:
        """Ask the cluster, unless what was counted here lately is what it does not know yet."""
        if time.monotonic() - self._counted_s < _SETTLED_S:
            return
        try:
            free = self._ray._private.state.available_resources_per_node()  # nothing public tells this by node
        except self._ray.exceptions.RaySystemError:  # through ray:// only what they have in all can be heard
            free = {node["NodeID"]: node["Resources"] for node in self._ray.nodes()}
        self._free_cpus = {str(node): resources.get("CPU", 0.0) for node, resources in free.items()}


def join_cluster(ray: Any, config: Config) -> bool:
    """Join the cluster that a configuration names, unless this process has joined one already.

    Returns:
        Whether it is this process's own, which ends with it.

    Raises:
        ConfigError: there is none at that address, or the actors have no room in it.
    """
    options, wanted = config.remote, config.remote.ray_actors * num_reserved_cpus(config)
    if not ray.is_initialized():
        if not options.ray_address:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            ray.init(
                address="local",
                num_cpus=max(wanted, num_usable_cores()),
                include_dashboard=False,
                logging_level="WARNING",
                _node_ip_address=_LOOPBACK,
            )
            return True
        try:
            enter_cluster(ray, options.ray_address)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise _no_cluster(options.ray_address, error) from error
    there = ray.cluster_resources().get("CPU", 0)
    if wanted > there:
        raise ConfigError(
            [
                f"--ray_actors={options.ray_actors} with {num_reserved_cpus(config)} processors each ask for {wanted}, "
                f"and the cluster of Ray has {there:g}: use fewer actors, fewer --num_workers, or a smaller "
                "--ray_actor_cpus"
            ]
        )
    return False
