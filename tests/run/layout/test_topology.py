"""Which components a run has, and what their processes are like."""

from __future__ import annotations

import pickle

from sample_profiler.run.layout import topology
from sample_profiler.run.layout.topology import plan_components, plan_worker
from sample_profiler.runtime.messages.channels import LocalChannel, LocalReports


def names(blueprint):
    return [plan.settings.name for plan in plan_components(blueprint)]


def test_every_component_of_a_run_is_planned_once(make_blueprint):
    blueprint = make_blueprint("--num_policies=2", "--num_workers=3", "--policy_workers_per_policy=2")
    assert names(blueprint) == [
        "Learner_0", "Batcher_0", "InferenceWorker_p0-w0", "InferenceWorker_p0-w1",
        "Learner_1", "Batcher_1", "InferenceWorker_p1-w0", "InferenceWorker_p1-w1",
        "RolloutWorker_w0", "RolloutWorker_w1", "RolloutWorker_w2",
    ]  # fmt: skip


def test_trajectories_of_other_machines_come_through_one_component_more(make_blueprint):
    made = []
    blueprint = make_blueprint(make_remote_sampler=lambda *arguments: made.append(arguments))
    assert names(blueprint) == [
        *("Learner_0", "Batcher_0", "InferenceWorker_p0-w0", "RolloutWorker_w0", "RemoteSampler")
    ]
    assert len(blueprint.channels.free) == len(blueprint.channels.actions) + 1 == 2
    assert blueprint.counters.agent_steps.shape == (2, 1)
    reports = LocalReports()
    plan_worker(blueprint, 1, attempt=3).make(reports)
    assert made == [(blueprint, 3, reports)]


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
    monkeypatch.setattr(topology, "choose_worker_threads", lambda num_workers: 10 * num_workers)
    assert settings()["RolloutWorker_w1"].num_threads == 20
    assert settings("--inference=worker")["RolloutWorker_w1"].num_threads == 1


def test_plans_hold_nothing_that_cannot_travel_but_memory_and_channels(make_blueprint):
    blueprint = make_blueprint()
    for part in (blueprint.config, blueprint.env_spec, blueprint.plan, blueprint.env_payload):
        assert pickle.loads(pickle.dumps(part)) == part
    for plan in plan_components(blueprint):
        assert pickle.loads(pickle.dumps(plan.settings)) == plan.settings
