"""What components are made of."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sample_profiler.components.batcher import Batcher
from sample_profiler.components.rollout_worker.worker import RolloutWorker
from sample_profiler.envs import registry
from sample_profiler.errors import CheckpointError
from sample_profiler.model.kernels.built import KERNELS
from sample_profiler.ppo.optimizers import FusedAdam
from sample_profiler.run.layout import factories as making
from sample_profiler.runtime.machine import core_shares
from sample_profiler.runtime.messages.channels import LocalReports


def test_a_rollout_worker_talks_to_its_own_end_of_the_channels(make_blueprint, make_component):
    blueprint = make_blueprint("--num_policies=2", "--num_workers=2")
    worker, _ = make_component(blueprint, "RolloutWorker_w1")
    assert isinstance(worker, RolloutWorker)
    worker.start()
    assert [channel.receive() for channel in blueprint.channels.requests[1]] == [[1], [1]]
    assert [i.source for i in worker.inputs()] == [blueprint.channels.actions[1], blueprint.channels.free[1]]
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


def test_environments_of_a_successor_are_others_than_those_of_the_lost_worker(make_blueprint):
    def first_observation(attempt):
        blueprint = make_blueprint()
        worker = making.make_rollout_worker(blueprint, 0, attempt, LocalReports())
        worker.start()
        if attempt:  # a successor begins with the slots that the Batcher gives it
            worker.inputs()[1].handle(list(blueprint.plan.worker_slots[0][0]))
        worker.finish()
        return blueprint.trajectories.observations["obs"][blueprint.trajectories.row_slot, 0]

    assert (first_observation(0) == first_observation(0)).all()
    assert (first_observation(0) != first_observation(1)).any()
    assert (first_observation(1) != first_observation(2)).any()


def test_a_registered_environment_reaches_workers_that_have_not_registered_it(
    make_blueprint, make_component, monkeypatch
):
    blueprint = make_blueprint()
    monkeypatch.setattr(registry, "_makers", {})
    worker, _ = make_component(blueprint, "RolloutWorker_w0")
    worker.start()
    assert blueprint.channels.requests[0][0].receive() == [0], "its environments have begun"
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


def test_the_learner_tells_the_size_of_its_network_and_whose_kernels_it_has(make_blueprint, make_component, caplog):
    with caplog.at_level("INFO"):
        make_component(make_blueprint(), "Learner_0")
    assert "Policy 0: " in caplog.text and " parameters (encoder " in caplog.text and KERNELS in caplog.text


@pytest.mark.parametrize(("flags", "num_threads"), [
    (("--encoder_mlp_layers", "8"), 1),
    (("--encoder_mlp_layers", "8", "--serial_mode=True"), 5),  # they are those of the program around
    (("--encoder_mlp_layers", "512", "512", "--batch_size=1024"), 5),
])  # fmt: skip
def test_the_learner_of_a_small_network_takes_one_thread(
    make_blueprint, make_component, monkeypatch, flags, num_threads
):
    threads = [5]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(core_shares, "num_usable_cores", lambda: 8)
    learner, _ = make_component(make_blueprint(*flags), "Learner_0")
    assert threads[-1] == num_threads
    assert learner.gauges()["num_useful_threads"] == (8 if "512" in flags else 1)


@pytest.mark.parametrize("limit", [0.25, 0.0])
def test_gradients_are_clipped_as_the_options_say(make_blueprint, make_component, monkeypatch, limit):
    limits = []
    clip = FusedAdam.clip
    monkeypatch.setattr(FusedAdam, "clip", lambda optimizer, most: limits.append(most) or clip(optimizer, most))
    blueprint = make_blueprint(f"--max_grad_norm={limit}", "--batch_size=8")
    learner, _ = make_component(blueprint, "Learner_0")
    learner.start()
    learner.inputs()[0].handle(list(range(blueprint.plan.dataset_slots)))
    assert set(limits) == {limit or float("inf")}


@pytest.mark.parametrize(
    ("is_locked", "is_gone", "message"),
    [
        (True, [False, False], "another process writes to .*checkpoint_p0"),
        (False, [True, True], "may be another run's by now"),
        (False, [False, True], "may be another run's by now"),
        (True, [False, True], "may be another run's by now"),
    ],
)
def test_a_learner_that_comes_after_its_runner_was_killed_touches_nothing(
    make_blueprint, make_component, monkeypatch, is_locked, is_gone, message
):
    blueprint = make_blueprint("--serial_mode=False")
    locked, answers = [], iter(is_gone)
    monkeypatch.setattr(making, "lock_until_exit", lambda folder, _: locked.append(folder) or not is_locked)
    monkeypatch.setattr(making, "is_runner_gone", lambda: next(answers))
    with pytest.raises(CheckpointError, match=message):
        make_component(blueprint, "Learner_0")
    assert len(locked) == (not is_gone[0]), "not even the lock, once it is known"
    assert not list(blueprint.run_folder.rglob("*.pth"))
