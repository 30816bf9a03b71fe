"""Whether bf16 pays is looked at once, and said if it does not."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
import torch

from sample_profiler.ppo.precision_trial import PrecisionTrial
from sample_profiler.ppo.training_data import Targets


class FakeTrainer:
    """Takes as long for each pass as it is told."""

    compiles = False
    device = torch.device("cpu")

    def __init__(self, precision="bf16", **times):
        self.passes = SimpleNamespace(precision=precision)
        self.times = times
        self.timed = []

    def time_pass(self, precision, batch, targets):
        self.timed.append((precision, batch))
        return self.times[precision].pop(0)


def targets():
    steps = torch.ones(5, 4)
    return Targets(steps, steps, steps)


def test_it_is_due_once_on_the_third_dataset_in_bf16():
    trial = PrecisionTrial(FakeTrainer())
    assert [trial.is_due() for _ in range(5)] == [False, False, True, False, False]


@pytest.mark.parametrize(
    "changes", [{"passes": SimpleNamespace(precision="fp32")}, {"compiles": True}, {"device": torch.device("cuda")}]
)
def test_where_there_is_nothing_to_compare_it_is_never_due(changes):
    trainer = FakeTrainer()
    vars(trainer).update(changes)
    trial = PrecisionTrial(trainer)
    assert not any(trial.is_due() for _ in range(5))


@pytest.mark.parametrize(
    ("bf16", "fp32", "told"),
    [
        # The quickest passes: 6 ms to 4 ms, 1.5 times as long; 4.1 ms to 4 ms, which may be chance; 2 ms to 4 ms.
        ([0.009, 0.006, 0.007], [0.004, 0.010, 0.005], "takes 1.50 times as long as fp32 here: 6.0 ms instead of 4.0"),
        ([0.0041, 0.02, 0.02], [0.004, 0.004, 0.004], ""),
        ([0.002, 0.02, 0.02], [0.004, 0.004, 0.004], ""),
    ],
)
def test_it_warns_where_fp32_is_quicker(bf16, fp32, told, caplog):
    trainer, batches = FakeTrainer(bf16=bf16, fp32=fp32), iter("abcdef")
    with caplog.at_level(logging.WARNING):
        PrecisionTrial(trainer).make(lambda: next(batches), targets())
    assert trainer.timed == [(("bf16", "fp32")[turn % 2], batch) for turn, batch in enumerate("abcdef")], "in turns"
    assert [told in message and "for 20 steps" in message for message in caplog.messages] == [True] * bool(told)
