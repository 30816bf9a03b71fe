"""Counters: one memory, seen by all; and messages that travel."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from sample_profiler.components.messages import (
    Counters,
    EpisodesFinished,
    EpisodeStatistics,
    TargetReached,
    TrainingStatistics,
)


@pytest.fixture
def counters():
    return Counters(num_workers=3, num_policies=2)


def test_counters_begin_at_zero_and_metrics_are_not_known(counters):
    assert counters.agent_steps.shape == (3, 2)
    for name, array in vars(counters).items():
        if isinstance(array, np.ndarray) and name != "metric":
            assert not array.any(), name
    assert np.isnan(counters.metric).all()


def test_counters_do_not_overlap(counters):
    arrays = {name: array for name, array in vars(counters).items() if isinstance(array, np.ndarray)}
    for number, array in enumerate(arrays.values(), start=1):
        array[...] = number
    for number, (name, array) in enumerate(arrays.items(), start=1):
        assert (array == np.asarray(number).astype(array.dtype)).all(), name


def test_counters_are_the_same_memory_where_they_are_received(counters):
    other = Counters.__new__(Counters)
    other.__setstate__(counters.__getstate__())
    counters.agent_steps[2, 1] = 5
    counters.lag_max[1] = 7
    other.lag_sum[0] = 3
    assert (other.agent_steps[2, 1], other.lag_max[1], counters.lag_sum[0]) == (5, 7, 3)
    assert np.isnan(other.metric).all()


@pytest.mark.parametrize(
    "message",
    [
        EpisodesFinished((EpisodeStatistics(1, 2.5, 300, {"kills": 4.0}),)),
        TrainingStatistics(0, 100, {"train/loss": 0.5}),
        TargetReached(1),
    ],
)
def test_reports_survive_the_way_to_the_runner(message):
    assert pickle.loads(pickle.dumps(message)) == message


def test_the_latest_metrics_are_those_of_the_latest_episodes_the_oldest_first():
    counters = Counters(num_workers=1, num_policies=2, num_averaged=3)
    assert counters.recent_metrics(1).tolist() == []
    seen = []
    for number in range(8):
        counters.add_metric(1, float(number))
        seen.append(counters.recent_metrics(1).tolist())
    assert seen[:2] == [[0], [0, 1]]
    assert seen[2:] == [[first, first + 1, first + 2] for first in range(6)]
    assert counters.recent_metrics(0).tolist() == []
