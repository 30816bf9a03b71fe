"""Groups in actors of Ray are asked and read in turn, and replaced when silent, with a stand-in for Ray's library."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sample_profiler.collector import remote_groups
from sample_profiler.collector.remote_groups import RemoteGroups
from sample_profiler.collector.sampling_group import GroupAnswer, GroupBegun, GroupOrder
from sample_profiler.config import parse_config
from sample_profiler.envs import EnvSpec
from sample_profiler.runtime.machine import ray_cluster
from sample_profiler.runtime.messages.heartbeats import FIRST_SIGN_S
from tests.runtime.machine.ray_nodes import Nodes

NUM_CPUS = 2
BATCH = GroupAnswer(batch={})


class Actor:
    """An actor that is asked for things, and answers when the test wants; first whether it has room, then to begin."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.asked: list[object] = []

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=self._ask)

    def _ask(self, *_: object) -> object:
        self.asked.append(object())
        return self.asked[-1]


class Ray(Nodes):
    """A cluster whose nodes have so many processors; this process is on the first.

    Attributes:
        actors: all that were made.
        killed: those of them that were killed.
        answers: to what actors were asked for, as far as there are some.
    """

    class RayError(Exception):
        """What Ray raises."""

    exceptions = SimpleNamespace(
        RayTaskError=type("RayTaskError", (RayError,), {}),
        GetTimeoutError=type("GetTimeoutError", (RayError,), {}),
        RaySystemError=type("RaySystemError", (RayError,), {}),
        RayError=RayError,
    )

    def __init__(self, **num_cpus: int) -> None:
        super().__init__(**num_cpus)
        self.actors: list[Actor] = []
        self.killed: list[Actor] = []
        self.answers: dict[object, object] = {}
        strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: node if soft else "")
        self.util = SimpleNamespace(scheduling_strategies=strategies)
        self._own = next(iter(num_cpus))

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: self._own)

    def make_class(self, *_: object, num_cpus: int, scheduling_strategy: str) -> Any:
        assert num_cpus == NUM_CPUS

        def make() -> Actor:
            self.actors.append(Actor(scheduling_strategy))
            return self.actors[-1]

        return SimpleNamespace(remote=make)

    def wait(
        self, asked: list[object], *, num_returns: int, timeout: float, fetch_local: bool = True
    ) -> tuple[list[object], list[object]]:
        ready = [each for each in asked if each in self.answers][:num_returns]
        return ready, [each for each in asked if each not in ready]

    def get(self, asked: object, *, timeout: float | None) -> object:
        return self.answers[asked]

    def put(self, weights: object) -> object:
        return weights

    def kill(self, actor: Actor) -> None:
        self.killed.append(actor)

    def answer(self, actor: Actor, answer: object = True) -> None:
        """Let an actor answer what it was asked for last."""
        self.answers[actor.asked[-1]] = answer

    def give_room(self, actor: Actor) -> None:
        """Let an actor be placed, so that it may begin."""
        self.answers[actor.asked[0]] = True


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(remote_groups, "time", clock)
    return clock


Make = Callable[..., RemoteGroups]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Make:
    """Return what starts groups in a cluster."""

    def start(ray: Ray, num_actors: int, *flags: str) -> RemoteGroups:
        monkeypatch.setattr(ray_cluster, "_SETTLED_S", math.inf)  # what is in use does not change meanwhile
        monkeypatch.setattr(ray_cluster, "_knock", lambda *_: None)
        monkeypatch.setattr(remote_groups, "import_ray", lambda: ray)
        monkeypatch.setattr(remote_groups, "join_cluster", lambda *_: False)
        monkeypatch.setattr(remote_groups, "as_remote", ray.make_class)
        config = parse_config(
            ["--env=none", f"--num_workers={NUM_CPUS}", f"--ray_actors={num_actors}", "--hang_timeout=10", *flags]
        )
        env_spec = EnvSpec(observation_space=None, action_space=None)  # type: ignore[arg-type]
        groups = RemoteGroups(config, GroupOrder(config, env_spec, b"", {}), spares_own_node=True)
        groups.start()
        return groups

    return start


def begin(ray: Ray, groups: RemoteGroups) -> None:
    for actor in ray.actors:
        ray.give_room(actor)
        ray.answer(actor, GroupBegun(["RolloutWorker_w0"], actor.place))
    groups.await_begin()


def pass_time(clock: Clock, groups: RemoteGroups, seconds: float) -> None:
    """Let time pass in which groups are looked at every second, and have nothing new to say."""
    for _ in range(round(seconds)):
        clock.now_s += 1.0
        assert groups.take(timeout_s=0) == []


