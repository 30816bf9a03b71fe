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
_NODE_ANSWERS_S = 0.5
_KNOWN_S = 60.0  # after which the cluster itself says of a node that has gone that it has
_SETTLED_S = 2.0  # after which what the cluster says of its nodes takes account of an actor
_AGAIN_S = 2.0  # after which a cluster that was not there is tried again


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
    _knock_at(address)
    ray.init(address=address, logging_level="WARNING")


def check_cluster(config: Config) -> None:
    """Look whether somebody answers at the address of the cluster, if there is one, before anything is made.

    Raises:
        ConfigError: nobody does.
    """
    try:
        _knock_at(config.remote.ray_address)
    except ConnectionError as error:
        raise _no_cluster(config.remote.ray_address, error) from error


def _knock_at(address: str) -> None:
    """Raise a ConnectionError if nobody answers at a host and port: Ray tries for minutes, and may end the process."""
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdecimal():
        _knock(host, int(port), _ANSWER_S)


def _knock(host: str, port: int, patience_s: float) -> None:
    """Raise a ConnectionError if nobody answers at a port within so long."""
    try:
        socket.create_connection((host, port), patience_s).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"nobody answers there: {error}") from error


def _no_cluster(address: str, error: Exception) -> ConfigError:
    return ConfigError([f"--ray_address={address}: there is no cluster of Ray to join ({error}): see `ray status`"])


class Places:
    """Knows which nodes of the cluster have room for an actor.

    What the cluster says of free processors is older than the latest actors, so these are counted here meanwhile. That
    a node has gone it may say only half a minute later, and actors that are sent there wait for so long: where one is
    lost, it is tried whether its node still answers.

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
        self._gone_s: dict[str, float] = {}  # when nobody answered, by node

    def find(self, num_actors: Mapping[str, int]) -> str:
        """Return the node with fewest actors of those that have room, and the most of it; empty: none has any.

        Args:
            num_actors: by node, as far as it has some.
        """
        self._renew()
        alive = {name for name in self._alive() if not self._is_gone(name)}
        roomy = [node for node, free in self._free_cpus.items() if node in alive and free >= self._num_cpus]
        return min(
            roomy,
            key=lambda node: (node in self._last, num_actors.get(node, 0), -self._free_cpus[node]),
            default="",
        )

    def add(self, node: str) -> None:
        """Take account of an actor that goes to a node."""
        self._count(node, 1)

    def lose(self, node: str) -> None:
        """Take account of an actor that is lost on a node, which may have gone with it."""
        self._count(node, -1)
        place = self._alive().get(node)
        if place is None or self._is_gone(node):
            return
        try:
            _knock(place["NodeManagerAddress"], place["NodeManagerPort"], _NODE_ANSWERS_S)
        except ConnectionError:
            self._gone_s[node] = time.monotonic()

    def _alive(self) -> dict[str, Mapping[str, Any]]:
        return {str(node["NodeID"]): node for node in self._ray.nodes() if node["Alive"]}

    def _is_gone(self, node: str) -> bool:
        return time.monotonic() - self._gone_s.get(node, -math.inf) < _KNOWN_S

    def _count(self, node: str, change: int) -> None:
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


def join_cluster(ray: Any, config: Config, patience_s: float = 0.0) -> bool:
    """Join the cluster that a configuration names, unless this process has joined one already.

    Args:
        ray: Ray's library.
        config: names the cluster, and says how much room the actors need.
        patience_s: for which the cluster is waited for, and with however few processors it is there: it has lost
            something. 0: it has to be there, with room for all actors.

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
        _enter_within(ray, options.ray_address, patience_s)
    there = ray.cluster_resources().get("CPU", 0)
    if wanted > there and not patience_s:
        raise ConfigError(
            [
                f"--ray_actors={options.ray_actors} with {num_reserved_cpus(config)} processors each ask for {wanted}, "
                f"and the cluster of Ray has {there:g}: use fewer actors, fewer --num_workers, or a smaller "
                "--ray_actor_cpus"
            ]
        )
    return False


def _enter_within(ray: Any, address: str, patience_s: float) -> None:
    """Join the cluster at an address, and try that again as long as there is none.

    Raises:
        ConfigError: there still is none.
    """
    end_s = time.monotonic() + patience_s
    while True:
        try:
            enter_cluster(ray, address)
            return
        except (ConnectionError, RuntimeError, ValueError) as error:
            if time.monotonic() >= end_s:
                raise _no_cluster(address, error) from error
        time.sleep(_AGAIN_S)
