from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.config import ModelOptions
from sample_profiler.errors import ConfigError
from sample_profiler.model.action_heads import make_action_head
from sample_profiler.model.distributions import MASKED_LOGIT
from sample_profiler.spaces import action_parts, part_width

BOX = spaces.Box(-1, 1, (2, 3), np.float32)


def make(action_space, **options):
    head = make_action_head(action_space, 4, ModelOptions(**options))
    head.initialize()
    return head


def test_discrete_head_masks_forbidden_actions():
    head = make(spaces.Discrete(3))
    decoded = torch.randn(2, 4)
    free = head(decoded, None)
    masked = head(decoded, torch.tensor([[1, 0, 1], [1, 1, 1]]))
    assert masked[0, 1].item() == MASKED_LOGIT
    assert torch.equal(masked[1], free[1])
    actions = head.distribution(masked).draw()[0]
    assert actions.shape == (2, 1)


def test_a_mask_that_allows_nothing_of_a_part_allows_all_of_it_and_carries_no_gradient():
    head = make(spaces.MultiDiscrete([3, 2]))
    decoded = torch.randn(1, 4, requires_grad=True)
    parameters = head(decoded, torch.tensor([[0, 0, 0, 1, 0]]))
    log_probabilities = head.distribution(parameters).log_prob(torch.tensor([[1, 0]]))
    assert log_probabilities.item() == pytest.approx(math.log(1 / 3))
    log_probabilities.sum().backward()
    assert not decoded.grad.any()


@pytest.mark.parametrize("adaptive", [True, False])
def test_gaussian_head_starts_with_the_initial_standard_deviation(adaptive):
    head = make(BOX, adaptive_stddev=adaptive, initial_stddev=0.3)
    parameters = head(torch.zeros(5, 4), None)
    assert parameters.shape == (5, head.num_parameters) == (5, 12)
    torch.testing.assert_close(parameters[:, 6:], torch.full((5, 6), math.log(0.3)))
    assert head.distribution(parameters).draw()[0].shape == (5, 6)


@pytest.mark.parametrize("space", [spaces.Discrete(3), BOX, spaces.Tuple([spaces.Discrete(3), BOX])])
@pytest.mark.parametrize("adaptive", [True, False])
def test_a_gain_shrinks_what_an_action_depends_on(space, adaptive):
    head, decoded = make(space, adaptive_stddev=adaptive, initial_stddev=0.3), torch.randn(5, 4)
    before, bias = head(decoded, None), head(torch.zeros(1, 4), None)
    head.initialize(0.01)
    torch.testing.assert_close(head(decoded, None) - bias, 0.01 * (before - bias), rtol=1e-4, atol=1e-7)
    assert torch.equal(head(torch.zeros(1, 4), None), bias)


def test_adaptive_deviation_depends_on_the_state_and_the_other_is_learned_for_all():
    states = torch.randn(2, 4)
    adaptive, single = (make(BOX, adaptive_stddev=adaptive) for adaptive in (True, False))
    first, second = adaptive(states, None)[:, 6:]
    assert not torch.equal(first, second)
    parameters = single(states, None)
    assert torch.equal(parameters[0, 6:], parameters[1, 6:])
    parameters[:, 6:].sum().backward()
    assert single.log_stddev.grad.tolist() == [2] * 6


@pytest.mark.parametrize("adaptive", [True, False])
def test_tanh_bounds_means(adaptive):
    free, bounded = (make(BOX, adaptive_stddev=adaptive, continuous_tanh_scale=scale) for scale in (0.0, 2.0))
    bounded.load_state_dict(free.state_dict())
    assert bounded(1000 * torch.ones(1, 4), None)[:, :6].abs().max().item() == pytest.approx(2.0)
    expected = 2 * torch.tanh(free(torch.ones(1, 4), None)[:, :6] / 2)
    parameters = bounded(torch.ones(1, 4), None)
    torch.testing.assert_close(parameters[:, :6], expected)
    assert torch.equal(parameters[:, 6:], free(torch.ones(1, 4), None)[:, 6:])


def test_other_action_spaces_are_refused():
    with pytest.raises(ConfigError, match="Text"):
        make(spaces.Text(3))


HYBRID = spaces.Tuple([spaces.Discrete(3), spaces.MultiDiscrete([2, 4]), BOX])


def test_actions_of_several_parts_have_a_head_for_each():
    head = make(HYBRID, adaptive_stddev=False, initial_stddev=0.5)
    assert (head.num_parameters, head.mask_size) == (3 + 2 + 4 + 12, 3 + 2 + 4)
    decoded = torch.randn(5, 4)
    parameters = head(decoded, None)
    assert parameters.shape == (5, head.num_parameters)
    torch.testing.assert_close(parameters[:, -6:], torch.full((5, 6), math.log(0.5)))
    action = head.distribution(parameters).draw()[0]
    assert action.shape == (5, 1 + 2 + 6)
    assert head.distribution(parameters).log_prob(action).shape == (5,)


def test_a_mask_forbids_values_of_each_discrete_part_and_they_carry_no_gradient():
    head = make(HYBRID)
    mask = torch.tensor([[1, 0, 1, 0, 1, 1, 1, 0, 0]]).expand(64, -1)
    parameters = head(torch.randn(64, 4), mask)
    forbidden = [1, 3, 7, 8]
    assert (parameters[:, forbidden] == MASKED_LOGIT).all()
    action = head.distribution(parameters).draw()[0]
    assert not (action[:, 0] == 1).any()
    assert (action[:, 1] == 1).all()
    assert (action[:, 2] < 2).all()
    head.distribution(parameters).log_prob(action).sum().backward()
    gradients = [part.logits.weight.grad for part in head.heads[:3]]
    assert not gradients[0][1].any()
    assert not gradients[1].any(), "one value is left: nothing to learn"
    assert not gradients[2][2:].any()
    assert gradients[0][[0, 2]].any()


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(6, start=3),
        spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[0, 1], [-1, 7]]),
        HYBRID,
        spaces.MultiBinary(5),
        spaces.Dict({"a": spaces.MultiBinary(2), "b": spaces.Tuple([BOX, spaces.Discrete(5)])}),
    ],
    ids=str,
)
def test_what_is_forbidden_is_not_drawn_once_in_many_times(space):
    head = make(space)
    sizes = [int(part.n) for part in action_parts(space) if isinstance(part, spaces.Discrete)]
    is_discrete = [isinstance(part, spaces.Discrete) for part in action_parts(space) for _ in range(part_width(part))]
    masks = torch.cat([forbid_some(75_000, size) for size in sizes], dim=1)
    offsets = torch.tensor([0, *sizes[:-1]]).cumsum(0)
    distribution = head.distribution(head(50 * torch.randn(75_000, 4), masks))
    for _ in range(4):
        drawn = distribution.draw()[0][:, is_discrete].long()
        assert masks.gather(1, drawn + offsets).all()
    assert masks.gather(1, distribution.mode()[:, is_discrete].long() + offsets).all()


def forbid_some(num_rows, size):
    """Return masks in each of which at least one value is allowed."""
    mask = torch.randint(0, 2, (num_rows, size))
    return mask.scatter(1, torch.randint(0, size, (num_rows, 1)), 1)


def test_a_tuple_of_one_member_is_that_member():
    assert type(make(spaces.Tuple([spaces.Discrete(3)]))) is type(make(spaces.Discrete(3)))
