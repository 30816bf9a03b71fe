"""Advantages of an agent that misses steps are those of a trajectory in which there are none of these."""

from __future__ import annotations

import pytest
import torch

from sample_profiler.ppo.advantages import gae, vtrace
from sample_profiler.ppo.own_steps import Outcomes, OwnSteps

NAN = float("nan")


def estimate(
    absent, rewards, values, terminated=None, truncated=None, final_values=None, ratios=None, gamma=0.5, gae_lambda=0.5
):
    """Estimate advantages of one trajectory; with `ratios` by V-trace, whose bounds are 1."""
    never = [False] * len(rewards)
    outcomes = Outcomes(
        rewards=torch.tensor([rewards]),
        values=torch.tensor([values]),
        ratios=None if ratios is None else torch.tensor([ratios]),
        terminated=torch.tensor([terminated or never]),
        truncated=torch.tensor([truncated or never]),
        final_values=torch.tensor([final_values or [NAN] * len(rewards)]),
    )
    own_steps = OwnSteps(torch.tensor([absent]), has_absent=True)
    own = own_steps.of(outcomes)
    ends = own.terminated, own.truncated, None if final_values is None else own.final_values
    if own.ratios is None:
        results = gae(own.rewards, own.values, *ends, gamma, gae_lambda)
    else:
        results = vtrace(own.rewards, own.values, own.ratios, *ends, gamma, 1.0, 1.0)
    advantages, targets = (own_steps.put_back(result)[0].tolist() for result in results)
    return advantages, targets


def test_gae_goes_on_behind_a_gap_without_its_values_and_with_its_rewards():
    # Own steps 0, 3 and 4; the rewards of 1 and 2 are those of 0: 1 + 10 + 20 = 31.
    # delta_4 = 3 + 0.5 * 8 - 4 = 3         A_4 = 3
    # delta_3 = 2 + 0.5 * 4 - 2 = 2         A_3 = 2 + 0.25 * 3 = 2.75
    # delta_0 = 31 + 0.5 * 2 - 6 = 26       A_0 = 26 + 0.25 * 2.75 = 26.6875
    advantages, returns = estimate(
        [False, True, True, False, False], [1.0, 10.0, 20.0, 2.0, 3.0], [6.0, NAN, NAN, 2.0, 4.0, 8.0]
    )
    assert advantages == [26.6875, 0.0, 0.0, 2.75, 3.0]
    assert returns == [32.6875, 0.0, 0.0, 4.75, 7.0]


def test_vtrace_goes_on_behind_a_gap_without_its_ratios():
    # delta_3 = 0.5 * (3 + 0.5 * 8 - 4) = 1.5        v_3 = 4 + 1.5 = 5.5
    # delta_0 = 1 * (11 + 0.5 * 4 - 6) = 7           v_0 = 6 + 7 + 0.5 * 1 * 1.5 = 13.75
    # A_3 = 0.5 * (3 + 0.5 * 8 - 4) = 1.5            A_0 = 1 * (11 + 0.5 * 5.5 - 6) = 7.75
    advantages, targets = estimate(
        [False, True, True, False], [1.0, 10.0, 0.0, 3.0], [6.0, 99.0, -99.0, 4.0, 8.0], ratios=[2.0, NAN, 0.01, 0.5]
    )
    assert advantages == [7.75, 0.0, 0.0, 1.5]
    assert targets == [13.75, 0.0, 0.0, 5.5]


@pytest.mark.parametrize(("ratios", "weight"), [(None, 0.25), ([1.0] * 4, 0.5)])
def test_a_gap_at_the_end_is_followed_by_the_value_behind_the_trajectory(ratios, weight):
    # The last own step is 1, with a reward of 2 + 4 + 8: 14 + 0.5 * 16 - 3 = 19; 1 + 0.5 * 3 - 2 = 0.5 before it.
    advantages, _ = estimate(
        [False, False, True, True], [1.0, 2.0, 4.0, 8.0], [2.0, 3.0, NAN, NAN, 16.0], ratios=ratios
    )
    assert advantages == [0.5 + weight * 19, 19.0, 0.0, 0.0]


def test_what_a_trajectory_begins_with_before_the_first_own_step_is_nobodys():
    advantages, returns = estimate([True, True, False], [100.0, 100.0, 3.0], [NAN, NAN, 4.0, 8.0])
    assert advantages == [0.0, 0.0, 3.0]
    assert returns == [0.0, 0.0, 7.0]


def test_an_agent_without_any_part_has_no_advantages():
    assert estimate([True, True], [5.0, 5.0], [NAN, NAN, NAN]) == ([0.0, 0.0], [0.0, 0.0])


