"""What the verdicts are measured with: causes that are injected, advice that is followed, and shares that fail."""

from __future__ import annotations

import pytest

from benchmarks.verdicts import CASES
from tests.analysis.made_runs import batcher, inference, judge_run, learner, worker


@pytest.mark.parametrize("name", ["batch as large as the buffers", "half of the workers slow"])
def test_of_eight_workers_four_slow_ones_are_slow_and_five_are_the_rule(name):
    first_slow = CASES[name].injected["slow_workers_from"]
    workers = [worker(index, env_step=0.4, steps=100 if index >= first_slow else 1000) for index in range(8)]
    accumulate = {"num_workers": 8, "num_batches_to_accumulate": 1}
    verdict = judge_run(
        *workers, inference(busy=0.1), learner(0.2), batcher(finished=2000.0, at_learner=0.0), config=accumulate
    )
    assert (verdict.cause == "slow worker") == ("slow worker" in CASES[name].right)
