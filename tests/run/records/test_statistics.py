"""What a run knows of itself: rates over windows, means over episodes, lag."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sample_profiler.components.messages import Counters, EpisodeStatistics
from sample_profiler.config import SavingOptions
from sample_profiler.run.records import statistics
from sample_profiler.run.records.statistics import FPS_WINDOWS_S, RunStatistics, Throughput
from tests.doubles.clocks import Clock


def make_throughput(*samples, start_s=100.0):
    throughput = Throughput(start_s)
    for time_s, frames in samples:
        throughput.add(start_s + time_s, frames)
    return throughput


def test_a_rate_is_frames_over_the_window():
    throughput = make_throughput(*((float(s), 50.0 * s) for s in range(1, 21)), (30.0, 2000.0))
    assert throughput.rate(10) == 100.0  # the last ten seconds only
    assert throughput.rate(20) == pytest.approx((2000 - 500) / 20)
    assert throughput.rate(30) == pytest.approx(2000 / 30)


def test_a_window_longer_than_the_run_is_the_whole_run():
    assert make_throughput((4.0, 100.0)).rate(300) == 25.0


def test_a_window_may_begin_between_two_samples():
    throughput = make_throughput((10.0, 0.0), (20.0, 100.0), (30.0, 300.0))
    assert throughput.rate(15) == pytest.approx((300 - 50) / 15)


def test_rates_before_and_at_the_first_sample_are_zero():
    assert make_throughput().rate(10) == 0.0
    assert make_throughput((0.0, 0.0)).rate(10) == 0.0
    assert make_throughput().steady_rate() == 0.0


def test_the_steady_rate_leaves_out_the_first_quarter_of_the_frames():
    slow_start = make_throughput((60.0, 0.0), (80.0, 100.0), (90.0, 250.0), (100.0, 400.0))
    assert slow_start.steady_rate() == (400 - 100) / 20
    assert slow_start.steady_rate(share=1.0) == 4.0
    assert make_throughput((10.0, 0.0)).steady_rate() == 0.0


def test_a_run_of_days_has_a_few_thousand_points_and_the_rates_of_one_that_keeps_all():
    def frames_at(second):  # slower and slower, with a pause now and then
        return 1000.0 * second**0.9 - 200.0 * (second % 1000 > 900)

    throughput, seconds = Throughput(0.0), 200_000
    for second in range(1, seconds + 1):
        throughput.add(float(second), frames_at(second))
    assert len(throughput._times_s) == len(throughput._frames) <= statistics._MOST_POINTS
    for window in FPS_WINDOWS_S:
        assert throughput.rate(window) == pytest.approx((frames_at(seconds) - frames_at(seconds - window)) / window)
    begin_s = seconds * 0.25 ** (1 / 0.9)
    assert throughput.steady_rate() == pytest.approx(0.75 * frames_at(seconds) / (seconds - begin_s), rel=1e-3)
    assert throughput.rate(10 * seconds) == pytest.approx(frames_at(seconds) / seconds)


@pytest.fixture
def counters():
    return Counters(num_workers=2, num_policies=2)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def make_statistics(counters, clock):
    def make(metric="reward"):
        options = SavingOptions(train_for_env_steps=1000, save_best_metric=metric)
        return RunStatistics(counters, (1, 4), options, frames_per_step=4, num_averaged=3, start_s=100.0, clock=clock)

    return make


@pytest.fixture
def run_statistics(make_statistics):
    return make_statistics()


def episode(policy, reward, length=8, **extra):
    return EpisodeStatistics(policy, reward, length, extra)


def test_means_are_over_the_latest_episodes_of_each_policy(run_statistics):
    run_statistics.add_episodes([episode(0, float(number), kills=number) for number in range(5)])
    run_statistics.add_episodes([episode(1, -1.0, length=20)])
    status = run_statistics.status()
    assert status.episodes == {0: {"reward": 3.0, "len": 8.0, "kills": 3.0}, 1: {"reward": -1.0, "len": 20.0}}
    assert status.num_episodes == {0: 5, 1: 1}


@pytest.mark.parametrize(
    ("frames", "elapsed_s", "progress"),
    [((0, 0), 0.0, 0.0), ((900, 250), 1.0, 0.25), ((0, 0), 50.0, 0.5), ((5000, 5000), 1.0, 1.0), ((0, 0), 1e9, 1.0)],
)
def test_progress_is_that_of_the_nearer_end_and_of_the_policy_with_the_fewest_frames(
    counters, clock, frames, elapsed_s, progress
):
    options = SavingOptions(train_for_env_steps=1000, train_for_seconds=100)
    run_statistics = RunStatistics(
        counters, (1, 4), options, frames_per_step=4, num_averaged=3, start_s=100.0, clock=clock
    )
    counters.trained_frames[:] = frames
    clock.sleep(elapsed_s)
    assert run_statistics.progress() == run_statistics.status().progress == progress


def test_means_of_huge_numbers_are_finite_and_infinite_ones_are_in_none(make_statistics):
    run_statistics = make_statistics("kills")
    run_statistics.add_episodes([episode(0, 1e308, kills=1e308)] * 3)
    run_statistics.add_episodes([episode(0, math.inf, kills=math.inf), episode(0, -math.inf, kills=math.nan)])
    assert run_statistics.status().episodes[0] == {"reward": 1e308, "kills": 1e308, "len": 8.0}
    assert run_statistics.metric(0) == 1e308


def test_figures_over_time_are_means_and_deviations_of_the_latest_episodes_of_each_policy(run_statistics):
    assert run_statistics.episode_figures() == {}
    run_statistics.add_episodes([episode(0, reward, length) for reward, length in ((9.0, 1), (1, 4), (2, 4), (3, 7))])
    run_statistics.add_episodes([episode(1, 1e308), episode(1, -1e308), episode(1, math.inf)])
    assert run_statistics.episode_figures() == {
        "episode_return_policy_0": 2.0,
        "episode_return_policy_0_deviation": pytest.approx(math.sqrt(2 / 3)),
        "episode_length_policy_0": 5.0,
        "episode_length_policy_0_deviation": pytest.approx(math.sqrt(2)),
        "episode_return_policy_1": 0.0,
        "episode_return_policy_1_deviation": 1e308,
        "episode_length_policy_1": 8.0,
        "episode_length_policy_1_deviation": 0.0,
    }
    run_statistics.add_episodes([episode(1, 1.7e308), episode(1, -1.7e308), episode(1, -1.7e308)])
    figures = run_statistics.episode_figures()
    assert math.isfinite(figures["episode_return_policy_1"])
    assert "episode_return_policy_1_deviation" not in figures, "there is no number as large"


def test_a_metric_is_unknown_before_enough_episodes_have_it(run_statistics):
    for reward in (2.0, 4.0):
        assert run_statistics.metric(0) is None
        run_statistics.add_episodes([episode(0, reward)])
    assert run_statistics.metric(0) is None, "means are over three episodes"
    run_statistics.add_episodes([episode(0, 6.0, kills=1.0)])
    assert run_statistics.metric(0) == 4.0
    assert run_statistics.metric(1) is None


def test_only_episodes_count_that_have_the_metric(make_statistics):
    run_statistics = make_statistics("kills")
    run_statistics.add_episodes([episode(0, 6.0), episode(0, 6.0), episode(0, 6.0, kills=1.0)])
    assert run_statistics.metric(0) is None
    run_statistics.add_episodes([episode(0, 6.0, kills=kills) for kills in (2.0, 3.0)])
    assert run_statistics.metric(0) == 2.0


def test_a_resumed_run_goes_on_with_the_latest_episodes(make_statistics, counters):
    counters.resume_metrics(1, np.array([9.0, 1.0, 2.0, 3.0]))
    run_statistics = make_statistics()
    assert run_statistics.metric(1) is None, "as many are to end as there are agents, in each start"
    run_statistics.add_episodes([episode(1, 7.0), episode(1, 8.0)])
    assert run_statistics.metric(1) is None
    exactly = make_statistics()
    exactly.follow({"num_episodes": [0, 50], "latest": [{}, {"reward": [1.0, 2.0, 3.0]}]})
    assert exactly.metric(1) == (3.0 + 7.0 + 8.0) / 3
    assert exactly.status().episodes[1] == {"reward": 2.0}
    assert exactly.course() == {"num_episodes": [0, 50], "latest": [{}, {"reward": [1.0, 2.0, 3.0]}]}


def test_what_an_environment_calls_as_we_do_is_not_taken_for_ours(run_statistics):
    run_statistics.add_episodes([EpisodeStatistics(0, 2.0, 8, {"reward": 77.0, "len": 78.0})] * 3)
    assert run_statistics.status().episodes[0] == {"reward": 2.0, "len": 8.0}
    assert run_statistics.metric(0) == 2.0


def test_a_metric_is_unknown_before_as_many_episodes_have_ended_as_there_are_agents(run_statistics):
    """Those that end first are the short ones."""
    run_statistics.add_episodes([episode(1, 9.0, length=1) for _ in range(3)])
    assert run_statistics.metric(1) is None
    run_statistics.add_episodes([episode(1, 0.0)])
    assert run_statistics.metric(1) == 6.0


def test_a_metric_of_long_episodes_need_not_wait_until_its_mean_is_over_all_that_are_wanted(counters):
    run_statistics = RunStatistics(counters, (1,), SavingOptions(), frames_per_step=1, num_averaged=10**6, start_s=0.0)
    run_statistics.add_episodes([episode(0, 1.0)] * 19)
    assert run_statistics.metric(0) is None
    run_statistics.add_episodes([episode(0, 3.0)])
    assert run_statistics.metric(0) == 1.1


def test_the_true_objective_is_the_reward_where_no_other_is_told(make_statistics, caplog):
    run_statistics = make_statistics("true_objective")
    run_statistics.add_episodes([episode(0, 2.0), episode(1, 3.0, true_objective=7.0)] * 4)
    assert run_statistics.metric(0) == 2.0
    assert run_statistics.metric(1) == 7.0
    assert caplog.text == ""


def test_the_true_objective_is_one_quantity_also_where_only_some_episodes_have_it(make_statistics):
    run_statistics = make_statistics("true_objective")
    run_statistics.add_episodes([episode(0, 2.0)] * 3)
    run_statistics.add_episodes([episode(0, 2.0, true_objective=8.0)])
    assert run_statistics.metric(0) == 4.0
    assert run_statistics.status().episodes[0]["true_objective"] == 8.0, "what is shown is what was told"


def test_a_metric_that_no_episode_has_is_told_once_with_those_there_are(make_statistics, caplog):
    run_statistics = make_statistics("kils")
    assert run_statistics.metric(0) is None
    assert caplog.text == "", "no episode has ended yet"
    run_statistics.add_episodes([EpisodeStatistics(0, 1.0, 10, {"kills": 3.0})])
    for _ in range(3):
        assert run_statistics.metric(0) is None
    assert [record.getMessage() for record in caplog.records] == [
        "No episode of policy 0 has a statistic 'kils' so far, so no best policy is saved; there are kills, len, reward"
    ]


def test_names_that_an_environment_invents_for_ever_are_cut_off_with_one_warning(run_statistics, caplog):
    run_statistics.add_episodes([episode(0, 1.0, **{f"seed_{number}": 1.0}) for number in range(2000)])
    known = run_statistics.status().episodes[0]
    assert len(known) == statistics._MOST_NAMES
    assert {"reward", "len", "seed_0"} <= set(known)
    run_statistics.add_episodes([episode(0, 1.0, seed_0=4.0)])
    assert run_statistics.status().episodes[0]["seed_0"] == 2.5, "those that are known go on"
    assert caplog.text.count("more than 500 different statistics: 'seed_498' and all that are new") == 1


def test_frames_are_those_trained_on_and_rates_those_of_this_run_alone(run_statistics, counters, clock):
    counters.resumed_frames[:] = counters.trained_frames[:] = (5000, 100)
    run_statistics.sample()
    clock.now_s = 110.0
    counters.trained_frames[:] = (6000, 150)
    counters.agent_steps[:] = [[1, 2], [3, 4]]
    run_statistics.sample()
    status = run_statistics.status()
    assert status.frames == {0: 6000, 1: 150}
    assert status.fps == dict.fromkeys(FPS_WINDOWS_S, 105.0)
    assert status.sampled_frames == 40
    assert status.elapsed_s == 10.0
    assert status.target_frames == 1000
    assert run_statistics.trained_frames() == {0: 1000, 1: 50}


def test_lag_is_the_mean_and_the_extremes_over_all_that_was_trained_on(run_statistics, counters):
    assert run_statistics.status().policy_lag == {0: (0.0, 0.0), 1: (0.0, 0.0)}
    counters.lag_sum[1], counters.lag_count[1], counters.lag_min[1], counters.lag_max[1] = 30, 20, 1, 7
    assert run_statistics.status().policy_lag == {0: (0.0, 0.0), 1: (1.5, 7.0)}
    assert run_statistics.status().least_policy_lag == {0: 0.0, 1: 1.0}


def test_the_latest_training_statistics_count_and_a_status_does_not_change_later(run_statistics):
    run_statistics.add_training(0, {"train/loss": 1.0})
    status = run_statistics.status()
    run_statistics.add_training(0, {"train/loss": 2.0})
    run_statistics.add_training(1, {"train/lr": 0.1})
    assert status.training == {0: {"train/loss": 1.0}}
    assert run_statistics.status().training == {0: {"train/loss": 2.0}, 1: {"train/lr": 0.1}}


def test_rates_leave_out_for_how_long_the_run_stood_still():
    throughput = Throughput(start_s=0.0)
    for second in range(1, 11):
        throughput.add(float(second), 100.0 * second)
    # Suspended from 10 to 70; the first figures after that come before anybody knows.
    throughput.add(70.5, 1050.0)
    assert throughput.rate(10) < 20
    throughput.leave_out(10.0, 70.0)
    throughput.add(71.0, 1100.0)
    assert [throughput.rate(window_s) for window_s in (5, 10, 300)] == pytest.approx([100.0] * 3)
    assert throughput.steady_rate() == pytest.approx(100.0)
    throughput.leave_out(80.0, 90.0)
    throughput.add(91.0, 2100.0)
    assert throughput.rate(300) == pytest.approx(100.0)
    assert throughput.left_out_s == 70.0


def test_a_run_that_stood_still_while_it_began_has_not_begun_before_its_start():
    throughput = Throughput(start_s=50.0)
    throughput.leave_out(40.0, 60.0)
    throughput.add(65.0, 500.0)
    assert throughput.rate(10) == pytest.approx(100.0)
    assert throughput.left_out_s == 10.0
