"""Processes that are joined by signals: how they wait, and what they leave behind."""

from __future__ import annotations

import os
import threading
import time
from functools import partial

import pytest
import spawned_components as spawned

from sample_profiler.runtime.loop.event_loop import PipeWaiter
from sample_profiler.runtime.loop.fifo_transport import FifoTransport
from sample_profiler.runtime.messages.channels import LocalChannel, PipeChannel
from sample_profiler.runtime.messages.heartbeats import Heartbeat
from sample_profiler.runtime.processes.child import ChildSettings


@pytest.fixture
def transport():
    return FifoTransport()


def make_channels(transport, *names):
    channels = [transport.make_channel(name, "Spawned", 100) for name in names]
    transport.open()
    return channels


def settings(transport):
    return ChildSettings("Spawned", heartbeat_interval_s=0.2, make_waiter=transport.waiter_of("Spawned"))


@pytest.mark.parametrize("waiter_of", ["waiter_of", "looking_waiter_of"])
def test_a_waiter_returns_whatever_has_something_and_at_the_latest_when_its_time_is_up(waiter_of, transport):
    one, other = make_channels(transport, "one", "other")
    pipe, local = PipeChannel(), LocalChannel()
    waiter = getattr(transport, waiter_of)("Spawned")([one, pipe, local, other])
    assert waiter.wait(0.0) == waiter.wait(-1.0) == waiter.wait(0.01) == []
    for channel, ready in ((one, [one]), (pipe, [pipe]), (local, [local])):
        channel.send([1])
        assert waiter.wait(10.0) == ready
        assert waiter.wait(10.0) == ready, "nobody has received it"
        assert channel.receive() == [1]
    for channel in (other, local, pipe, one):
        channel.send([2, 3])
    assert waiter.wait(10.0) == [pipe, local, one, other]
    assert [channel.receive(1) for channel in (pipe, local, one, other)] == [[2]] * 4
    assert waiter.wait(10.0) == [pipe, local, one, other], "there is more"


@pytest.mark.parametrize("kind", ["signal", "pipe"])
def test_who_waits_is_woken_by_what_comes(kind, transport):
    (channel,) = make_channels(transport, "values")
    pipe = PipeChannel()
    source = channel if kind == "signal" else pipe
    thread = threading.Thread(target=lambda: (time.sleep(0.1), source.send([1])))
    thread.start()
    assert transport.waiter_of("Spawned")([channel, pipe]).wait(60.0) == [source]
    thread.join()


def test_what_comes_while_something_else_is_received_is_not_waited_for(transport):
    one, other = make_channels(transport, "one", "other")
    waiter = transport.waiter_of("Spawned")([one, other])
    one.send([1])
    assert waiter.wait(10.0) == [one]
    other.send([2])
    assert one.receive() == [1], "takes from the queue what there is for all"
    assert waiter.wait(10.0) == [other]


def test_who_has_no_channel_waits_for_pipes_alone(transport):
    make_channels(transport, "values")
    assert transport.waiter_of("Evaluator_0") is PipeWaiter


def test_a_part_of_what_is_shared_comes_to_each_reader(transport):
    sender, receivers = transport.make_shared("requests", ["a", "b"], 4)
    alone, (receiver,) = transport.make_shared("requests", ["c"], 1)
    transport.open()
    sender.send(range(4))
    alone.send([5])
    assert [channel.receive() for channel in (*receivers, receiver)] == [[0, 2], [1, 3], [5]]


def test_a_component_hears_signals_and_its_parent_alike(supervisor, transport, await_report, reports_until_end):
    (channel,) = make_channels(transport, "values")
    channel.send([1, 2])  # before there is its process
    child = supervisor.spawn(settings(transport), partial(spawned.make_spawned, channel=channel))
    assert await_report(child, lambda report: report == [1, 2])
    channel.send([3])
    assert await_report(child, lambda report: report == [3])
    child.stop()
    assert "finish was called" in reports_until_end(child)
    assert child.exit_code == 0


def test_games_inherit_no_queue(supervisor, transport, await_report):
    (channel,) = make_channels(transport, "values")
    maker = partial(spawned.make_spawned, channel=channel, start=spawned.tell_which_queues_others_would_inherit)
    child = supervisor.spawn(settings(transport), maker)
    assert set(await_report(child, lambda report: isinstance(report, list))) == {False}


def test_a_process_that_is_killed_while_it_holds_a_queue_is_named_and_lets_go(
    supervisor, transport, await_report, wait_until
):
    (channel,) = make_channels(transport, "values")
    maker = partial(spawned.make_spawned, channel=channel, handle=partial(spawned.hold, channel=channel))
    child = supervisor.spawn(settings(transport), maker)
    await_report(child, lambda report: isinstance(report, Heartbeat))
    assert transport.describe_locks({}) == []
    channel.send([1])
    await_report(child, lambda report: report == "holds it")
    names = {child.pid: "Somebody"}
    assert transport.describe_locks(names) == ["the queue of Spawned is held by Somebody"]
    assert transport.describe_locks({}) == [f"the queue of Spawned is held by thread {child.pid}"]
    transport.release()
    assert transport.describe_locks(names), "it lives"
    thread = threading.Thread(target=channel.send, args=([2],))
    thread.start()
    os.kill(child.pid, 9)
    wait_until(lambda: not child.is_alive())
    transport.release()
    thread.join()
    assert transport.describe_locks(names) == []
    channel.clear()
    assert channel.receive() == []
