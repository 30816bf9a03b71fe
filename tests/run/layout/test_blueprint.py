"""Who is wired to whom."""

from __future__ import annotations

import itertools
import shutil
import sys

import pytest

from sample_profiler.config import parse_config
from sample_profiler.errors import ConfigError
from sample_profiler.run.layout.blueprint import choose_transport, frames_per_step
from sample_profiler.runtime.loop.fifo_transport import FifoTransport
from sample_profiler.runtime.loop.transports import LocalTransport, PipeTransport
from sample_profiler.runtime.messages.channels import LocalChannel
from tests.doubles.small_runs import Wandering


def test_there_is_a_channel_for_every_arrow_and_none_twice(make_blueprint):
    blueprint = make_blueprint("--num_policies=2", "--num_workers=3", "--policy_workers_per_policy=2")
    channels = blueprint.channels
    assert len(channels.requests) == 3
    assert all(requests is channels.requests[0] for requests in channels.requests), "the workers share them"
    by_policy = [channels.requests[0], channels.finished, channels.datasets, channels.trained, channels.first_weights]
    assert [len(group) for group in by_policy] == [2] * 5
    assert [len(group) for group in (channels.actions, channels.free)] == [3, 3]
    assert [len(group) for group in channels.first_weights] == [2, 2]
    flat = [c for group in (*by_policy[:4], channels.actions, channels.free, *channels.first_weights) for c in group]
    assert len({id(channel) for channel in flat}) == len(flat) == 2 * 4 + 3 * 2 + 4
    assert all(isinstance(channel, LocalChannel) for channel in flat)


@pytest.mark.parametrize("transport", ["none", "pipe", "fifo"])
@pytest.mark.parametrize("inference", ["process", "worker"])
def test_whatever_is_sent_comes_out_where_it_is_read(transport, inference, make_blueprint):
    flags = ("--num_policies=2", "--num_workers=3", f"--inference={inference}")
    flags += ("--policy_workers_per_policy=2",) if inference == "process" else ()
    make = {"none": LocalTransport, "pipe": PipeTransport, "fifo": FifoTransport}[transport]
    channels = make_blueprint(*flags, transport=make()).channels
    for worker, policy in itertools.product(range(3), range(2)):
        channels.requests[worker][policy].send([2 * worker + policy])
    readers = {id(channel): channel for of_policy in channels.asked for channel in of_policy}.values()
    assert sorted(value for channel in readers for value in channel.receive()) == list(range(6))
    others = (*channels.actions, *channels.free, *channels.finished, *channels.datasets, *channels.trained)
    flat = [*others, *itertools.chain(*channels.first_weights)]
    for number, channel in enumerate(flat):
        channel.send([number])
    assert [channel.receive() for channel in flat] == [[number] for number in range(len(flat))]


@pytest.mark.parametrize("make", [PipeTransport, FifoTransport])
def test_there_is_room_for_all_slots_and_all_requests_of_a_run_at_once(make, make_blueprint):
    blueprint = make_blueprint("--num_policies=2", "--num_workers=2", "--num_envs_per_worker=6", transport=make())
    plan, channels = blueprint.plan, blueprint.channels
    for worker, slots in enumerate(plan.worker_slots):
        for slot in itertools.chain(*slots):
            channels.free[worker].send([slot])
        for group in plan.groups_of(worker):
            for _ in range(2):
                channels.actions[worker].send([group.index])
    for policy in range(2):
        for group in plan.groups:
            channels.requests[0][policy].send([group.index])
        for slot in (slot for slots in plan.worker_slots for slot in slots[policy]):
            for channel in (channels.finished[policy], channels.datasets[policy], channels.trained[policy]):
                channel.send([slot])
    assert sum(len(channel.receive()) for channel in channels.free) == plan.num_slots
    assert sum(len(channel.receive()) for channel in channels.finished) == plan.num_slots


def test_pipes_are_chosen_unless_queues_are_asked_for_and_a_serial_run_has_neither():
    def chosen(*flags):
        return type(choose_transport(parse_config(["--env=none", *flags]).sampling))

    assert chosen() is chosen("--transport=auto") is chosen("--transport=pipe") is PipeTransport
    assert chosen("--transport=fifo") is FifoTransport
    assert chosen("--transport=fifo", "--serial_mode=True") is LocalTransport


def test_without_the_libraries_of_queues_the_cure_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "sample_profiler.runtime.loop.fifo_transport", None)
    with pytest.raises(ConfigError, match=r"--transport=fifo: .*install faster-fifo and signal-slot-mp"):
        choose_transport(parse_config(["--env=none", "--transport=fifo"]).sampling)


def test_how_far_earlier_runs_came_is_read_once_for_all_workers(make_blueprint, make_component, monkeypatch, tmp_path):
    for name in ("checkpoint_p0/checkpoint_000000002_400.pth", "checkpoint_p1/best_000000001_300_reward_1.000.pth"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    flags = ("--num_policies=2", "--num_workers=2")
    assert make_blueprint(*flags, "--load_checkpoint_kind=best").first_frames == (0, 300)
    blueprint = make_blueprint(*flags)
    assert blueprint.first_frames == (400, 0)
    shutil.rmtree(tmp_path / "checkpoint_p0")
    told = []
    monkeypatch.setattr(Wandering, "set_training_info", lambda self, info: told.append(info), raising=False)
    worker, _ = make_component(blueprint, "RolloutWorker_w1")
    worker.start()
    worker.finish()
    assert [info["approx_total_training_steps"] for info in told] == [400, 0], "by policy"


def test_a_frame_is_an_environment_step_unless_frameskip_is_to_be_ignored(make_blueprint):
    assert frames_per_step(make_blueprint("--env_frameskip=4").config) == 4
    assert frames_per_step(make_blueprint("--env_frameskip=4", "--summaries_use_frameskip=False").config) == 1
