"""Who is built from what, and wired to whom."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from sample_profiler.components import topology
from sample_profiler.components.batcher import Batcher
from sample_profiler.components.blueprint import frames_per_step
from sample_profiler.components.rollout_worker import RolloutWorker
from sample_profiler.components.topology import plan_components
from sample_profiler.envs import registry
from sample_profiler.runtime.channels import LocalChannel


def names(blueprint):
    return [plan.settings.name for plan in plan_components(blueprint)]


def test_every_component_of_a_run_is_planned_once(make_blueprint):
    blueprint = make_blueprint("--num_policies=2", "--num_workers=3", "--policy_workers_per_policy=2")
    assert names(blueprint) == [
        "Learner_0", "Batcher_0", "InferenceWorker_p0-w0", "InferenceWorker_p0-w1",
        "Learner_1", "Batcher_1", "InferenceWorker_p1-w0", "InferenceWorker_p1-w1",
        "RolloutWorker_w0", "RolloutWorker_w1", "RolloutWorker_w2",
    ]  # fmt: skip


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


def test_a_rollout_worker_talks_to_its_own_end_of_the_channels(make_blueprint, make_component):
    blueprint = make_blueprint("--num_policies=2", "--num_workers=2")
    worker, _ = make_component(blueprint, "RolloutWorker_w1")
    assert isinstance(worker, RolloutWorker)
    worker.start()
    assert [channel.receive() for channel in blueprint.channels.requests[1]] == [[1], [1]]
    assert [i.source for i in worker.inputs()] == [blueprint.channels.actions[1], blueprint.channels.free[1]]
    worker.finish()


def test_workers_with_inference_of_their_own_share_no_requests_and_need_no_inference_workers(
    make_blueprint, make_component
):
    blueprint = make_blueprint("--num_policies=2", "--num_workers=2", "--inference=worker")
    assert names(blueprint) == [
        "Learner_0", "Batcher_0", "Learner_1", "Batcher_1", "RolloutWorker_w0", "RolloutWorker_w1",
    ]  # fmt: skip
    channels = blueprint.channels
    local = [*channels.requests[0], *channels.requests[1], *channels.actions]
    assert len({id(channel) for channel in local}) == 6
    assert all(isinstance(channel, LocalChannel) for channel in local)
    assert [len(group) for group in channels.first_weights] == [2, 2]
    worker, _ = make_component(blueprint, "RolloutWorker_w1")
    assert worker.wait_block() == "wait_policy"
    sources = [entry.source for entry in worker.inputs()]
    assert sources[:2] == [channels.actions[1], channels.free[1]]
    assert set(map(id, sources[2:])) == {
        id(channel)
        for policy in (0, 1)
        for channel in (channels.first_weights[policy][1], channels.requests[1][policy])
    }
    worker.finish()


def test_environments_are_seeded_from_the_seed_of_the_run_and_their_number_alone(make_blueprint, make_component):
    def first_observations(seed, *flags):
        blueprint = make_blueprint("--num_envs_per_worker=2", *flags, seed=seed)
        for worker in range(blueprint.config.sampling.num_workers):
            component, _ = make_component(blueprint, f"RolloutWorker_w{worker}")
            component.start()
            component.finish()
        slots = blueprint.trajectories.row_slot
        return blueprint.trajectories.observations["obs"][slots, 0]

    first = first_observations(1, "--num_workers=2")
    assert (first == first_observations(1, "--num_workers=2")).all()
    assert (first == first_observations(1, "--num_workers=2", "--worker_num_splits=2")).all()
    assert (first != first_observations(2, "--num_workers=2")).any()
    assert len(np.unique(first, axis=0)) == 4


def test_a_registered_environment_reaches_workers_that_have_not_registered_it(
    make_blueprint, make_component, monkeypatch
):
    blueprint = make_blueprint()
    monkeypatch.setattr(registry, "_makers", {})
    worker, _ = make_component(blueprint, "RolloutWorker_w0")
    worker.start()
    worker.finish()


@pytest.mark.parametrize(("flags", "max_datasets"), [
    (("--async_rl=True", "--num_batches_to_accumulate=3"), 4),
    (("--async_rl=False", "--num_batches_to_accumulate=3"), 1),
])  # fmt: skip
def test_the_learner_may_have_as_many_datasets_as_the_options_say(make_blueprint, make_component, flags, max_datasets):
    blueprint = make_blueprint(*flags, "--batch_size=4")
    batcher, _ = make_component(blueprint, "Batcher_0")
    assert isinstance(batcher, Batcher)
    batcher.inputs()[0].handle([0, 1, 2, 3, 4, 5])
    assert len(blueprint.channels.datasets[0].receive()) == max_datasets


def test_processes_are_bound_to_cores_and_renice_as_asked(make_blueprint, monkeypatch):
    monkeypatch.setattr(topology, "choose_cpus", lambda worker, num_workers: (worker, num_workers))

    def settings(*flags):
        plans = plan_components(make_blueprint("--num_workers=2", *flags))
        return {plan.settings.name: plan.settings for plan in plans}

    bound = settings("--default_niceness=5", "--heartbeat_interval=3")
    assert {s.niceness for s in bound.values()} == {5}
    assert {s.heartbeat_interval_s for s in bound.values()} == {3.0}
    assert {name: s.cpus for name, s in bound.items() if s.cpus} == {
        "RolloutWorker_w0": (0, 2),
        "RolloutWorker_w1": (1, 2),
    }
    free = settings("--set_workers_cpu_affinity=False")
    assert {s.cpus for s in free.values()} == {None}
    assert settings("--force_envs_single_thread=True")["RolloutWorker_w0"].num_threads == 1


def test_a_frame_is_an_environment_step_unless_frameskip_is_to_be_ignored(make_blueprint):
    assert frames_per_step(make_blueprint("--env_frameskip=4").config) == 4
    assert frames_per_step(make_blueprint("--env_frameskip=4", "--summaries_use_frameskip=False").config) == 1


def test_plans_hold_nothing_that_cannot_travel_but_memory_and_channels(make_blueprint):
    blueprint = make_blueprint()
    for part in (blueprint.config, blueprint.env_spec, blueprint.plan, blueprint.env_payload):
        assert pickle.loads(pickle.dumps(part)) == part
    for plan in plan_components(blueprint):
        assert pickle.loads(pickle.dumps(plan.settings)) == plan.settings
