"""What is said of training that cannot go well, and that nothing is said of training that goes as it should."""

from __future__ import annotations

import pytest

from sample_profiler.analysis.learning.verdict import judge_learning
from sample_profiler.profiling.session.session import Session

HEALTHY = {
    "update_kl": 0.008,
    "clip_share": 0.1,
    "entropy": 0.6,
    "entropy_share": 0.86,
    "explained_variance": 0.7,
    "advantage_scale": 1.0,
    "grad_norm": 0.8,
    "policy_lag_mean": 2.0,
    "input_scale": 1.2,
    "dead_inputs": 0.0,
    "unchanged_observations": 0.0,
    "bad_steps": 0.0,
    "reward_nonzero": 1.0,
    "reward_clipped": 0.0,
    "reward_left": 1.0,
    "num_starts": 400.0,
    "num_distinct_starts": 400.0,
    "episode_return": (20.0, 100.0),
    "episode_length": 100.0,
}
CONFIG = {
    **{"gamma": 0.99, "learning_rate": 1e-4, "exploration_loss_coeff": 0.003, "reward_clip": 1000.0},
    **{"num_epochs": 1, "num_batches_per_epoch": 1, "normalize_input": True, "max_grad_norm": 4.0},
}


def session_of(config=None, policy=0, **figures):
    """The session of a run whose figures are these, or go from one to the other; others are those of a healthy run."""
    history = {}
    for name, value in (HEALTHY | figures).items():
        first, last = value if isinstance(value, tuple) else (value, value)
        figure, deviation, _ = name.partition("_deviation")
        history[f"{figure}_policy_{policy}{deviation}"] = [(2.0 * i, first + (last - first) * i / 9) for i in range(10)]
    return Session(0.0, run={"history": history}, config=CONFIG | (config or {}))


def the_problem(*arguments, **figures):
    (problem,) = judge_learning(session_of(*arguments, **figures))
    return problem


def test_nothing_is_said_of_healthy_training():
    assert judge_learning(session_of()) == []
    # Nearly solved: hardly any entropy, long episodes; and the lag of a run that trains on each dataset many times.
    assert judge_learning(session_of(entropy_share=(0.95, 0.05), episode_length=(20.0, 500.0))) == []
    # One that wins each time, and one that has nothing more to learn.
    assert judge_learning(session_of(entropy_share=0.2, episode_return=500.0)) == []
    assert judge_learning(session_of(update_kl=1e-7, clip_share=0.0)) == []
    # Agents that play against each other: what one gains another one loses.
    assert judge_learning(session_of(episode_return=0.0, episode_return_deviation=9.0)) == []
    many = {"num_epochs": 10, "num_batches_per_epoch": 4}
    assert judge_learning(session_of(many, policy_lag_mean=60.0, update_kl=0.02)) == []


def test_nothing_is_said_of_runs_that_tell_nothing_or_somebody_elses():
    assert judge_learning(Session(0.0)) == []
    for history in (7, {"update_kl_policy_0": 3}, {"update_kl_policy_x": [(1, 2)]}, {"update_kl_policy_0": [(1, "a")]}):
        assert judge_learning(Session(0.0, run={"history": history})) == []


@pytest.mark.parametrize(
    ("config", "figures", "cause", "flag"),
    [
        ({}, {"bad_steps": 0.012}, "bad numbers", "--on_bad_numbers"),
        ({}, {"episode_return": -200.0, "episode_return_deviation": 0.0}, "equal returns", "doctor"),
        ({"learning_rate": 1e-6}, {"update_kl": 1e-7, "clip_share": 0.0}, "learning rate", "larger --learning_rate"),
        ({"num_epochs": 20}, {"update_kl": 0.5, "clip_share": 0.7}, "learning rate", "fewer --num_epochs (20 now)"),
        ({"reward_clip": 1e-6}, {"reward_clipped": 1.0, "reward_left": 1e-6}, "clipped rewards", "--reward_clip"),
        ({}, {"reward_nonzero": 0.0, "episode_return": 0.0}, "no rewards", "--exploration_loss_coeff"),
        ({"normalize_input": False}, {"input_scale": 7071.0}, "large inputs", "--normalize_input=True"),
        ({}, {"dead_inputs": 1.0, "unchanged_observations": 1.0}, "dead inputs", "observes"),
        ({}, {"unchanged_observations": 0.8}, "unchanged observations", "--use_rnn=True"),
        ({}, {"num_starts": (0, 400), "num_distinct_starts": (0, 50)}, "equal seeds", "seed"),
        ({}, {"policy_lag_mean": 50.0, "update_kl": 0.2, "clip_share": 0.6}, "stale data", "--with_vtrace=True"),
        ({}, {"update_kl": 0.5, "clip_share": 0.7}, "learning rate", "--learning_rate"),
        (
            {},
            {"update_kl": (1.0, 0.0), "clip_share": (0.9, 0.0), "entropy_share": 0.001},
            "learning rate",
            "kl_adaptive",
        ),
        ({"exploration_loss_coeff": 0.5}, {"entropy_share": 0.999}, "too much exploration", "--exploration_loss_coeff"),
        ({"gamma": 0.5}, {}, "short horizon", "--gamma"),
    ],
)
def test_what_is_spoilt_is_named_with_what_cures_it(config, figures, cause, flag):
    problem = the_problem(config, **figures)
    assert (problem.cause, problem.policy) == (cause, 0)
    assert flag in problem.advice
    assert problem.evidence


def test_the_entropy_of_continuous_actions_has_no_share_but_grows():
    history = session_of({"exploration_loss_coeff": 0.5}, entropy=(1.4, 5.0)).run["history"]
    del history["entropy_share_policy_0"]
    (problem,) = judge_learning(Session(0.0, run={"history": history}, config={"exploration_loss_coeff": 0.5}))
    assert problem.cause == "too much exploration"


def test_few_beginnings_that_come_again_are_no_equal_seeds():
    few = {"num_starts": (0, 400), "num_distinct_starts": 16.0}
    assert judge_learning(session_of(**few)) == []
    assert judge_learning(session_of(num_starts=(0, 400), num_distinct_starts=1.0)) == []


def test_problems_name_their_policies():
    history = session_of().run["history"] | session_of(policy=1, input_scale=500.0).run["history"]
    (problem,) = judge_learning(Session(0.0, run={"history": history}, config={"normalize_input": True}))
    assert problem.policy == 1 and "--normalize_input is on" in problem.advice
