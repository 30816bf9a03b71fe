"""What holds up training, and what is advised then."""

from __future__ import annotations

import pytest

from tests.analysis.made_runs import inference, judge_run, learner, worker


def test_nothing_is_promised_beyond_the_processors():
    verdict = judge_run(
        *(worker(i, learner=0.5) for i in range(2)),
        inference(),
        learner(0.5),
        machine_busy=1.0,
        config={"async_rl": False},
    )
    assert verdict.advice[0].fps == (pytest.approx(4750.0), pytest.approx(5750.0))
