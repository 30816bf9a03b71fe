from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.config import ModelOptions, ObservationOptions
from sample_profiler.errors import ConfigError
from sample_profiler.model import make_actor_critic
from sample_profiler.model.distributions import Categorical, DiagonalGaussian
from sample_profiler.ppo import losses

ALL = torch.ones(4)


def test_policy_loss_by_hand():
    # Clipped to [1 / 1.25, 1.25] = [0.8, 1.25].
    ratio = torch.tensor([2.0, 0.5, 2.0, 0.5])
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0])
    # Gains end at 1.25 (first), losses count in full: min(2, 1.25), min(0.5, 0.8), min(-2, -1.25), min(-0.5, -0.8).
    expected = -(1.25 + 0.5 - 2.0 - 0.8)
    assert losses.policy_loss(ratio, advantages, ALL, 0.25).item() == pytest.approx(expected)


def test_policy_loss_has_no_gradient_where_a_gain_is_clipped():
    ratio = torch.tensor([2.0, 0.5, 2.0, 0.5], requires_grad=True)
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0])
    losses.policy_loss(ratio, advantages, ALL, 0.25).backward()
    assert ratio.grad.tolist() == [0, -1, 1, 0]


def test_policy_loss_with_a_large_clip_keeps_a_positive_bound():
    # With e = 3 the lower bound is 1/4 and not 1 - 3.
    loss = losses.policy_loss(torch.tensor([0.1]), torch.tensor([-1.0]), torch.ones(1), 3.0)
    assert loss.item() == pytest.approx(0.25)


def test_value_loss_by_hand():
    values = torch.tensor([3.0, 1.1, 3.0])
    old_values = torch.tensor([1.0, 1.0, 1.0])
    returns = torch.tensor([4.0, 2.0, 0.0])
    # Clip 0.5: 3 → 1.5 and (1.5 - 4)^2 = 6.25 > 1; 1.1 stays, 0.81; 3 → 1.5 and 9 > 2.25.
    loss = losses.value_loss(values, old_values, returns, torch.ones(3), 0.5)
    assert loss.item() == pytest.approx(6.25 + 0.81 + 9)


def test_exploration_losses_by_hand():
    distribution = Categorical(torch.tensor([[1.0, 1.0, 2.0]] * 4).log())
    valid = torch.tensor([1.0, 0.0, 1.0, 0.0])
    # Of each step: entropy 1.5 log 2, symmetric KL from uniform log 2 / 12 (see the tests of distributions).
    assert losses.exploration_loss(distribution, valid, "entropy").item() == pytest.approx(-2 * 1.5 * math.log(2))
    assert losses.exploration_loss(distribution, valid, "symmetric_kl").item() == pytest.approx(math.log(2) / 6)


@pytest.mark.parametrize("kind", ["entropy", "symmetric_kl"])
def test_minimizing_an_exploration_loss_makes_the_policy_explore(kind):
    logits = torch.tensor([[2.0, 0.0, -1.0]], requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=0.3)
    for _ in range(200):
        optimizer.zero_grad()
        losses.exploration_loss(Categorical(logits), torch.ones(1), kind).backward()
        optimizer.step()
    torch.testing.assert_close(Categorical(logits).probabilities, torch.full((1, 3), 1 / 3), atol=0.02, rtol=0)


def test_symmetric_kl_of_a_policy_without_doubt_is_bounded():
    distribution = Categorical(torch.tensor([[1000.0, 0.0]]))
    assert losses.exploration_loss(distribution, torch.ones(1), "symmetric_kl").item() == 30


def test_symmetric_kl_of_continuous_actions_is_refused():
    with pytest.raises(ConfigError, match="--exploration_loss=entropy"):
        losses.exploration_loss(DiagonalGaussian(torch.zeros(4, 2)), ALL, "symmetric_kl")


def test_kl_loss_by_hand():
    new, old = (Categorical(torch.tensor([p] * 4).log()) for p in ([0.5, 0.5], [0.25, 0.75]))
    # KL(new ‖ old) = 0.5 log 2 + 0.5 log(2/3) = 0.5 log(4/3).
    assert losses.kl_loss(old, new, ALL).item() == pytest.approx(4 * 0.5 * math.log(4 / 3))


