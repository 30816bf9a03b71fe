from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Independent, Normal, kl_divergence

from sample_profiler.errors import ConfigError
from sample_profiler.model.distributions import MASKED_LOGIT, Categorical, DiagonalGaussian, IndependentParts


def test_categorical_by_hand():
    # Logits log 1, log 1, log 2: probabilities 1/4, 1/4, 1/2.
    distribution = Categorical(torch.tensor([[1.0, 1.0, 2.0]]).log())
    assert distribution.log_prob(torch.tensor([[2]])).item() == pytest.approx(math.log(0.5))
    # Entropy = 2 * 1/4 * log 4 + 1/2 * log 2 = 1.5 log 2.
    assert distribution.entropy().item() == pytest.approx(1.5 * math.log(2))
    # KL(p ‖ u) = log 3 - 1.5 log 2; KL(u ‖ p) = (2 log 4 + log 2) / 3 - log 3 = 5/3 log 2 - log 3.
    # Their mean = (5/3 - 3/2) / 2 * log 2 = log 2 / 12.
    assert distribution.symmetric_kl_with_uniform().item() == pytest.approx(math.log(2) / 12)
    assert distribution.mode().tolist() == [[2]]


def test_categorical_agrees_with_torch():
    logits, other_logits = 3 * torch.randn(2, 50, 9)
    ours, theirs = Categorical(logits), TorchCategorical(logits=logits)
    actions = torch.randint(0, 9, (50, 1))
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions[:, 0]))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    expected_kl = kl_divergence(theirs, TorchCategorical(logits=other_logits))
    torch.testing.assert_close(ours.kl(Categorical(other_logits)), expected_kl)


def test_categorical_draws_with_its_probabilities():
    probabilities = torch.tensor([0.1, 0.2, 0.0, 0.7])
    logits = probabilities.log().masked_fill(probabilities == 0, MASKED_LOGIT).repeat(100_000, 1)
    actions = Categorical(logits).draw(torch.Generator().manual_seed(1))[0]
    assert actions.shape == (100_000, 1)
    assert actions.dtype == torch.int64
    frequencies = torch.bincount(actions[:, 0], minlength=4) / 100_000
    # The standard deviation of a frequency is at most sqrt(0.25 / 100,000) = 0.0016.
    torch.testing.assert_close(frequencies, probabilities, atol=0.008, rtol=0)
    assert frequencies[2] == 0


@pytest.mark.parametrize(
    "distribution",
    [Categorical(torch.randn(20, 5)), DiagonalGaussian(torch.randn(20, 6))],
    ids=["discrete", "continuous"],
)
def test_draws_repeat_with_the_generator_and_leave_the_global_one_alone(distribution):
    before = torch.get_rng_state()
    first, again = (distribution.draw(torch.Generator().manual_seed(7))[0] for _ in range(2))
    other = distribution.draw(torch.Generator().manual_seed(8))[0]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    "distribution",
    [
        Categorical(torch.randn(20, 5)),
        DiagonalGaussian(torch.randn(20, 6)),
        IndependentParts([Categorical(part) for part in torch.randn(20, 5).split([2, 3], dim=-1)]),
        IndependentParts([Categorical(torch.randn(20, 3)), DiagonalGaussian(torch.randn(20, 4))]),
    ],
    ids=["discrete", "continuous", "several", "mixed"],
)
def test_what_a_draw_says_of_its_actions_is_their_logarithm(distribution):
    actions, logarithms = distribution.draw(torch.Generator().manual_seed(7))
    torch.testing.assert_close(logarithms, distribution.log_prob(actions), rtol=1e-5, atol=2e-6)


def test_what_was_computed_without_gradients_is_not_kept_for_them():
    logits = torch.randn(4, 3, requires_grad=True)
    distribution = Categorical(logits)
    with torch.no_grad():
        distribution.entropy()
    distribution.entropy().sum().backward()
    assert logits.grad.abs().max() > 0


def test_forbidden_actions_leave_a_distribution_of_the_others():
    logits = torch.randn(10, 5)
    masked = logits.clone()
    masked[:, [1, 4]] = MASKED_LOGIT
    others = Categorical(logits[:, [0, 2, 3]])
    distribution = Categorical(masked)
    torch.testing.assert_close(distribution.entropy(), others.entropy())
    torch.testing.assert_close(distribution.symmetric_kl_with_uniform(), others.symmetric_kl_with_uniform())
    torch.testing.assert_close(distribution.kl(Categorical(masked)), torch.zeros(10))
    assert torch.isfinite(distribution.log_prob(torch.ones(10, 1, dtype=torch.int64))).all()


