"""What means over the latest episodes reach, when that is noted, and when a run ends for it."""

from __future__ import annotations

import logging

import pytest

from sample_profiler.components.messages import EpisodesFinished, EpisodeStatistics


@pytest.fixture
def play(make_runner):
    """Return a function that makes a Runner, and one that lets episodes of a policy end."""

    def make(*flags, **arguments):
        runner = make_runner("--stats_avg=2", *flags, **arguments)

        def end_episodes(*returns, policy=0, frames=0, **extra):
            runner.counters.trained_frames[policy] = frames
            episodes = tuple(EpisodeStatistics(policy, value, 8, extra) for value in returns)
            runner.handle_reports([EpisodesFinished(episodes)])

        return runner, end_episodes

    return make


def noted(runner):
    return [
        (entry["threshold"], entry["policy"], entry["frames"]) for entry in runner.goals.report().facts["thresholds"]
    ]


def test_a_run_ends_once_the_mean_over_as_many_episodes_as_it_is_taken_over_is_there(play):
    runner, end_episodes = play("--stop_at=reward>=10", started_s_ago=3.0)
    end_episodes(50.0)
    assert not runner.reason, "one of two episodes is no mean over two"
    end_episodes(-40.0, frames=32)
    assert not runner.reason
    end_episodes(61.0, frames=64)
    assert runner.reason.startswith("reward>=10, on average over the latest 2 episodes, after 3.")
    assert runner.reason.endswith(" s since the start of the process) and 64 frames")
    assert runner.loop.num_stops == 1
    (stop,) = runner.goals.report().facts["stop_at"]
    assert stop["frames"] == 64 and stop["run_s"] >= 3.0


def test_the_first_episodes_to_end_are_the_short_ones_so_each_agent_has_had_one(make_runner, play):
    runner, end_episodes = play("--stop_at=reward>=10")
    runner.statistics._num_agents = [4]
    end_episodes(20.0, 20.0, 20.0)
    assert not runner.reason
    end_episodes(20.0)
    assert runner.reason


def test_all_conditions_have_to_hold_at_the_same_time(play):
    runner, end_episodes = play("--stop_at=reward>=10,kills>=3")
    end_episodes(20.0, 20.0, kills=1.0)
    end_episodes(0.0, 0.0, kills=5.0)
    assert not runner.reason
    end_episodes(20.0, 20.0, kills=5.0)
    assert runner.reason.startswith("reward>=10, kills>=3, on average over the latest 2 episodes, after")


def test_all_policies_have_to_be_there_or_those_that_are_named(play):
    runner, end_episodes = play("--num_policies=2", "--stop_at=reward>=10")
    end_episodes(20.0, 20.0, policy=1)
    assert not runner.reason
    end_episodes(20.0, 20.0, policy=0)
    assert runner.reason
    runner, end_episodes = play("--num_policies=2", "--stop_at=reward@1>=10")
    end_episodes(20.0, 20.0, policy=0)
    assert not runner.reason
    end_episodes(20.0, 20.0, policy=1)
    assert runner.reason


def test_thresholds_are_noted_when_they_are_reached_first_and_end_nothing(play, caplog):
    runner, end_episodes = play("--thresholds=10,100,len<=9,1000")
    with caplog.at_level(logging.INFO):
        end_episodes(20.0, 20.0, frames=32)
        end_episodes(200.0, 200.0, frames=64)
        end_episodes(0.0, 0.0, frames=96)
        end_episodes(200.0, 200.0, frames=128)
    assert noted(runner) == [
        ("reward>=10", 0, 32),
        ("reward>=100", 0, 64),
        ("len<=9", 0, 32),
        ("reward>=1000", 0, None),
    ]
    told = [record.getMessage() for record in caplog.records]
    assert [message[: message.index(" after")] for message in told] == [
        "Reached: reward>=10", "Reached: len<=9", "Reached: reward>=100",
    ]  # fmt: skip
    assert runner.goals.report().lines[-1] == "Threshold reward>=1000: not reached"
    assert not runner.reason


def test_thresholds_are_those_of_each_policy_unless_they_name_one(play):
    runner, end_episodes = play("--num_policies=2", "--thresholds=10,reward@1>=15")
    end_episodes(20.0, 20.0, policy=1, frames=64)
    assert noted(runner) == [("reward>=10", 0, None), ("reward>=10", 1, 64), ("reward@1>=15", 1, 64)]
    lines = runner.goals.report().lines
    assert lines[0] == "Threshold reward>=10 of policy 0: not reached"
    assert lines[1].startswith("Threshold reward>=10 of policy 1: after") and lines[1].endswith("and 64 frames")


def test_nothing_is_reached_while_a_run_ends(play):
    runner, end_episodes = play("--thresholds=10")
    runner.interrupt("interrupted by SIGINT")
    end_episodes(20.0, 20.0)
    assert noted(runner) == [("reward>=10", 0, None)]
    assert runner.reason == "interrupted by SIGINT"


def test_the_true_objective_is_the_reward_where_the_environment_tells_none(play, caplog):
    runner, end_episodes = play("--stop_at=true_objective>=10")
    end_episodes(20.0, 20.0)
    assert runner.reason and not caplog.records
    runner, end_episodes = play("--stop_at=true_objective>=10")
    end_episodes(20.0, 20.0, true_objective=1.0)
    assert not runner.reason


def test_a_statistic_that_no_episode_tells_is_told_once_with_those_that_there_are(play, caplog):
    runner, end_episodes = play("--stop_at=kils>=3")
    for _ in range(3):
        end_episodes(20.0, 20.0, kills=1.0)
    assert [record.getMessage() for record in caplog.records] == [
        "No episode of policy 0 has a statistic 'kils' so far, so kils>=3 is not reached; there are kills, len, reward"
    ]
    assert not runner.reason


def test_a_run_that_asks_for_nothing_has_nothing_to_tell(play):
    runner, end_episodes = play()
    end_episodes(20.0, 20.0)
    report = runner.goals.report()
    assert (report.facts, report.lines, report.reached_before) == ({}, (), "")