def test_ratio_by_hand_and_its_bounds():
    new = torch.tensor([0.5, 0.9, 1e-9]).log()
    old = torch.tensor([0.25, 1e-9, 0.9]).log()
    torch.testing.assert_close(losses.probability_ratio(new, old), torch.tensor([2.0, 20.0, 0.05]))


def test_steps_that_do_not_count_may_overflow():
    new = torch.tensor([-1.0, -1.0, 1e30], requires_grad=True)
    valid = torch.tensor([1.0, 1.0, 0.0])
    advantages = torch.tensor([1.0, -1.0, 1.0])
    ratio = losses.probability_ratio(new, torch.tensor([-1.0, -1.0, -1e30]))
    loss = losses.policy_loss(ratio, advantages, valid, 0.1)
    loss = loss + losses.value_loss(new, torch.zeros(3), advantages, valid, 0.2)
    loss.backward()
    assert torch.isfinite(loss)
    assert new.grad[2] == 0
    assert torch.isfinite(new.grad[:2]).all()


def whole_loss(network, batch, pieces, options):
    """Accumulate gradients over pieces of trajectories; return all gradients in one vector."""
    network.zero_grad()
    num_valid = batch["valid"].sum()
    num_steps = batch["starts"].shape[1]
    for piece in pieces:
        rows = slice(piece.start * num_steps, piece.stop * num_steps)
        head = network.forward_head(network.normalize({"obs": batch["obs"][rows]}))
        sequences = head.view(-1, num_steps, head.shape[-1])
        core = network.forward_core_sequence(sequences, batch["states"][piece], batch["starts"][piece])
        parameters, values = network.forward_tail(core.flatten(0, 1))
        new = network.action_distribution(parameters)
        old = network.action_distribution(batch["parameters"][rows])
        valid, actions = batch["valid"][rows], batch["actions"][rows]
        ratio = losses.probability_ratio(new.log_prob(actions), old.log_prob(actions))
        total = losses.policy_loss(ratio, batch["advantages"][rows], valid, 0.1)
        total = total + 0.5 * losses.value_loss(values, batch["values"][rows], batch["returns"][rows], valid, 0.2)
        total = total + 0.01 * losses.exploration_loss(new, valid, options)
        total = total + 0.1 * losses.kl_loss(old, new, valid)
        (total / num_valid).backward()
    return torch.cat([parameter.grad.flatten() for parameter in network.parameters()])


@pytest.mark.parametrize("exploration_loss", ["entropy", "symmetric_kl"])
@pytest.mark.parametrize("num_pieces", [2, 3, 8])
def test_gradients_of_micro_batches_add_up_to_the_minibatchs(num_pieces, exploration_loss):
    torch.manual_seed(0)
    num_sequences, num_steps = 8, 6
    num_rows = num_sequences * num_steps
    network = make_actor_critic(
        ModelOptions(encoder_conv_mlp_layers=(16,), rnn_size=12),
        ObservationOptions(obs_scale=255.0),
        spaces.Dict({"obs": spaces.Box(0, 255, (3, 40, 40), np.uint8)}),
        spaces.Discrete(4),
    )
    batch = {
        "obs": torch.randint(0, 256, (num_rows, 3, 40, 40), dtype=torch.uint8),
        "states": torch.randn(num_sequences, 12),
        "starts": torch.rand(num_sequences, num_steps) < 0.2,
        "parameters": torch.randn(num_rows, 4),
        "actions": torch.randint(0, 4, (num_rows, 1)),
        "values": torch.randn(num_rows),
        "returns": torch.randn(num_rows),
        "advantages": torch.randn(num_rows),
        # Unevenly spread: a mean of the pieces' means would be another gradient.
        "valid": (torch.rand(num_rows) < torch.linspace(0.2, 1.0, num_rows)).float(),
    }
    whole = whole_loss(network, batch, [slice(0, num_sequences)], exploration_loss)
    edges = np.linspace(0, num_sequences, num_pieces + 1).astype(int)
    pieces = [slice(start, stop) for start, stop in pairwise(edges)]
    in_pieces = whole_loss(network, batch, pieces, exploration_loss)
    assert whole.abs().max() > 1e-3
    torch.testing.assert_close(in_pieces, whole, atol=1e-5 * whole.abs().max().item(), rtol=1e-5)
