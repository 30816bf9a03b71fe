"""What figures of an environment mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_profiler.doctor.judging import judge
from sample_profiler.doctor.measurements import Growth, Measurements, TimeSummary

MS = 1e6
TIMES = TimeSummary(1000, MS, (MS, MS, MS), MS, (0.01, 0.001), 0, 0.0, 0.0, False, 1.0, 0.0)
HEALTHY = Measurements(
    steps=TIMES,
    resets=TIMES,
    num_steps=5000,
    num_episodes=50,
    rewards=(-1.0, 1.0, 0.5),
    returns=[1.0, 2.0, 3.0, 4.0, 5.0],
    lengths=[100] * 5,
)


def named(measured, sleeps=None):
    return {finding.name for finding in judge(measured, sleeps or {})}


def test_nothing_is_found_of_a_healthy_one():
    assert named(HEALTHY) == set()


ASLEEP = replace(TIMES, cpu_share=0.1)
SLOWER = tuple(MS * value for value in (1.0, 1.2, 1.4, 1.5, 1.7, 1.9, 2.1))
TAIL = replace(TIMES, num_slow=10, slow_share=0.5, slow_mean_ns=100 * MS, is_slow_throughout=True)


@pytest.mark.parametrize(
    ("changes", "sleeps", "name"),
    [
        ({"steps": ASLEEP}, {"timer": 0.8, "process": 0.1}, "sleeps"),
        ({"steps": ASLEEP}, {"disk": 0.5}, "sleeps"),
        ({"steps": ASLEEP}, {"lock": 0.5}, "sleeps"),
        ({"steps": TAIL}, {}, "rare slow calls"),
        ({"resets": TAIL}, {}, "rare slow calls"),
        ({"resets": replace(TIMES, num_calls=50, mean_ns=200 * MS)}, {}, "slow resets"),
        ({"steps": replace(TIMES, medians_ns=SLOWER)}, {}, "slower and slower"),
        ({"belongings_per_reset": {"files": Growth(1.0, 150, 1.0)}}, {}, "files pile up"),
        ({"other_cpu_share": 0.9}, {}, "busy threads"),
        ({"memory_bytes": Growth(1000.0, 4000, 0.9)}, {}, "memory grows"),
        ({"objects": Growth(1.0, 4000, 0.9)}, {}, "memory grows"),
        ({"memory_per_reset_bytes": Growth(50_000.0, 150, 0.9)}, {}, "memory grows"),
        ({"info_bytes": 60_000.0}, {}, "large infos"),
        ({"num_episodes": 0}, {}, "no end"),
        ({"num_stale_resets": 49}, {}, "stale reset"),
        ({"has_moved": False}, {}, "constant observation"),
        ({"rewards": (0.0, 0.0, 0.0), "returns": [0.0] * 5}, {}, "constant reward"),
        ({"rewards": (-1e6, 1e6, 1e5)}, {}, "large rewards"),
    ],
)
def test_each_figure_that_is_off_is_a_finding(changes, sleeps, name):
    assert named(replace(HEALTHY, **changes), sleeps) == {name}


@pytest.mark.parametrize(
    ("changes", "sleeps"),
    [
        ({"steps": ASLEEP}, {"process": 0.9}),
        ({"steps": ASLEEP, "num_processes": 1}, {"lock": 0.9}),
        ({"steps": replace(ASLEEP, mean_ns=0.05 * MS)}, {"timer": 0.9}),
        ({"steps": replace(TAIL, is_slow_throughout=False)}, {}),
        ({"steps": replace(TAIL, num_slow=200)}, {}),
        ({"memory_bytes": Growth(1000.0, 4000, 0.5)}, {}),
        ({"resets": replace(TIMES, num_calls=50, mean_ns=15 * MS)}, {}),
        ({"resets": replace(TIMES, num_calls=2, mean_ns=900 * MS)}, {}),
        ({"steps": replace(TIMES, medians_ns=SLOWER[::-1])}, {}),
        ({"steps": replace(TIMES, medians_ns=(MS, 2 * MS, MS, 3 * MS, MS, 2 * MS, 2 * MS))}, {}),
        ({"steps": replace(TIMES, medians_ns=tuple(value / 100 for value in SLOWER))}, {}),
        ({"belongings_per_reset": {"threads": Growth(0.0, 150, 0.1), "files": None}}, {}),
        ({"num_episodes": 0, "num_steps": 100}, {}),
        ({"num_stale_resets": 30}, {}),
        ({"returns": [10.0] * 5, "rewards": (0.0, 1.0, 0.1)}, {}),
    ],
)
def test_what_has_a_reason_is_none(changes, sleeps):
    assert named(replace(HEALTHY, **changes), sleeps) == set()
