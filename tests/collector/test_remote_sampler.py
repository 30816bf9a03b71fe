"""A RemoteSampler is one more worker to Batcher and Learner: it fills slots with what groups elsewhere have sampled."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
import torch

from sample_profiler.collector.remote_sampler import RemoteSampler, RemoteSamplerMemory, RemoteSamplerPorts
from sample_profiler.collector.sampling_group import GroupAnswer, GroupOrder
from sample_profiler.components.messages import EpisodesFinished, EpisodeStatistics
from sample_profiler.profiling import Timing
from sample_profiler.run.layout.factories import make_model
from sample_profiler.runtime.messages.channels import LocalChannel, LocalReports
from sample_profiler.storage.sampling_plan import make_sampling_plan
from sample_profiler.storage.trajectories import Trajectories, TrajectoryLayout

EPISODE = EpisodeStatistics(policy=0, episode_return=3.0, length_frames=3, extra={})


class Groups:
    """Two sampling groups whose answers a test writes down."""

    def __init__(self, order):
        self.order = order
        self.answers = []
        self.asked = []
        self.published = []
        self.num_started = 0
        self.way_share = 0.25

    def __len__(self):
        return 2

    def start(self):
        self.num_started += 1

    def grow(self):
        pass

    def ask(self, indices):
        self.asked.append(sorted(indices))

    def take(self, timeout_s):
        assert timeout_s == 0, "nobody waits while slots may come back"
        taken, self.answers = self.answers, []
        return taken

    def publish(self, weights, version, frames):
        self.published.append(({name: values.copy() for name, values in weights.items()}, version, frames))

    def shutdown(self):
        yield GroupAnswer(episodes=(EPISODE,))


class Sampling:
    """A RemoteSampler beside two workers, with a Batcher's and a Learner's ends in the hands of a test."""

    def __init__(self, blueprint):
        self.plan = make_sampling_plan(blueprint.config.sampling, 1, has_remote_worker=True)
        layout = TrajectoryLayout.of(self.plan, blueprint.env_spec, state_size=1)
        self.memory, self.elsewhere = Trajectories(layout), Trajectories(layout)
        self.network = make_model(blueprint, 0)
        self.blueprint = blueprint
        self.free, self.finished, self.reports = LocalChannel(), LocalChannel(), LocalReports()
        self.groups = Groups(GroupOrder(blueprint.config, blueprint.env_spec, b"", {}, frames=0))
        self.sampler = RemoteSampler(
            worker=self.plan.remote_worker,
            dataset_slots=self.plan.dataset_slots,
            free=deque(self.plan.first_slots[-1][0]),
            groups=self.groups,
            network=make_model(blueprint, 0),
            memory=RemoteSamplerMemory(self.memory, blueprint.weights[0], blueprint.counters),
            ports=RemoteSamplerPorts(self.free, self.finished, self.reports),
            timing=Timing("RemoteSampler profile"),
        )

    def publish(self, version, frames):
        with torch.no_grad():
            for tensor in self.network.state_dict().values():
                tensor.add_(1)
        self.blueprint.counters.trained_frames[0] = frames
        self.blueprint.weights[0].publish(self.network.state_dict(), version)

    def give(self, *indices):
        """Let groups have a dataset, each with its own number as rewards."""
        for index in indices:
            self.elsewhere.rewards[:] = index
            contents = self.elsewhere.copy_out(range(self.plan.dataset_slots))
            self.groups.answers.append((index, GroupAnswer(contents, (EPISODE,))))

    def look(self):
        look, *_ = self.sampler.timers()
        look.callback()

    def report(self):
        self.sampler.timers()[-1].callback()
        return [report for report in self.reports.receive() if isinstance(report, EpisodesFinished)]


@pytest.fixture
def sampling(make_blueprint):
    blueprint = make_blueprint("--num_workers=2", "--batch_size=16", "--num_batches_to_accumulate=1")
    with_one_more = type(blueprint.counters)(3, 1)
    return Sampling(replace(blueprint, counters=with_one_more))


def test_groups_are_asked_only_when_there_are_weights_and_get_each_version_once(sampling):
    sampling.sampler.start()
    sampling.look()
    assert (sampling.groups.num_started, sampling.groups.asked, sampling.groups.published) == (1, [], [])
    sampling.publish(version=4, frames=640)
    sampling.look()
    sampling.look()
    ((weights, version, frames),) = sampling.groups.published
    assert (version, frames) == (4, 640)
    assert sampling.groups.order.frames == 640, "who takes a lost one's place begins there"
    for name, tensor in sampling.network.state_dict().items():
        assert np.array_equal(weights[name], tensor.numpy())
    assert sampling.groups.asked == [[0, 1], [0, 1]]


def test_a_dataset_lies_in_slots_of_its_own_and_is_handed_on_as_a_workers_would_be(sampling):
    sampling.publish(version=0, frames=0)
    sampling.give(1)
    sampling.look()
    slots = sampling.finished.receive()
    assert slots == list(sampling.plan.worker_slots[-1][0])[: sampling.plan.dataset_slots]
    assert (sampling.memory.rewards[slots] == 1).all()
    rollout = sampling.plan.rollout
    assert sampling.blueprint.counters.agent_steps.tolist() == [[0], [0], [len(slots) * rollout]]
    assert sampling.report() == [EpisodesFinished((EPISODE,), "RemoteSampler")]
    assert sampling.report() == []


def test_what_has_no_slots_waits_and_whoever_has_sampled_it_is_asked_for_no_more(sampling):
    sampling.publish(version=0, frames=0)
    for index in (0, 1):  # as much as it has slots for
        sampling.give(index)
        sampling.look()
    assert sampling.sampler.wait_block() == "wait_actors"
    sampling.give(1)
    sampling.look()
    slots = sampling.finished.receive()
    assert slots == list(sampling.plan.worker_slots[-1][0])
    assert sampling.groups.asked[-1] == [0]
    assert sampling.sampler.wait_block() == "wait_learner"
    assert sampling.sampler.gauges() == {
        **{"groups": 2, "waiting_datasets": 1, "free_slots": 0},
        "way_share": 0.25,
    }
    (listening,) = sampling.sampler.inputs()
    listening.handle(slots[:1])
    assert sampling.finished.receive() == [], "half a dataset is none"
    listening.handle(slots[1 : sampling.plan.dataset_slots])
    assert sampling.finished.receive() == slots[: sampling.plan.dataset_slots]
    assert (sampling.memory.rewards[slots[: sampling.plan.dataset_slots]] == 1).all()
    sampling.look()
    assert sampling.groups.asked[-1] == [0, 1]


def test_what_groups_tell_at_their_end_is_told(sampling):
    sampling.sampler.finish()
    assert [report.episodes for report in sampling.reports.receive()] == [(EPISODE,)]
