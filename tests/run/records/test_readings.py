"""What counters stood at over the time of a run."""

from __future__ import annotations

import math

import numpy as np

from sample_profiler.analysis.trends.readings import read_readings
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.run.records import readings as module
from sample_profiler.run.records.history import evaluated
from sample_profiler.run.records.readings import RunReadings
from tests.analysis.made_runs import make_record


def worker(seconds, passes=None, name="RolloutWorker_w0", **gauges):
    """The record of a worker that has stepped for so long."""
    root = TreeNode()
    loop = root.children["main_loop"] = TreeNode("main_loop")
    for key, share in (("env_step", 1.0), ("tiny", 1e-5)):
        block = loop.children[key] = TreeNode(key)
        block.statistics.total_ns = round(1e9 * seconds * share)
        block.statistics.count = int(10 * seconds) if passes is None else passes
    return make_record({name: root}, name=name, **gauges)


def read(readings):
    found = read_readings(Session(0.0, run={"readings": evaluated(readings.columns())}))
    assert found is not None
    return found


def test_readings_have_counters_gauges_and_blocks_over_time_but_no_block_that_takes_hardly_any():
    readings = RunReadings()
    for second in range(1, 5):
        readings.add(second, {"frames": 100.0 * second}, [worker(second, memory_mib=50.0 + second, unknown=1.0)])
    found = read(readings)
    assert found.times_s.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert found.gauges[""]["frames"].tolist() == [100.0, 200.0, 300.0, 400.0]
    assert {name: values.tolist() for name, values in found.gauges["RolloutWorker_w0"].items()} == {
        "memory_mib": [51.0, 52.0, 53.0, 54.0]
    }
    assert list(found.blocks["RolloutWorker_w0"]) == ["env_step"]
    steps = found.blocks["RolloutWorker_w0"]["env_step"]
    assert (found.rate(steps.seconds, 1.0, 3.5), found.rate(steps.passes, 1.0, 4.0)) == (1.0, 10.0)


def test_a_successor_goes_on_counting_where_the_lost_one_was():
    readings = RunReadings()
    for time_s, seconds, cpu_s in ((1, 1, 5.0), (2, 2, 6.0), (3, 0.5, 1.0), (4, 1.5, 2.0)):
        readings.add(time_s, {}, [worker(seconds, cpu_s=cpu_s)])
    found = read(readings)
    assert found.blocks["RolloutWorker_w0"]["env_step"].seconds.tolist() == [1.0, 2.0, 2.5, 3.5]
    assert found.gauges["RolloutWorker_w0"]["cpu_s"].tolist() == [5.0, 6.0, 7.0, 8.0]


def test_who_comes_late_or_is_gone_is_not_known_then():
    readings = RunReadings()
    for second in range(1, 5):
        readings.add(second, {}, [worker(second)] if second in (2, 3) else [])
    found = read(readings)
    column = found.blocks["RolloutWorker_w0"]["env_step"].seconds
    assert [math.isnan(value) for value in column] == [True, False, False, True]
    assert math.isnan(found.rate(column, 1.0, 3.0)) and found.rate(column, 2.0, 3.0) == 1.0


def test_of_a_long_run_there_are_as_many_readings_evenly_apart_and_the_latest(monkeypatch):
    monkeypatch.setattr(module, "_MOST_READINGS", 8)
    readings = RunReadings()
    for second in range(1, 1000):
        readings.add(second, {"frames": float(second)}, [worker(second)])
        times_s = np.array(evaluated(readings.columns())["times_s"])
        assert times_s[0] == 1 and times_s[-1] == second and len(times_s) <= 8
        gaps = np.diff(times_s)
        assert second < 3 or (set(gaps[:-1]) == {gaps[0]} and gaps[-1] <= gaps[0])
    assert read(readings).gauges[""]["frames"].tolist() == times_s.tolist()
