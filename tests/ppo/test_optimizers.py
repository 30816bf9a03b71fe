from __future__ import annotations

import pytest
import torch
from torch import nn

from sample_profiler.config import OptimizerOptions
from sample_profiler.ppo.optimizers import make_optimizer


def test_one_step_of_adam_by_hand():
    parameter = nn.Parameter(torch.tensor([1.0]))
    optimizer = make_optimizer([parameter], OptimizerOptions(learning_rate=0.1, adam_eps=1.0))
    parameter.grad = torch.tensor([3.0])
    optimizer.step()
    # The first corrected moments are the gradient and its square: 1 - 0.1 * 3 / (3 + 1).
    assert parameter.item() == pytest.approx(0.925)


def test_options_reach_the_optimizer():
    optimizer = make_optimizer([nn.Parameter(torch.zeros(1))], OptimizerOptions(adam_beta1=0.5, adam_beta2=0.6))
    assert optimizer.defaults["betas"] == (0.5, 0.6)
    assert optimizer.defaults["eps"] == 1e-6
