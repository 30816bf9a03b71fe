"""What a faster stage would give, from what a slower one costs."""

from __future__ import annotations

import math

import pytest

from sample_profiler.analysis.whatif import gain, stage_weight
from sample_profiler.cli.whatif import format_weights


def throughput(times, factor=None, stage="env"):
    """Frames per second of a run whose stages take turns, with one of them slower."""
    return 1 / sum(time * (factor if factor and name == stage else 1) for name, time in times.items())


@pytest.mark.parametrize(("stage", "share_of_frame"), [("env", 0.6), ("learner", 0.3), ("inference", 0.1)])
def test_stages_that_take_turns_weigh_what_they_take(stage, share_of_frame):
    times = {"env": 0.6, "learner": 0.3, "inference": 0.1}
    pairs = [(throughput(times), throughput(times, 1.5, stage))] * 3
    weight = stage_weight(stage, pairs, 0.5)
    assert weight.weight == pytest.approx(share_of_frame)
    assert (weight.low, weight.high) == (pytest.approx(share_of_frame), pytest.approx(share_of_frame))
    # Twice as fast: half of its share of each frame is saved, exactly as the model says.
    assert gain(weight.weight, 2.0) == pytest.approx(throughput(times, 0.5, stage) / throughput(times) - 1)


def test_a_stage_that_nobody_waits_for_gives_nothing():
    assert gain(stage_weight("env", [(100.0, 100.0)], 0.5).weight, 2.0) == 0
    assert gain(-0.1, 2.0) == 0, "noise below nothing"


def test_no_stage_gives_more_than_its_whole_share():
    assert gain(1.3, 2.0) == 1.0
    assert gain(1.0, math.inf) == math.inf


def test_pairs_and_a_slowdown_are_needed():
    for pairs, share in (([], 0.5), ([(1.0, 1.0)], 0.0)):
        with pytest.raises(ValueError, match="pairs"):
            stage_weight("env", pairs, share)


def test_the_stage_that_gives_most_comes_first():
    weights = [
        stage_weight(stage, [(100.0, 100 / (1 + 0.5 * w))], 0.5) for stage, w in (("env", 0.2), ("learner", 0.8))
    ]
    lines = format_weights(weights).splitlines()
    assert lines[1].startswith("training") and "+67 %" in lines[1]
    assert lines[2].startswith("stepping environments") and "+11 %" in lines[2]
