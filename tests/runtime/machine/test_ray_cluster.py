"""The way into a cluster of Ray, with a stand-in for its library."""

from __future__ import annotations

import math
import socket
from types import SimpleNamespace

import pytest

from sample_profiler.config import Config, parse_config
from sample_profiler.errors import ConfigError
from sample_profiler.runtime.machine import ray_cluster
from sample_profiler.runtime.machine.ray_cluster import Places, check_cluster, enter_cluster
from tests.runtime.machine.ray_nodes import Nodes


def make_config(*flags: str) -> Config:
    return parse_config(["--env=none", "--num_workers=4", *flags])


def test_an_actor_goes_where_fewest_are_of_the_nodes_that_are_alive_and_have_processors_free() -> None:
    nodes = Nodes(dead=8, busy=8, first=4, second=8)
    nodes.dead.add("dead")
    nodes.used["busy"] = 5
    places = Places(nodes, 4, ())
    assert places.find({}) == "second", "it has most room"
    assert places.find({"second": 1}) == "first"
    assert places.find({"second": 1, "first": 2}) == "second", "another one has room on it"
    nodes.used.update(first=1, second=8)
    assert places.find({}) == ""
    assert Places(nodes, 3, ()).find({"busy": 1}) == "first"


def test_the_last_node_is_taken_where_others_have_no_room_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "_SETTLED_S", math.inf)
    nodes = Nodes(own=64, other=8)
    places, num_actors, taken = Places(nodes, 4, {"own"}), {"own": 0, "other": 0}, []
    for _ in range(3):
        taken.append(places.find(num_actors))
        places.count(taken[-1], 1)  # the cluster knows nothing of it yet
        num_actors[taken[-1]] += 1
    assert taken == ["other", "other", "own"]
    places.count("other", -1)
    assert places.find(num_actors) == "other", "the room of a lost one is free"


def test_what_was_counted_here_counts_no_longer_when_the_cluster_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(only=8)
    places = Places(nodes, 4, ())
    places.count("only", 1)
    nodes.used["only"] = 4
    monkeypatch.setattr(ray_cluster, "_SETTLED_S", 0.0)
    assert places.find({}) == "only"
    nodes.used["only"] = 8
    assert places.find({}) == ""


def test_where_free_processors_cannot_be_heard_of_all_that_a_node_has_count() -> None:
    nodes = Nodes(only=8)
    nodes.used["only"] = 8
    nodes.is_client = True
    assert Places(nodes, 4, ()).find({}) == "only"


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