@pytest.mark.parametrize("ratios", [None, [1.0] * 5])
def test_an_episode_that_is_terminated_in_a_gap_ends_with_the_step_before_it(ratios):
    # Own steps 0 and 4: 1 + 10 + 20 - 6 = 25, since the 40 of step 3 come after the end; 3 + 0.5 * 8 - 4 = 3.
    advantages, _ = estimate(
        [False, True, True, True, False], [1.0, 10.0, 20.0, 40.0, 3.0], [6.0, NAN, NAN, NAN, 4.0, 8.0],
        terminated=[False, False, True, False, False], ratios=ratios,
    )  # fmt: skip
    assert advantages == [25.0, 0.0, 0.0, 0.0, 3.0]


@pytest.mark.parametrize("ratios", [None, [1.0] * 4])
def test_an_episode_that_is_cut_off_in_a_gap_is_followed_by_its_final_value(ratios):
    # 1 + 10 + 0.5 * 12 - 6 = 11
    gap = [False, True, True, False], [1.0, 10.0, 20.0, 3.0], [6.0, NAN, NAN, 4.0, 8.0]
    cut = [False, True, False, False]
    finals = [NAN, 12.0, NAN, NAN]
    advantages, _ = estimate(*gap, truncated=cut, final_values=finals, ratios=ratios)
    assert advantages == [11.0, 0.0, 0.0, 3.0]
    advantages, _ = estimate(*gap, truncated=cut, ratios=ratios)
    assert advantages == [5.0, 0.0, 0.0, 3.0], "without bootstrap a cut is an end"


def test_an_own_end_is_what_counts_whatever_is_told_after_it():
    # Cut off at step 0 with a final value of 12: 1 + 0.5 * 12 - 6 = 1; the flags and rewards behind it change nothing.
    advantages, _ = estimate(
        [False, True, True, False], [1.0, 10.0, 20.0, 3.0], [6.0, NAN, NAN, 4.0, 8.0],
        terminated=[False, True, True, False], truncated=[True, False, True, False],
        final_values=[12.0, NAN, NAN, NAN],
    )  # fmt: skip
    assert advantages == [1.0, 0.0, 0.0, 3.0]


def test_where_nobody_is_absent_nothing_is_changed():
    outcomes = Outcomes(*(torch.randn(2, 3) for _ in range(6)))
    own_steps = OwnSteps(torch.zeros(2, 3, dtype=torch.bool), has_absent=False)
    assert own_steps.of(outcomes) is outcomes
    assert own_steps.put_back(outcomes.rewards) is outcomes.rewards


@pytest.mark.parametrize("with_vtrace", [False, True])
def test_advantages_are_those_of_the_trajectory_without_the_gaps(with_vtrace):
    """Many random trajectories, each of which is also written down without the steps that its agent misses."""
    generator = torch.Generator().manual_seed(0)
    num_gaps = 0
    for _ in range(300):
        chances = torch.tensor([[0.4], [0.1], [0.1]])
        absent, terminated, truncated = (torch.rand(3, 9, generator=generator) < chances).tolist()
        rewards, finals, ratios = torch.randn(3, 9, generator=generator).tolist()
        values = torch.randn(10, generator=generator).tolist()
        ratios = [abs(ratio) for ratio in ratios] if with_vtrace else None
        short = {"rewards": [], "values": [], "terminated": [], "truncated": [], "finals": [], "ratios": []}
        has_ended = True
        for step, is_absent in enumerate(absent):
            if not is_absent:
                short["values"].append(values[step])
                short["ratios"].append(abs(ratios[step]) if ratios else 1.0)
                for each, of_step in (("rewards", 0.0), ("terminated", False), ("truncated", False), ("finals", NAN)):
                    short[each].append(of_step)
                has_ended = False
            if not has_ended:
                short["rewards"][-1] += rewards[step]
                short["terminated"][-1], short["truncated"][-1] = terminated[step], truncated[step]
                short["finals"][-1] = finals[step]
                has_ended = terminated[step] or truncated[step]
        own = [step for step in range(9) if not absent[step]]
        if not own:
            continue
        num_gaps += len(own) < 9
        results = estimate(absent, rewards, values, terminated, truncated, finals, ratios, 0.9, 0.8)
        expected = estimate(
            [False] * len(own), short["rewards"], [*short["values"], values[-1]], short["terminated"],
            short["truncated"], short["finals"], short["ratios"] if with_vtrace else None, 0.9, 0.8,
        )  # fmt: skip
        for result, of_own in zip(results, expected, strict=True):
            assert [result[step] for step in own] == pytest.approx(of_own, abs=1e-5)
            assert not any(result[step] for step in range(9) if absent[step])
    assert num_gaps > 200
