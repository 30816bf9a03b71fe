from __future__ import annotations

import pytest
import torch

from sample_profiler.ppo.advantages import gae, vtrace

NEVER = [[False, False, False]]


def run_gae(rewards, values, terminated=NEVER, truncated=NEVER, final_values=None, gamma=0.5, gae_lambda=0.5):
    advantages, returns = gae(
        torch.tensor(rewards),
        torch.tensor(values),
        torch.tensor(terminated),
        torch.tensor(truncated),
        None if final_values is None else torch.tensor(final_values),
        gamma,
        gae_lambda,
    )
    return advantages.tolist(), returns.tolist()


def test_gae_of_an_episode_that_goes_on():
    # delta_2 = 3 + 0.5 * 8 - 4 = 3        A_2 = 3
    # delta_1 = 2 + 0.5 * 4 - 2 = 2        A_1 = 2 + 0.25 * 3 = 2.75
    # delta_0 = 1 + 0.5 * 2 - 6 = -4       A_0 = -4 + 0.25 * 2.75 = -3.3125
    advantages, returns = run_gae([[1.0, 2.0, 3.0]], [[6.0, 2.0, 4.0, 8.0]])
    assert advantages == [[-3.3125, 2.75, 3.0]]
    assert returns == [[2.6875, 4.75, 7.0]]


def test_gae_stops_at_termination():
    # delta_1 = 2 + 0 - 2 = 0              A_1 = 0, whatever follows
    # delta_0 = 1 + 0.5 * 2 - 6 = -4       A_0 = -4
    advantages, returns = run_gae([[1.0, 2.0, 3.0]], [[6.0, 2.0, 4.0, 8.0]], terminated=[[False, True, False]])
    assert advantages == [[-4.0, 0.0, 3.0]]
    assert returns == [[2.0, 2.0, 7.0]]


def test_gae_without_final_values_takes_truncation_for_termination():
    rewards, values = [[1.0, 2.0, 3.0]], [[6.0, 2.0, 4.0, 8.0]]
    cut = [[False, True, False]]
    assert run_gae(rewards, values, truncated=cut) == run_gae(rewards, values, terminated=cut)


def test_defect_3_gae_bootstraps_truncation_with_the_value_of_the_final_observation():
    # delta_1 = 2 + 0.5 * 10 - 2 = 5       A_1 = 5: not 0.5 * 4 (the next episode) nor 0.5 * 2 (the last observation)
    # delta_0 = 1 + 0.5 * 2 - 6 = -4       A_0 = -4 + 0.25 * 5 = -2.75
    advantages, returns = run_gae(
        [[1.0, 2.0, 3.0]],
        [[6.0, 2.0, 4.0, 8.0]],
        truncated=[[False, True, False]],
        final_values=[[float("nan"), 10.0, float("nan")]],
    )
    assert advantages == [[-2.75, 5.0, 3.0]]
    assert returns == [[3.25, 7.0, 7.0]]


def test_gae_expects_nothing_after_termination_even_if_the_time_is_up():
    advantages, _ = run_gae(
        [[1.0, 2.0, 3.0]],
        [[6.0, 2.0, 4.0, 8.0]],
        terminated=[[False, False, True]],
        truncated=[[False, False, True]],
        final_values=[[0.0, 0.0, 10.0]],
    )
    # delta_2 = 3 - 4 = -1; A_1 = 2 - 0.25 = 1.75; A_0 = -4 + 0.25 * 1.75 = -3.5625
    assert advantages == [[-3.5625, 1.75, -1.0]]


def test_gae_with_lambda_1_is_the_discounted_return():
    torch.manual_seed(0)
    rewards, values = torch.randn(4, 7), torch.randn(4, 8)
    never = torch.zeros(4, 7, dtype=torch.bool)
    _, returns = gae(rewards, values, never, never, None, 0.9, 1.0)
    expected = values[:, -1]
    for step in reversed(range(7)):
        expected = rewards[:, step] + 0.9 * expected
        torch.testing.assert_close(returns[:, step], expected)


