"""The loop that computes the losses and their gradient at once gives what the formulas in PyTorch give."""

from __future__ import annotations

import math

import pytest
import torch

from sample_profiler.config import LossOptions
from sample_profiler.model.distributions import MASKED_LOGIT, ActionDistribution, Categorical, DiagonalGaussian
from sample_profiler.ppo import objective
from sample_profiler.ppo.objective import Objective, Sums
from sample_profiler.ppo.training_data import RecordedSteps, Targets
from sample_profiler.profiling import Timing

NUM_STEPS = 200
KINDS = {"categorical": Categorical, "gaussian": DiagonalGaussian}

needs_compiler = pytest.mark.skipif(objective._objective is None, reason="there was no compiler")


def make_steps(kind: str, parameters: torch.Tensor) -> tuple[RecordedSteps, Targets]:
    """Make up steps of a policy a little before; some ratios are beyond all bounds, a fifth do not count."""
    distribution: ActionDistribution = KINDS[kind](parameters + 0.3 * torch.randn(parameters.shape))
    actions, log_probabilities = distribution.draw()
    log_probabilities = log_probabilities + torch.where(torch.rand(NUM_STEPS) < 0.1, 4 * torch.randn(NUM_STEPS), 0.0)
    steps = RecordedSteps(
        starts_episode=torch.zeros(NUM_STEPS, dtype=torch.bool),
        actions=actions,
        action_parameters=parameters,
        log_probabilities=log_probabilities,
        values=torch.randn(NUM_STEPS),
    )
    valid = (torch.rand(NUM_STEPS) < 0.8).float()
    return steps, Targets(advantages=torch.randn(NUM_STEPS), returns=torch.randn(NUM_STEPS), valid=valid)


def learn(
    kind: str,
    options: LossOptions,
    data: tuple[torch.Tensor, torch.Tensor, RecordedSteps, Targets],
    sums: Sums | None = None,
) -> list[torch.Tensor]:
    """Return the loss and its gradient."""
    parameters, values = (each.clone().requires_grad_() for each in data[:2])
    total = Objective(options, KINDS[kind], Timing("test")).add_up(KINDS[kind](parameters), values, *data[2:], sums)
    (total / 7).backward()
    return [total.detach(), parameters.grad, values.grad]


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_parameters", [2, 6, 18])
@pytest.mark.parametrize(
    "options",
    [
        LossOptions(),
        LossOptions(exploration_loss_coeff=0.0, ppo_clip_ratio=0.5, ppo_clip_value=0.1),
        LossOptions(exploration_loss_coeff=0.7, value_loss_coeff=0.3, ppo_clip_value=1000.0),
    ],
    ids=["defaults", "no entropy", "much entropy"],
)
def test_loss_and_gradient_at_once_are_those_term_by_term(kind, num_parameters, options, monkeypatch):
    torch.manual_seed(3)
    parameters = torch.randn(NUM_STEPS, num_parameters)
    if kind == "gaussian":
        parameters[:3, -1] = torch.tensor([-12.0, 12.0, 9.0])  # standard deviations beyond their bounds
    elif num_parameters > 2:
        parameters[::3, 0] = MASKED_LOGIT
    data = parameters, torch.randn(NUM_STEPS), *make_steps(kind, parameters)
    at_once, with_statistics = learn(kind, options, data), learn(kind, options, data, Sums())
    assert all(torch.equal(one, other) for one, other in zip(at_once, with_statistics, strict=True))
    monkeypatch.setattr(objective, "_objective", None)
    term_by_term = learn(kind, options, data)
    assert not all(torch.equal(*pair) for pair in zip(at_once, term_by_term, strict=True)), "it rounds elsewhere"
    for ours, theirs in zip(at_once, term_by_term, strict=True):
        assert theirs.abs().max() > 0
        torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-5 * float(theirs.abs().max()))


def test_one_step_by_hand():
    # Logits of 0: each of two actions has probability 1/2, and the policy that acted gave this one 1/4: the ratio is 2,
    # beyond 1 + 0.5, and for the better: 1.5 * 3 is gained, whatever the logits. The value 2 is to be 5: 3 squared.
    parameters, values = torch.zeros(1, 2, requires_grad=True), torch.tensor([2.0], requires_grad=True)
    steps = RecordedSteps(
        starts_episode=torch.zeros(1, dtype=torch.bool),
        actions=torch.tensor([[1]]),
        action_parameters=torch.zeros(1, 2),
        log_probabilities=torch.tensor([math.log(0.25)]),
        values=torch.tensor([2.0]),
    )
    targets = Targets(torch.tensor([3.0]), torch.tensor([5.0]), torch.ones(1))
    options = LossOptions(ppo_clip_ratio=0.5, value_loss_coeff=0.5, exploration_loss_coeff=0.1)
    total = Objective(options, Categorical, Timing("test")).add_up(Categorical(parameters), values, steps, targets)
    total.backward()
    assert total.item() == pytest.approx(-4.5 + 0.5 * 9 - 0.1 * math.log(2), abs=1e-6)
    assert parameters.grad.tolist() == [[pytest.approx(0.0, abs=1e-7)] * 2]  # where entropy is highest, it is level
    assert values.grad.tolist() == [pytest.approx(0.5 * 2 * (2 - 5))]

    # The same to worse: -2 * 3 is lost, nothing is clipped; d ratio / d logits = 2 * (onehot - p) = (-1, 1).
    parameters.grad = None
    again = Targets(torch.tensor([-3.0]), torch.tensor([5.0]), torch.ones(1))
    total = Objective(options, Categorical, Timing("test")).add_up(Categorical(parameters), values, steps, again)
    total.backward()
    assert total.item() == pytest.approx(6 + 4.5 - 0.1 * math.log(2), abs=1e-6)
    assert parameters.grad.tolist() == [[pytest.approx(-3.0), pytest.approx(3.0)]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["parameters", "values", "advantages", "returns", "old log", "old values"])
