"""What a run would do on more machines follows from its parts where it can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_profiler.analysis.facts import RunFacts
from sample_profiler.analysis.forecast import (
    Network,
    Pipeline,
    all_reduce_s,
    describe_pipeline,
    forecast,
    forecast_cores,
)
from tests.analysis.made_runs import SECONDS, inference, learner, load, worker

TEN_GBIT = Network(1.25e9, 0.0002)
FREE = Network(float("inf"), 0.0)
SAMPLING = Pipeline(
    dataset_frames=1000, make_s=2.0, train_s=0.2, num_steps=1, num_stored=3, is_async=True, dataset_bytes=1e6,
    weights_bytes=1e6, learner_cores=0.2, busy_cores=2.0, num_cores=2, is_crowded=True, inference_s=0.5,
)  # fmt: skip


def fps(pipeline, kind, size, network=TEN_GBIT):
    (found,) = forecast(pipeline, kind, [size], network)
    assert found.fps_interval[0] <= found.fps <= found.fps_interval[1]
    return found


@pytest.mark.parametrize("kind", ["ranks", "actors"])
def test_one_machine_does_what_it_did(kind):
    assert fps(SAMPLING, kind, 1).fps == pytest.approx(1000 / 2.0, rel=0.03)
    slow = replace(SAMPLING, train_s=4.0)
    found = fps(slow, kind, 1)
    assert found.fps == pytest.approx(1000 / 4.0, rel=0.03)
    assert (found.limit, found.efficiency, found.network_load) == ("training", 1.0, 0.0)


def test_ranks_that_sample_are_as_many_times_as_quick():
    found = fps(SAMPLING, "ranks", 16)
    assert found.fps == pytest.approx(16 * 500, rel=0.08), "memory for some datasets evens their differences out"
    assert found.limit == "sampling"


def test_ranks_that_take_turns_wait_for_the_slowest_of_all():
    one, many = (fps(replace(SAMPLING, is_async=False, num_stored=1), "ranks", size) for size in (1, 16))
    assert one.fps == pytest.approx(1000 / 2.2, rel=0.04)
    # The largest of 16 normal deviates is 1.77 on average, of a tenth of both times.
    assert many.efficiency == pytest.approx(1 / 1.177, rel=0.03)


def test_adding_up_takes_its_bytes_and_as_many_messages_as_there_are_nodes():
    assert all_reduce_s(1e9, 1, TEN_GBIT) == 0
    assert all_reduce_s(1e9, 2, FREE) == pytest.approx(1e9 / 2e9)
    assert all_reduce_s(0, 9, TEN_GBIT) == pytest.approx(16 * 0.0002)
    assert all_reduce_s(1e9, 2, TEN_GBIT) == pytest.approx(1e9 / 1.25e9 + 0.5 + 2 * 0.0002)


def test_a_large_network_over_a_slow_link_is_limited_by_it():
    large = replace(SAMPLING, weights_bytes=1e9, num_steps=4)
    found = fps(large, "ranks", 4, Network(1.25e8, 0.001))
    each_s = 4 * all_reduce_s(1e9, 4, Network(1.25e8, 0.001))
    assert found.fps == pytest.approx(4 * 1000 / (each_s + 0.2), rel=0.05)
    assert found.limit == "network"
    assert 0.8 < found.network_load <= 1


def test_actors_are_limited_by_the_one_learner_and_their_samples_grow_old():
    few, many = (fps(SAMPLING, "actors", size) for size in (4, 64))
    # Where there is no Learner, a tenth of the processors more is left for sampling.
    assert few.fps == pytest.approx(1000 * (1 / 2.0 + 3 / 1.8), rel=0.05)
    assert few.limit == "sampling"
    assert many.fps == pytest.approx(1000 / 0.2, rel=0.05)
    assert many.limit == "training"
    assert many.policy_lag > 10 * few.policy_lag


def test_datasets_of_all_actors_share_the_link_of_the_learner():
    large = replace(SAMPLING, dataset_bytes=1e9)
    found = fps(large, "actors", 8)
    assert found.fps == pytest.approx(1000 / 0.8 * 1.1, rel=0.15), "0.8 s each, and what its own node makes"
    assert found.limit == "network"
    assert found.network_load > 0.9


def test_more_cores_are_worth_what_the_learner_leaves_them():
    found = forecast_cores(SAMPLING, [2, 4, 16, 64])
    assert [each.fps for each in found] == pytest.approx([500, 1000, 2000, 2000])
    assert [each.limit for each in found] == ["sampling", "sampling", "inference", "inference"]
    assert found[0].efficiency == pytest.approx(1)
    with pytest.raises(ValueError, match="it was not recorded how many cores"):
        forecast_cores(replace(SAMPLING, num_cores=None), [2])


def test_the_parts_of_a_run_are_read_from_its_facts():
    workers = [worker(index, busy=0.5, inference=0.3, learner=0.25) for index in range(2)]
    loads = (*workers, inference(0.4), learner(0.6, {"train/update/all_reduce": 0.1}, cpu=0.6))
    config = {"num_batches_per_epoch": 2, "num_epochs": 3, "num_batches_to_accumulate": 4, "worker_num_splits": 1}
    facts = RunFacts(SECONDS, 8.0, 5000.0, 2, 0.9, False, loads, config)
    parts = describe_pipeline(facts, 1e6, 2e6)
    assert parts is not None
    period_s = SECONDS / 100
    assert parts.dataset_frames == pytest.approx(5000 * period_s)
    assert parts.make_s == pytest.approx(0.75 * period_s)
    assert parts.train_s == pytest.approx(0.5 * period_s)
    assert (parts.num_steps, parts.num_stored, parts.is_crowded) == (6, 5, True)
    assert (parts.learner_cores, parts.busy_cores) == (0.6, pytest.approx(1.8))
    assert describe_pipeline(replace(facts, components=(load("Learner_0", 0.5),)), 1.0, 1.0) is None