def test_all_that_have_answered_are_read_at_once_or_the_first_alone_where_one_waits(make: Make) -> None:
    ray = Ray(own=0, other=100)
    groups = make(ray, 30)
    begin(ray, groups)
    groups.ask()
    for actor in ray.actors:
        ray.answer(actor, BATCH)
    assert [index for index, _ in groups.take(timeout_s=1.0)] == [0]
    assert [index for index, _ in groups.take(timeout_s=0)] == list(range(1, 30))
    assert groups.take(timeout_s=0) == []


def test_what_a_group_has_taken_for_a_batch_is_told_from_the_way_there_and_back(make: Make, clock: Clock) -> None:
    ray = Ray(own=0, other=100)
    groups = make(ray, 1)
    begin(ray, groups)
    assert groups.way_share == 0.0, "how long beginning takes is no matter of the way"
    for _ in range(300):
        groups.ask()
        clock.now_s += 1.0
        ray.answer(ray.actors[0], GroupAnswer(batch={}, took_s=0.25))
        groups.take(timeout_s=0)
    assert groups.way_share == pytest.approx(0.75, abs=0.01)


def test_whoever_has_answered_is_not_silent_however_late_that_is_read(make: Make, clock: Clock) -> None:
    ray = Ray(own=0, other=100)
    groups = make(ray, 3)
    begin(ray, groups)
    groups.ask()
    silent = ray.actors[1]
    pass_time(clock, groups, 8.0)
    ray.answer(ray.actors[0], BATCH)
    ray.answer(ray.actors[2], BATCH)
    clock.now_s += 4.0
    assert [index for index, _ in groups.take(timeout_s=1.0)] == [0]
    assert ray.killed == [silent]
    assert [index for index, _ in groups.take(timeout_s=1.0)] == [2]
    assert len(ray.actors) == 4 and len(groups) == 3


def test_without_room_an_actor_is_waited_for_and_that_is_said_now_and_then(
    make: Make, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    ray = Ray(own=0, other=0)
    groups = make(ray, 1)
    for _ in range(450):
        clock.now_s += 0.1
        groups.take(timeout_s=0)
    assert ray.actors[0].place == "SPREAD"
    assert caplog.messages == [f"Actor 0 has waited for room in the cluster for {waited_s} s" for waited_s in (10, 40)]
    assert ray.killed == []


def test_an_actor_that_has_room_and_does_not_begin_is_replaced(make: Make, clock: Clock) -> None:
    ray = Ray(own=0, other=100)
    groups = make(ray, 1)
    pass_time(clock, groups, 50.0)
    ray.give_room(ray.actors[0])
    groups.take(timeout_s=0)
    pass_time(clock, groups, FIRST_SIGN_S - 1.0)
    assert ray.killed == [], "libraries may be loaded over a network"
    pass_time(clock, groups, 2.0)
    assert ray.killed == ray.actors[:1]
    assert len(ray.actors) == 2
    begin(ray, groups)
    assert list(groups.components()) == [0]


def test_more_actors_than_nodes_leave_the_own_one_alone_as_long_as_others_have_room(make: Make) -> None:
    ray = Ray(own=64, first=4, second=2)
    make(ray, 4)
    assert [actor.place for actor in ray.actors] == ["first", "second", "first", "own"]


def test_a_node_that_joins_gets_one_and_no_other(make: Make) -> None:
    ray = Ray(own=64, first=2, second=2)
    ray.dead.add("second")
    groups = make(ray, 1, "--max_nodes=3")
    begin(ray, groups)
    groups.grow()
    assert len(groups) == 1
    ray.dead.clear()
    groups.grow()
    begin(ray, groups)
    groups.grow()
    assert [actor.place for actor in ray.actors] == ["first", "second"], "the own node samples in any case"


def test_weights_that_have_to_be_the_latest_are_sent_behind_those_that_have_not_arrived(make: Make) -> None:
    ray = Ray(own=0, other=100)
    groups = make(ray, 1)
    begin(ray, groups)
    (actor,) = ray.actors
    num_asked = len(actor.asked)
    groups.publish({}, version=1)
    groups.publish({}, version=2)
    assert len(actor.asked) == num_asked + 1, "one after the other"
    groups.ask(of_latest=True)
    assert len(actor.asked) == num_asked + 3, "nobody waits for an actor that may hang: it takes one after the other"


def test_while_whoever_asks_was_away_nobody_was_silent(make: Make, clock: Clock) -> None:
    ray = Ray(own=0, other=100)
    groups = make(ray, 2)
    begin(ray, groups)
    groups.ask()
    pass_time(clock, groups, 3.0)
    clock.now_s += 3600.0  # the machine was suspended
    pass_time(clock, groups, 2.0)
    assert ray.killed == []
    ray.answer(ray.actors[0], BATCH)
    assert [index for index, _ in groups.take(timeout_s=0)] == [0]
    for _ in range(5):
        clock.now_s += 1.0
        groups.take(timeout_s=0)
    assert ray.killed == ray.actors[1:2], "who has not answered then is"