def test_nan_in_a_step_that_counts_is_noticed_and_in_another_is_not(kind, where):
    torch.manual_seed(5)
    parameters, values = torch.randn(NUM_STEPS, 4), torch.randn(NUM_STEPS)
    steps, targets = make_steps(kind, parameters)
    spoiled = {
        **{"parameters": parameters, "values": values, "advantages": targets.advantages, "returns": targets.returns},
        **{"old log": steps.log_probabilities, "old values": steps.values},
    }[where]
    counts, counts_not = int(targets.valid.argmax()), int(targets.valid.argmin())
    for row in (counts_not, counts):
        spoiled[row] = math.nan
        _, of_parameters, of_values = learn(kind, LossOptions(), (parameters, values, steps, targets))
        is_finite = bool(torch.isfinite(of_parameters).all() and torch.isfinite(of_values).all())
        if row == counts:
            assert not is_finite
        elif objective._objective is not None:
            assert is_finite


@needs_compiler
def test_an_action_that_there_is_not_is_noticed():
    parameters = torch.zeros(NUM_STEPS, 3)
    steps, targets = make_steps("categorical", parameters)
    targets.valid.fill_(1.0)
    steps.actions[5] = 3
    total, *_ = learn("categorical", LossOptions(), (parameters, torch.zeros(NUM_STEPS), steps, targets))
    assert total.isnan()


@needs_compiler
def test_what_a_step_far_from_its_mean_gains_beyond_the_bounds_moves_nothing():
    # Its density is nothing, so its ratio is noise; the square of its deviation is infinite.
    parameters = torch.tensor([[0.0, math.log(1e-4)]], requires_grad=True)
    steps = RecordedSteps(
        starts_episode=torch.zeros(1, dtype=torch.bool),
        actions=torch.tensor([[1e16]]),
        action_parameters=torch.zeros(1, 2),
        log_probabilities=torch.zeros(1),
        values=torch.zeros(1),
    )
    targets, options = Targets(torch.ones(1), torch.zeros(1), torch.ones(1)), LossOptions(exploration_loss_coeff=0.0)
    adding = Objective(options, DiagonalGaussian, Timing("test"))
    adding.add_up(DiagonalGaussian(parameters), torch.zeros(1), steps, targets).backward()
    assert parameters.grad.tolist() == [[0.0, 0.0]]


def test_a_value_as_far_from_its_target_as_the_bound_is_moves_by_half(monkeypatch):
    # 3 is beyond 0 + 1, and as far from 2 as 1 is: torch.maximum gives either of two equal numbers half a gradient.
    steps, targets = make_steps("categorical", torch.zeros(NUM_STEPS, 2))
    steps.values.fill_(0.0)
    targets.returns.fill_(2.0)
    data = torch.zeros(NUM_STEPS, 2), torch.full((NUM_STEPS,), 3.0), steps, targets
    options = LossOptions(ppo_clip_value=1.0)
    at_once = learn("categorical", options, data)[2]
    monkeypatch.setattr(objective, "_objective", None)
    torch.testing.assert_close(at_once, learn("categorical", options, data)[2])


def test_a_gradient_may_be_asked_for_twice():
    parameters = torch.randn(NUM_STEPS, 4, requires_grad=True)
    steps, targets = make_steps("categorical", parameters.detach())
    adding = Objective(LossOptions(), Categorical, Timing("test"))
    total = adding.add_up(Categorical(parameters), torch.zeros(NUM_STEPS), steps, targets) / 7
    first, second = (torch.autograd.grad(total, parameters, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


@needs_compiler
def test_shapes_that_torch_would_stretch_and_distributions_of_ones_own_are_left_to_it():
    class Own(Categorical):
        def log_prob(self, actions):
            return super().log_prob(actions) * 0.5

    parameters = torch.randn(NUM_STEPS, 4)
    steps, targets = make_steps("categorical", parameters)
    adding = Objective(LossOptions(), Categorical, Timing("test"))
    values = torch.zeros(NUM_STEPS)
    assert adding._add_up_at_once(Categorical(parameters), values, steps, targets) is not None
    assert adding._add_up_at_once(Categorical(parameters), values[:1], steps, targets) is None
    assert adding._add_up_at_once(Own(parameters), values, steps, targets) is None
    assert adding._add_up_at_once(Categorical(parameters.double()), values, steps, targets) is None
