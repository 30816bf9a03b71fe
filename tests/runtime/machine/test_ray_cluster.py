"""The way into a cluster of Ray, with a stand-in for its library."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from sample_profiler.config import Config, parse_config
from sample_profiler.errors import ConfigError
from sample_profiler.runtime.machine.ray_cluster import check_cluster, enter_cluster, find_place


def node(name: str, num_cpus: float, *, is_alive: bool = True) -> dict[str, Any]:
    return {"NodeID": name, "Alive": is_alive, "Resources": {"CPU": num_cpus, "memory": 1e9}}


def make_config(*flags: str) -> Config:
    return parse_config(["--env=none", "--num_workers=4", *flags])


def test_an_actor_goes_to_a_node_that_has_none_is_alive_and_has_processors_enough() -> None:
    nodes = [node("dead", 8, is_alive=False), node("small", 3), node("first", 4), node("second", 8)]
    ray = SimpleNamespace(nodes=lambda: nodes)
    assert find_place(ray, make_config(), ()) == "first"
    assert find_place(ray, make_config(), {"first"}) == "second"
    assert find_place(ray, make_config(), {"first", "second"}) == ""
    assert find_place(ray, make_config("--ray_actor_cpus=2"), {"first", "second"}) == "small"


def test_an_address_at_which_nobody_answers_is_found_out_without_ray() -> None:
    begun: list[str] = []
    ray = SimpleNamespace(init=lambda address, **_: begun.append(address))
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        check_cluster(make_config(f"--ray_address={address}"))
        enter_cluster(ray, address)
    with pytest.raises(ConfigError, match=f"--ray_address={address}: there is no cluster of Ray to join"):
        check_cluster(make_config(f"--ray_address={address}"))
    with pytest.raises(ConnectionError, match="nobody answers there"):
        enter_cluster(ray, address)
    assert begun == [address]


@pytest.mark.parametrize("address", ["", "auto", "local", "ray://127.0.0.1:1"])
def test_other_addresses_are_for_ray_to_judge(address: str) -> None:
    check_cluster(make_config(f"--ray_address={address}"))
