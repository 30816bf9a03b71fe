from __future__ import annotations

import math

import pytest

from sample_profiler.config import OptimizerOptions
from sample_profiler.ppo.schedules import make_schedule

MILLION = 1_000_000


def make(lr_schedule, **options):
    return make_schedule(OptimizerOptions(lr_schedule=lr_schedule, **options), MILLION)


def test_constant_rate_hears_all_and_changes_nothing():
    schedule = make("constant", learning_rate=3e-4)
    schedule.set_progress(MILLION)
    schedule.after_minibatch(1.0)
    schedule.after_epoch(1.0)
    assert schedule.learning_rate == 3e-4
    assert not schedule.wants_minibatch_kl
    assert not schedule.wants_epoch_kl


@pytest.mark.parametrize(("num_frames", "rate"), [(0, 4e-4), (250_000, 3e-4), (MILLION, 0.0), (2 * MILLION, 0.0)])
def test_defect_5_linear_decay_counts_frames(num_frames, rate):
    schedule = make("linear_decay", learning_rate=4e-4)
    schedule.set_progress(num_frames)
    assert schedule.learning_rate == pytest.approx(rate)


def test_defect_5_linear_decay_goes_on_after_a_resumption():
    before, after = (make("linear_decay", learning_rate=4e-4) for _ in range(2))
    before.set_progress(500_000)
    after.load_state_dict(before.state_dict())
    after.set_progress(600_000)
    assert after.learning_rate == pytest.approx(1.6e-4)


@pytest.mark.parametrize(
    ("num_frames", "rate"),
    # Over 200,000 frames from 8e-4 to a quarter of it: 1/4 + 3/4 * (1 - 50,000 / 200,000) = 13/16 of it is left, …
    [(0, 8e-4), (50_000, 6.5e-4), (100_000, 5e-4), (200_000, 2e-4), (MILLION, 2e-4)],
)
def test_linear_decay_stops_at_a_share_of_the_rate_whenever_training_ends(num_frames, rate):
    schedule = make("linear_decay", learning_rate=8e-4, lr_decay_steps=200_000, lr_decay_end=0.25)
    schedule.set_progress(num_frames)
    assert schedule.learning_rate == pytest.approx(rate)


@pytest.mark.parametrize(
    ("num_frames", "seconds", "rate"),
    # A quarter of a million frames and of 20 seconds: 3/4 of 4e-4; as soon as more of the seconds are over, they count.
    [(250_000, 0.0, 3e-4), (250_000, 5.0, 3e-4), (250_000, 15.0, 1e-4), (0, 20.0, 0.0), (0, 30.0, 0.0)],
)
def test_linear_decay_follows_the_limit_of_a_run_that_is_nearer(num_frames, seconds, rate):
    schedule = make_schedule(OptimizerOptions(lr_schedule="linear_decay", learning_rate=4e-4), MILLION, 20.0)
    schedule.set_progress(num_frames, seconds)
    assert schedule.learning_rate == pytest.approx(rate)


def test_seconds_do_not_count_where_the_frames_of_a_decay_are_given():
    options = OptimizerOptions(lr_schedule="linear_decay", learning_rate=4e-4, lr_decay_steps=1000)
    schedule = make_schedule(options, MILLION, 20.0)
    schedule.set_progress(500, 19.0)
    assert schedule.learning_rate == pytest.approx(2e-4)


def test_kl_adaptive_rate_by_hand():
    schedule = make("kl_adaptive_minibatch", learning_rate=9e-4, lr_schedule_kl_threshold=0.01)
    # More than 0.02: 9e-4 / 1.5 = 6e-4; less than 0.005: * 1.5; between, the bounds included: as it is.
    expected = [(0.021, 6e-4), (0.02, 6e-4), (0.005, 6e-4), (0.0049, 9e-4), (0.0, 13.5e-4), (math.nan, 13.5e-4)]
    for kl, rate in expected:
        schedule.after_minibatch(kl)
        assert schedule.learning_rate == pytest.approx(rate)


def test_kl_adaptive_rate_stays_within_its_bounds():
    schedule = make("kl_adaptive_epoch", learning_rate=1e-4, lr_adaptive_min=5e-5, lr_adaptive_max=2e-4)
    for kl, bound in ((1.0, 5e-5), (0.0, 2e-4)):
        for _ in range(10):
            schedule.after_epoch(kl)
        assert schedule.learning_rate == bound


@pytest.mark.parametrize("kind", ["minibatch", "epoch"])
def test_each_kl_schedule_listens_to_its_own_event(kind):
    schedule = make(f"kl_adaptive_{kind}", learning_rate=1e-4)
    assert schedule.wants_minibatch_kl == (kind == "minibatch")
    assert schedule.wants_epoch_kl == (kind == "epoch")
    (schedule.after_epoch if kind == "minibatch" else schedule.after_minibatch)(1.0)
    assert schedule.learning_rate == 1e-4
    (schedule.after_minibatch if kind == "minibatch" else schedule.after_epoch)(1.0)
    assert schedule.learning_rate == pytest.approx(1e-4 / 1.5)


def test_kl_adaptive_rate_goes_on_after_a_resumption():
    before, after = (make("kl_adaptive_epoch", learning_rate=1e-4) for _ in range(2))
    before.after_epoch(1.0)
    after.load_state_dict(before.state_dict())
    assert after.learning_rate == before.learning_rate != 1e-4


def test_a_checkpoint_of_another_schedule_leaves_the_first_rate():
    after = make("kl_adaptive_epoch", learning_rate=1e-4)
    after.load_state_dict(make("constant", learning_rate=5e-3).state_dict())
    assert after.learning_rate == 1e-4