def test_gaussian_agrees_with_torch():
    parameters, other = torch.randn(2, 50, 6)
    theirs, their_other = (Independent(Normal(p[:, :3], p[:, 3:].exp()), 1) for p in (parameters, other))
    ours = DiagonalGaussian(parameters)
    actions = torch.randn(50, 3)
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    torch.testing.assert_close(ours.kl(DiagonalGaussian(other)), kl_divergence(theirs, their_other))
    assert torch.equal(ours.mode(), parameters[:, :3])


def test_gaussian_draws_with_its_moments():
    parameters = torch.tensor([1.0, -2.0, math.log(0.5), math.log(3.0)]).expand(100_000, 4)
    actions = DiagonalGaussian(parameters).draw(torch.Generator().manual_seed(1))[0]
    torch.testing.assert_close(actions.mean(0), torch.tensor([1.0, -2.0]), atol=0.05, rtol=0)
    torch.testing.assert_close(actions.std(0), torch.tensor([0.5, 3.0]), atol=0.0, rtol=0.02)


def test_gaussian_bounds_its_standard_deviation():
    distribution = DiagonalGaussian(torch.tensor([[0.0, 0.0, -100.0, 100.0]]))
    torch.testing.assert_close(distribution.stddev, torch.tensor([[1e-4, 1e4]]))
    assert torch.isfinite(distribution.log_prob(torch.tensor([[1.0, 1.0]]))).all()


def test_gaussian_has_no_divergence_from_a_uniform_distribution():
    with pytest.raises(ConfigError, match="--exploration_loss=entropy"):
        DiagonalGaussian(torch.zeros(1, 2)).symmetric_kl_with_uniform()


class TestParts:
    """Two discrete parts and a continuous one."""

    @staticmethod
    def make(num_rows=3, seed=0):
        generator = torch.Generator().manual_seed(seed)
        logits = [torch.randn(num_rows, n, generator=generator) for n in (3, 2)]
        parts = [*map(Categorical, logits), DiagonalGaussian(torch.randn(num_rows, 4, generator=generator))]
        return parts, IndependentParts(parts)

    def test_probabilities_multiply_and_entropies_and_divergences_add_up(self):
        parts, whole = self.make()
        others, other = self.make(seed=1)
        actions = torch.tensor([[0.0, 1.0, 0.3, -1.5], [2.0, 0.0, 0.0, 0.0], [1.0, 1.0, 9.0, -9.0]])
        pieces = actions[:, :1].long(), actions[:, 1:2].long(), actions[:, 2:]
        expected = sum(part.log_prob(piece) for part, piece in zip(parts, pieces, strict=True))
        torch.testing.assert_close(whole.log_prob(actions), expected)
        torch.testing.assert_close(whole.entropy(), sum(part.entropy() for part in parts))
        expected = sum(one.kl(another) for one, another in zip(parts, others, strict=True))
        torch.testing.assert_close(whole.kl(other), expected)

    def test_each_part_is_drawn_from_its_own_distribution(self):
        logits = [torch.tensor([[-50.0, 50.0, -50.0]]), torch.tensor([[50.0, -50.0]])]
        gaussian = DiagonalGaussian(torch.tensor([[3.0, -9.0]]))
        whole = IndependentParts([*map(Categorical, logits), gaussian])
        action = whole.draw(torch.Generator().manual_seed(0))[0]
        assert action.dtype == torch.float32
        torch.testing.assert_close(action, torch.tensor([[1.0, 0.0, 3.0]]), atol=0.01, rtol=0)
        torch.testing.assert_close(whole.mode(), torch.tensor([[1.0, 0.0, 3.0]]))
        discrete = IndependentParts([*map(Categorical, logits)])
        assert discrete.draw()[0].tolist() == [[1, 0]]
        assert discrete.draw()[0].dtype == torch.int64

    def test_only_discrete_parts_can_be_far_from_uniform(self):
        parts, whole = self.make()
        discrete = IndependentParts(parts[:2])
        expected = parts[0].symmetric_kl_with_uniform() + parts[1].symmetric_kl_with_uniform()
        torch.testing.assert_close(discrete.symmetric_kl_with_uniform(), expected)
        with pytest.raises(ConfigError, match="--exploration_loss=entropy"):
            whole.symmetric_kl_with_uniform()
