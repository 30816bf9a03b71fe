"""The way into a cluster of Ray, with a stand-in for its library."""

from __future__ import annotations

import math
import socket
from types import SimpleNamespace

import pytest

from sample_profiler.config import Config, parse_config
from sample_profiler.errors import ConfigError
from sample_profiler.runtime.machine import ray_cluster
from sample_profiler.runtime.machine.ray_cluster import Places, check_cluster, enter_cluster, join_cluster
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
    monkeypatch.setattr(ray_cluster, "_knock", lambda *_: None)
    nodes = Nodes(own=64, other=8)
    places, num_actors, taken = Places(nodes, 4, {"own"}), {"own": 0, "other": 0}, []
    for _ in range(3):
        taken.append(places.find(num_actors))
        places.add(taken[-1])  # the cluster knows nothing of it yet
        num_actors[taken[-1]] += 1
    assert taken == ["other", "other", "own"]
    places.lose("other")
    assert places.find(num_actors) == "other", "the room of a lost one is free"


def test_a_node_that_has_gone_with_its_actor_gets_none_before_the_cluster_knows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nodes = Nodes(gone=8, there=8)
        nodes.ports.update(gone=1, there=server.getsockname()[1])
        places = Places(nodes, 4, ())
        places.lose("gone")
        assert [places.find({"there": number}) for number in range(3)] == ["there"] * 3
        places.lose("there")
        assert places.find({"there": 1}) == "there", "it has lost an actor, and is there"
    monkeypatch.setattr(ray_cluster, "_KNOWN_S", 0.0)
    assert places.find({"there": 1}) == "gone", "what the cluster says of it is true by now"


def test_what_was_counted_here_counts_no_longer_when_the_cluster_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(only=8)
    places = Places(nodes, 4, ())
    places.add("only")
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


class Joined:
    """Stands in for Ray's library where a cluster has no processors at the moment, and at first does not answer.

    Args:
        num_refusals: until it does.
    """

    def __init__(self, num_refusals: int) -> None:
        self._num_refusals = num_refusals

    def is_initialized(self) -> bool:
        return False

    def init(self, **_: object) -> None:
        self._num_refusals -= 1
        if self._num_refusals >= 0:
            raise RuntimeError("the node has gone")

    def cluster_resources(self) -> dict[str, float]:
        return {"memory": 1e9}


def test_a_cluster_has_to_be_there_with_room_unless_it_has_lost_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "_AGAIN_S", 0.0)
    config = make_config("--ray_address=auto", "--ray_actors=2")
    with pytest.raises(ConfigError, match=r"--ray_address=auto: there is no cluster of Ray to join \(the node has"):
        join_cluster(Joined(1), config)
    with pytest.raises(ConfigError, match="--ray_actors=2 with 4 processors each ask for 8, and the cluster of"):
        join_cluster(Joined(0), config)
    assert join_cluster(Joined(3), config, patience_s=60.0) is False


def test_a_cluster_is_waited_for_no_longer_than_there_is_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now_s=0.0)
    monkeypatch.setattr(
        ray_cluster,
        "time",
        SimpleNamespace(
            monotonic=lambda: clock.now_s, sleep=lambda seconds: setattr(clock, "now_s", clock.now_s + seconds)
        ),
    )
    with pytest.raises(ConfigError, match="there is no cluster of Ray to join"):
        join_cluster(Joined(1000), make_config("--ray_address=auto"), patience_s=60.0)
    assert 60.0 <= clock.now_s < 70.0