def test_gae_keeps_trajectories_apart():
    torch.manual_seed(0)
    rewards, values, finals = torch.randn(5, 6), torch.randn(5, 7), torch.randn(5, 6)
    terminated, truncated = torch.rand(2, 5, 6) < 0.2
    together = gae(rewards, values, terminated, truncated, finals, 0.9, 0.8)
    for row in range(5):
        piece = slice(row, row + 1)
        alone = gae(rewards[piece], values[piece], terminated[piece], truncated[piece], finals[piece], 0.9, 0.8)
        torch.testing.assert_close(together[0][piece], alone[0])
        torch.testing.assert_close(together[1][piece], alone[1])


def naive_vtrace(rewards, values, ratios, terminated, truncated, finals, gamma, rho, c):
    """Equation 1 of the paper as it is written, with sums over all later steps of the episode, for one trajectory."""
    num_steps = len(rewards)

    def is_last(t):
        return terminated[t] or truncated[t]

    def next_value(t):
        if terminated[t]:
            return 0.0
        if truncated[t]:
            return finals[t] if finals is not None else 0.0
        return values[t + 1]

    def target(s):
        total, weight = values[s], 1.0
        for t in range(s, num_steps):
            total += weight * min(rho, ratios[t]) * (rewards[t] + gamma * next_value(t) - values[t])
            if is_last(t):
                break
            weight *= gamma * min(c, ratios[t])
        return total

    targets = [target(s) for s in range(num_steps)]
    advantages = []
    for s in range(num_steps):
        behind = next_value(s) if is_last(s) or s == num_steps - 1 else targets[s + 1]
        advantages.append(min(rho, ratios[s]) * (rewards[s] + gamma * behind - values[s]))
    return advantages, targets


@pytest.mark.parametrize("has_finals", [True, False])
@pytest.mark.parametrize(("rho", "c"), [(1.0, 1.0), (2.0, 0.7)])
def test_vtrace_is_the_formula_of_the_paper(rho, c, has_finals):
    torch.manual_seed(0)
    rewards, finals = torch.randn(2, 6, 8, dtype=torch.float64)
    values = torch.randn(6, 9, dtype=torch.float64)
    ratios = torch.randn(6, 8, dtype=torch.float64).exp()
    terminated, truncated = torch.rand(2, 6, 8) < 0.15
    last_cuts = terminated[:, -1] | truncated[:, -1]
    assert (terminated & ~truncated).any()
    assert (truncated & ~terminated).any()
    assert not last_cuts.all()
    finals = finals if has_finals else None
    advantages, targets = vtrace(rewards, values, ratios, terminated, truncated, finals, 0.9, rho, c)
    for row in range(6):
        columns = (rewards, values, ratios, terminated, truncated)
        expected = naive_vtrace(
            *(column[row].tolist() for column in columns), finals[row].tolist() if has_finals else None, 0.9, rho, c
        )
        assert advantages[row].tolist() == pytest.approx(expected[0])
        assert targets[row].tolist() == pytest.approx(expected[1])


def test_defect_4_vtrace_bootstraps_with_the_value_of_the_next_observation():
    # One step, ratio 1: target = reward + gamma * V(next) = 3 + 0.5 * 8, advantage = target - V = 7 - 4.
    no = torch.tensor([[False]])
    inputs = torch.tensor([[3.0]]), torch.tensor([[4.0, 8.0]]), torch.ones(1, 1), no, no
    advantages, targets = vtrace(*inputs, None, 0.5, 1.0, 1.0)
    assert targets.item() == 7
    assert advantages.item() == 3


def test_vtrace_on_policy_is_the_return_of_n_steps():
    torch.manual_seed(0)
    rewards, values = torch.randn(4, 7), torch.randn(4, 8)
    never = torch.zeros(4, 7, dtype=torch.bool)
    _, targets = vtrace(rewards, values, torch.ones(4, 7), never, never, None, 0.9, 1.0, 1.0)
    _, returns = gae(rewards, values, never, never, None, 0.9, 1.0)
    torch.testing.assert_close(targets, returns)
