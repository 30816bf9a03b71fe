"""Adaptive learning rates follow how far optimizer steps have moved the policy, however often data are trained on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.components.synchronous_run import Run

FLAGS = ("--async_rl=False", "--rollout=8", "--batch_size=16", "--lr_adaptive_max=0.2", "--use_rnn=False")


@pytest.fixture
def make_run(make_blueprint, make_component):
    def make(*flags):
        return Run(make_blueprint(*FLAGS, *flags), make_component)

    return make


def follow(run, num_steps):
    """Take optimizer steps; return the divergences that the schedule heard of, and the rates that came of them."""
    schedule, kls, rates = run.trainer._schedule, [], [run.trainer._schedule.learning_rate]
    adapt = schedule._adapt

    def note(kl):
        adapt(kl)
        kls.append(kl)
        rates.append(schedule.learning_rate)

    schedule._adapt = note
    run.train(num_steps)
    return np.array(kls), np.array(rates)


@pytest.mark.parametrize("kind", ["minibatch", "epoch"])
def test_where_each_dataset_is_trained_on_once_the_rate_falls_and_rises(make_run, kind):
    run = make_run(f"--lr_schedule=kl_adaptive_{kind}", "--learning_rate=0.1", "--lr_schedule_kl_threshold=0.01")
    kls, rates = follow(run, 40)
    assert len(kls) == 40
    assert run.blueprint.counters.lag_max[0] == 0
    factors = np.where(kls > 0.02, 1 / 1.5, np.where(kls < 0.005, 1.5, 1.0))
    assert rates[1:] == pytest.approx((rates[:-1] * factors).clip(1e-6, 0.2))
    assert (rates[1:] < rates[:-1]).any()
    assert (rates[1:] > rates[:-1]).any()


@pytest.mark.parametrize(("kind", "num_told"), [("minibatch", 12), ("epoch", 6)])
@pytest.mark.parametrize("num_epochs", [1, 3])
def test_it_is_told_after_each_minibatch_or_each_epoch(make_run, kind, num_told, num_epochs):
    run = make_run(f"--lr_schedule=kl_adaptive_{kind}", "--num_batches_per_epoch=2", f"--num_epochs={num_epochs}")
    kls, _ = follow(run, 12)
    assert len(kls) == num_told
    assert (kls > 0).all()


def test_the_divergence_is_that_of_the_updated_policy_from_the_one_that_acted(make_learner):
    run = make_learner("--lr_schedule=kl_adaptive_epoch", "--learning_rate=0.05", "--use_rnn=False").start()
    run.memory.inactive[1, 2] = True
    run.memory.observations["obs"][1, 2] = 9.0
    observations = torch.from_numpy(run.memory.observations["obs"][:2, :4].reshape(8, 3).copy())
    trainer, update = run.learner._trainer, run.learner._update_normalizer
    expected = []

    def look(*arguments):  # before statistics of observations change
        model = trainer.model
        with torch.no_grad():
            parameters, _, _ = model(model.normalize({"obs": observations}), torch.zeros(8, model.state_size))
        log_probabilities = parameters.log_softmax(-1)
        kls = (log_probabilities.exp() * (log_probabilities - np.log(0.25))).sum(-1)
        expected.append((kls.sum() - kls[6]).item() / 7)
        update(*arguments)

    run.learner._update_normalizer = look
    run.hand_over(0, 1)
    assert trainer.statistics()["train/kl_divergence_after_update"] == pytest.approx(expected[0], rel=1e-4)
    assert expected[0] > 1e-3
    assert trainer.statistics()["train/kl_divergence"] < expected[0], "as seen in passing, before the step"


def test_no_more_steps_are_looked_at_than_it_takes(make_learner, monkeypatch):
    monkeypatch.setattr("sample_profiler.components.training.micro_batches._KL_STEPS", 4)
    run = make_learner("--lr_schedule=kl_adaptive_epoch", "--recurrence=2").start()
    measure, sizes = run.learner._trainer._measure_kl, []

    def measure_and_tell(sample):
        batches = list(sample)
        sizes.extend(valid.numel() for _, valid in batches)
        return measure(batches)

    run.learner._trainer._measure_kl = measure_and_tell
    run.hand_over(0, 1)
    assert sum(sizes) == 4


@pytest.mark.parametrize("lr_schedule", ["constant", "linear_decay"])
def test_other_schedules_cost_no_forward_pass(make_learner, monkeypatch, lr_schedule):
    run = make_learner(f"--lr_schedule={lr_schedule}").start()
    monkeypatch.setattr(run.learner._trainer, "_measure_kl", lambda sample: pytest.fail("it was measured"))
    run.hand_over(0, 1)
    assert "train/kl_divergence_after_update" not in run.learner._trainer.statistics()


@pytest.mark.parametrize("kind", ["minibatch", "epoch"])
def test_steps_that_were_not_taken_leave_the_rate_alone(make_learner, kind):
    run = make_learner(f"--lr_schedule=kl_adaptive_{kind}", "--learning_rate=0.001").start()
    run.memory.inactive[2:4] = True
    run.hand_over(2, 3)
    assert run.learner._trainer._schedule.learning_rate == 0.001
    run.hand_over(0, 1)
    rate = run.learner._trainer._schedule.learning_rate
    assert rate != 0.001
    run.hand_over(2, 3)
    assert run.learner._trainer._schedule.learning_rate == rate
