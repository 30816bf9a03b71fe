from __future__ import annotations

import subprocess
import sys

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
    assert optimizer.betas == (0.5, 0.6)
    assert optimizer.eps == 1e-6


def make_pair():
    torch.manual_seed(5)
    parameters = [nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(7)), nn.Parameter(torch.randn(2))]
    return parameters, [nn.Parameter(parameter.detach().clone()) for parameter in parameters]


def set_gradients(*lists):
    for parameters in zip(*lists, strict=True):
        gradient = torch.randn_like(parameters[0])
        for parameter in parameters:
            parameter.grad = gradient.clone()


def test_steps_are_torchs_and_its_state_is_understood():
    ours, theirs = make_pair()
    options = OptimizerOptions(learning_rate=0.01, adam_beta1=0.8, adam_beta2=0.95, adam_eps=1e-4)
    optimizer = make_optimizer(ours, options)
    reference = torch.optim.Adam(theirs, lr=0.01, betas=(0.8, 0.95), eps=1e-4)
    for step in range(5):
        optimizer.learning_rate = reference.param_groups[0]["lr"] = 0.01 / (step + 1)
        set_gradients(ours, theirs)
        ours[2].grad = theirs[2].grad = None if step % 2 else ours[2].grad
        optimizer.step()
        reference.step()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)
    # Another one goes on from torch's state as torch does, at a rate of its own.
    successor = make_optimizer(ours, options)
    successor.load_state_dict(reference.state_dict())
    assert successor.learning_rate == 0.01
    successor.learning_rate = reference.param_groups[0]["lr"]
    set_gradients(ours, theirs)
    successor.step()
    reference.step()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_a_state_of_other_parameters_is_refused():
    parameters, others = make_pair()
    optimizer = make_optimizer(parameters, OptimizerOptions())
    state = optimizer.state_dict()
    with pytest.raises(ValueError, match="other parameters"):
        make_optimizer(others[:2], OptimizerOptions()).load_state_dict(state)
    with pytest.raises(ValueError, match="exp_avg of its optimizer"):
        make_optimizer(others[::-1], OptimizerOptions()).load_state_dict(state)
    with pytest.raises(KeyError):
        optimizer.load_state_dict({"state": {0: {"step": torch.zeros(())}}})
    set_gradients(parameters)
    optimizer.step()
    begun = optimizer.state_dict()["state"][0]["exp_avg"].clone()
    with pytest.raises(KeyError):
        optimizer.load_state_dict({"state": {0: state["state"][0], 1: {"step": torch.zeros(())}}})
    assert torch.equal(optimizer.state_dict()["state"][0]["exp_avg"], begun), "what is refused changes nothing"
    optimizer.load_state_dict({"state": {}, "param_groups": []})
    assert all(entry["step"] == 0 and not entry["exp_avg"].any() for entry in optimizer.state_dict()["state"].values())


def test_parameters_of_several_types_take_their_steps():
    parameters = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2, dtype=torch.float64))]
    optimizer = make_optimizer(parameters, OptimizerOptions(learning_rate=0.5))
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert all(parameter.tolist() == pytest.approx([0.5, 0.5], rel=1e-4) for parameter in parameters)


def test_making_it_does_not_import_torchs_compiler():
    code = (
        "import sys, torch; from sample_profiler.ppo.trainer import Trainer; "
        "from sample_profiler.ppo.optimizers import FusedAdam; p = torch.nn.Parameter(torch.zeros(2)); "
        "o = FusedAdam([p], 0.1, (0.9, 0.999), 1e-6); p.sum().backward(); o.step(); o.zero_grad(); "
        "assert p.grad[0] == 0 and p[0] < 0; sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_gradients_begin_anew_in_the_memory_where_they_were():
    used, unused = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizer = make_optimizer([used, unused], OptimizerOptions())
    addresses = []
    for factor in (2.0, 3.0):
        optimizer.zero_grad()
        (factor * used).sum().backward()
        optimizer.drop_untouched()
        assert used.grad.tolist() == [factor] * 3
        addresses.append(used.grad.data_ptr())
    assert addresses[0] == addresses[1]
    assert unused.grad is None, "a gradient of zero would let its moments move it"


def test_a_parameter_that_was_used_once_is_left_alone_later():
    used, rarely = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = make_optimizer([used, rarely], OptimizerOptions(learning_rate=0.1))
    values = []
    for loss in (lambda: used + rarely, lambda: used * 1):
        optimizer.zero_grad()
        loss().sum().backward()
        optimizer.drop_untouched()
        optimizer.step()
        values.append((used.item(), rarely.item()))
    assert values[1][0] < values[0][0] < 1
    assert values[1][1] == values[0][1] < 1


def test_what_learns_only_later_has_gradients_then():
    parameter = nn.Parameter(torch.ones(1), requires_grad=False)
    optimizer = make_optimizer([parameter], OptimizerOptions())
    optimizer.zero_grad()
    optimizer.drop_untouched()
    assert parameter.grad is None
    for _ in range(2):
        optimizer.zero_grad()
        parameter.requires_grad_()
        (2 * parameter).sum().backward()
        optimizer.drop_untouched()
        assert parameter.grad.tolist() == [2.0]


def test_one_step_of_lamb_by_hand():
    parameter = nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = make_optimizer([parameter], OptimizerOptions(optimizer="lamb", learning_rate=0.1, adam_eps=1.0))
    parameter.grad = torch.tensor([3.0, 1.0])
    optimizer.step()
    # Adam's step would be 3 / (3 + 1) and 1 / (1 + 1); it gets the length of the parameter, 5.
    step = torch.tensor([0.75, 0.5])
    torch.testing.assert_close(parameter.detach(), torch.tensor([3.0, 4.0]) - 0.1 * 5 * step / step.norm())


def test_lamb_moves_what_is_zero_as_adam_and_bounds_large_norms():
    zero, large = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.tensor([1000.0]))
    optimizer = make_optimizer([zero, large], OptimizerOptions(optimizer="lamb", learning_rate=0.1, adam_eps=1e-9))
    zero.grad, large.grad = torch.tensor([2.0]), torch.tensor([2.0])
    optimizer.step()
    assert zero.item() == pytest.approx(-0.1, rel=1e-4)
    assert large.item() == pytest.approx(1000 - 0.1 * 10)


