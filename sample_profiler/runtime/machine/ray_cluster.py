"""Owns the way into a cluster of Ray: its library, the address, and the environment of its actors."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Collection
from typing import Any

from sample_profiler.config import Config
from sample_profiler.errors import ConfigError
from sample_profiler.profiling.process.usable_cores import num_usable_cores
from sample_profiler.switches import ARE_RANGES_ARMED, RANGES_VARIABLE

__all__ = [
    "as_remote",
    "check_cluster",
    "enter_cluster",
    "find_place",
    "import_ray",
    "join_cluster",
    "num_reserved_cpus",
]

_LOOPBACK = "127.0.0.1"
_ANSWER_S = 10.0


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


def find_place(ray: Any, config: Config, taken: Collection[str]) -> str:
    """Return a node with room for an actor that is none of those; empty: there is none."""
    num_cpus = num_reserved_cpus(config)
    nodes = (node for node in ray.nodes() if node["Alive"] and node["NodeID"] not in taken)
    return next((str(node["NodeID"]) for node in nodes if node["Resources"].get("CPU", 0) >= num_cpus), "")


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
