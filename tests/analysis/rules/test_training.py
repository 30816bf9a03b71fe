"""What holds up training, and what is advised then."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config
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


@pytest.mark.parametrize(
    ("batch_size", "rollout", "fewer"), [(2048, 32, 1024), (160, 32, 64), (64, 32, 32), (32, 32, None)]
)
def test_a_smaller_batch_is_made_of_whole_rollouts(batch_size, rollout, fewer):
    config = {"batch_size": batch_size, "rollout": rollout}
    verdict = judge_run(*(worker(i, learner=0.4) for i in range(2)), inference(), learner(0.6), config=config)
    assert verdict.cause == "buffers"
    changes = [advice.change for advice in verdict.advice]
    assert changes == ["--num_batches_to_accumulate=4"] + ([f"--batch_size={fewer}"] if fewer else [])
    before = ["--env=none", f"--batch_size={batch_size}", f"--rollout={rollout}"]
    for change in changes:
        assert parse_config([*before, change]).origin(change[2:].partition("=")[0]) == "command line"


def test_workers_that_fill_their_memory_at_different_speeds_are_told():
    workers = [worker(index, learner=waits) for index, waits in enumerate((0.8, 0.8, 0.0, 0.0))]
    verdict = judge_run(*workers, inference(), learner(0.1), machine_busy=0.2)
    assert verdict.cause == "buffers"
    assert verdict.evidence[1] == "and workers wait 40 % of theirs, from 0 % to 80 %, for memory to fill"
    # Two of four would make five times as much.
    assert verdict.advice[0].fps == (pytest.approx(5000 * 1.15), pytest.approx(5000 * 3 * 1.15))