def test_lamb_finds_the_lowest_point():
    parameter = nn.Parameter(torch.tensor([4.0, -3.0]))
    target = torch.tensor([1.0, 2.0])
    optimizer = make_optimizer([parameter], OptimizerOptions(optimizer="lamb"))
    for step in range(400):
        optimizer.learning_rate = 0.05 * (1 - step / 400)
        optimizer.zero_grad()
        (parameter - target).square().sum().backward()
        optimizer.step()
    torch.testing.assert_close(parameter.detach(), target, atol=0.05, rtol=0)


@pytest.mark.parametrize("kind", ["adam", "lamb"])
def test_whether_there_is_a_step_may_be_decided_where_the_parameters_are(kind):
    plain, asked = make_pair()
    optimizers = [make_optimizer(each, OptimizerOptions(learning_rate=0.1, optimizer=kind)) for each in (plain, asked)]
    for _ in range(2):
        set_gradients(plain, asked)
        optimizers[0].step()
        optimizers[1].step(torch.tensor(True))
    before = [parameter.detach().clone() for parameter in asked]
    asked[0].grad[0, 0] = float("nan")
    optimizers[1].step(torch.tensor(False))
    for one, other, former in zip(plain, asked, before, strict=True):
        assert torch.equal(other, former)
        assert torch.equal(one, other)
    expected, found = (optimizer.state_dict()["state"] for optimizer in optimizers)
    assert all(torch.equal(found[i][name], value) for i, state in expected.items() for name, value in state.items())


def make_of_all_kinds():
    torch.manual_seed(7)
    images = torch.randn(4, 3, 5, 5).contiguous(memory_format=torch.channels_last)
    return [
        nn.Parameter(images),
        nn.Parameter(torch.randn(2000)),
        nn.Parameter(torch.randn(0)),
        nn.Parameter(torch.ones(3)),
    ]


@pytest.mark.parametrize("limit", [0.1, 1e6, float("inf")])
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_gradients_are_clipped_as_torch_does(limit, is_elsewhere):
    ours, theirs = make_of_all_kinds(), make_of_all_kinds()
    optimizer = make_optimizer(ours, OptimizerOptions())
    optimizer.zero_grad()
    for parameters in (ours, theirs):  # nothing depends on the last
        sum((parameter * (index + 1.5)).square().sum() for index, parameter in enumerate(parameters[:3])).backward()
    optimizer.drop_untouched()
    assert ours[3].grad is None
    assert ours[0].grad.is_contiguous(memory_format=torch.channels_last)
    if is_elsewhere:
        ours[1].grad = ours[1].grad.clone()
    norms = optimizer.clip(limit), nn.utils.clip_grad_norm_(theirs, limit)
    torch.testing.assert_close(*norms)
    for one, other in zip(ours[:3], theirs[:3], strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_gradients_of_several_types_are_clipped_together():
    parameters = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2, dtype=torch.float64))]
    optimizer = make_optimizer(parameters, OptimizerOptions())
    optimizer.zero_grad()
    sum((3 * parameter).sum().double() for parameter in parameters).backward()
    assert float(optimizer.clip(3.0)) == pytest.approx(6.0)
    assert parameters[0].grad.tolist() == pytest.approx([1.5, 1.5])


def test_steps_are_counted_in_float32_whatever_type_is_the_users_own():
    torch.set_default_dtype(torch.float64)
    try:
        optimizer = make_optimizer([nn.Parameter(torch.ones(2, dtype=torch.float32))], OptimizerOptions())
    finally:
        torch.set_default_dtype(torch.float32)
    assert optimizer.state_dict()["state"][0]["step"].dtype == torch.float32
