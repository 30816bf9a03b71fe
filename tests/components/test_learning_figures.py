"""What a Learner measures of how its training goes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation

from sample_profiler.components.messages import TrainingStatistics
from tests.doubles.small_runs import Wandering

UNSCALED = ("--normalize_input=False", "--normalize_returns=False", "--use_rnn=False", "--recurrence=4")


def figures_of(run, *slots):
    """Train on slots, and return what the Learner tells of that."""
    run.learner._next_statistics_s = -math.inf
    run.hand_over(*slots)
    (report,) = run.of_type(TrainingStatistics)
    return {name.removeprefix("train/"): value for name, value in report.values.items()}


def test_rewards_that_are_bounded_are_counted(make_learner):
    run = make_learner("--reward_scale=2", "--reward_clip=0.5").start()
    run.memory.rewards[:2, :4] = [[0.0, 0.0, 0.1, 0.1], [0.0, 0.0, 4.0, -4.0]]
    figures = figures_of(run, 0, 1)
    assert (figures["reward_nonzero"], figures["reward_clipped"]) == (0.5, 0.5)
    assert figures["reward_left"] == pytest.approx(1.4 / 16.4)


def test_steps_with_numbers_that_are_not_finite_are_counted(make_learner):
    run = make_learner().start()
    run.memory.inactive[:2, :2] = True
    run.memory.spoiled[0, 0] = True
    assert figures_of(run, 0, 1)["bad_steps"] == pytest.approx(1 / 5)


def test_of_rewards_that_are_all_zero_nothing_is_lost(make_learner):
    run = make_learner().start()
    run.memory.rewards[:] = 0
    figures = figures_of(run, 0, 1)
    assert (figures["reward_nonzero"], figures["reward_clipped"], figures["reward_left"]) == (0.0, 0.0, 1.0)


def test_inputs_are_looked_at_as_the_network_sees_them(make_learner):
    run = make_learner(*UNSCALED).start()
    run.memory.observations["obs"][:2, :, 1] = 500.0
    run.memory.observations["obs"][:2, :, 2] = 1e4 * np.array([1, -1, 1, -1, 1])
    figures = figures_of(run, 0, 1)
    assert figures["input_scale"] == pytest.approx(1e4)
    assert figures["dead_inputs"] == pytest.approx(1 / 3)


def test_a_vector_beside_a_picture_is_not_taken_for_all_that_is_seen(make_learner):
    seen = spaces.Dict(obs=spaces.Box(-1, 1, (2,)), picture=spaces.Box(0, 255, (3, 36, 36), np.uint8))
    blank = {"obs": np.zeros(2, np.float32), "picture": np.zeros((3, 36, 36), np.uint8)}
    env = TransformObservation(Wandering(), lambda _: blank, seen)
    run = make_learner(*UNSCALED, env=env).start()
    run.memory.observations["picture"][0] = 255
    assert "dead_inputs" not in figures_of(run, 0, 1)


def test_observations_that_stay_the_same_within_an_episode_are_counted(make_learner):
    run = make_learner(*UNSCALED).start()
    run.memory.observations["obs"][0, 1] = run.memory.observations["obs"][0, 0]
    run.memory.observations["obs"][1, 1] = run.memory.observations["obs"][1, 0]
    run.memory.starts_episode[1, 1] = True  # another episode may begin like the one before
    assert figures_of(run, 0, 1)["unchanged_observations"] == pytest.approx(1 / 5)


def test_first_observations_of_episodes_are_told_apart(make_learner):
    run = make_learner().start()
    run.memory.starts_episode[:4, 1] = True
    run.memory.observations["obs"][:2, 1] = 0.25
    figures = figures_of(run, 0, 1)
    assert (figures["num_starts"], figures["num_distinct_starts"]) == (2, 1)
    figures = figures_of(run, 2, 3)
    assert (figures["num_starts"], figures["num_distinct_starts"]) == (4, 3)


def test_values_that_are_the_returns_explain_all_of_their_variance(make_learner):
    run = make_learner(*UNSCALED, "--gamma=0").start()
    run.memory.values[:2, :4] = run.memory.rewards[:2, :4]
    figures = figures_of(run, 0, 1)
    assert figures["explained_variance"] == pytest.approx(1.0)
    assert figures["advantage_scale"] == pytest.approx(0.0, abs=1e-6)
    run.memory.values[:2, :4] = 0.0
    assert figures_of(run, 0, 1)["explained_variance"] == pytest.approx(0.0, abs=1e-6)


def test_the_entropy_is_that_of_the_policy_that_acted(make_learner):
    run = make_learner().start()
    figures = figures_of(run, 0, 1)
    assert figures["entropy"] == pytest.approx(math.log(4))
    assert figures["entropy_share"] == pytest.approx(1.0)
    run.memory.action_parameters[:2, :, 0] = 30.0
    assert figures_of(run, 0, 1)["entropy_share"] == pytest.approx(0.0, abs=1e-6)


def test_a_large_learning_rate_moves_the_policy_far_and_beyond_the_bounds(make_learner):
    near = figures_of(make_learner("--learning_rate=1e-6").start(), 0, 1)
    far = figures_of(make_learner("--learning_rate=1").start(), 0, 1)
    assert near["update_kl"] < 0.05 < 0.1 < far["update_kl"]
    assert near["clip_share"] < far["clip_share"]


def test_what_is_measured_changes_nothing_that_is_learned(make_learner):
    told, untold = (make_learner("--seed=3", *UNSCALED).start() for _ in range(2))
    untold.learner._next_statistics_s = math.inf
    for _ in range(3):
        figures_of(told, 0, 1)
        untold.hand_over(0, 1)
    assert untold.has_weights(told.weights())
