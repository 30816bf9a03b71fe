import pytest
import torch
from torch import nn

from sample_profiler.ppo.named_moments import NAMED_STATE, indexed_state


def entry(value, shape, step=7):
    return {
        "step": torch.tensor(float(step)),
        "exp_avg": torch.full(shape, value),
        "exp_avg_sq": torch.full(shape, -value),
    }


def test_parameters_are_counted_as_the_network_has_them():
    network = nn.Linear(3, 2)
    state = {NAMED_STATE: {"bias": entry(2.0, (2,)), "weight": entry(1.0, (2, 3))}}
    indexed = indexed_state(state, network)["state"]
    assert [indexed[index]["exp_avg"].unique().tolist() for index in (0, 1)] == [[1.0], [2.0]]
    assert [indexed[index]["exp_avg_sq"].unique().tolist() for index in (0, 1)] == [[-1.0], [-2.0]]
    assert indexed[0]["step"] == 7
    assert network.weight.requires_grad


def test_a_state_without_names_or_without_anything_stays_what_it_is():
    state = {"state": {0: 1}, "param_groups": []}
    assert indexed_state(state, nn.Linear(1, 1)) is state
    assert indexed_state({NAMED_STATE: {}}, nn.Linear(1, 1)) == {"state": {}}


def test_a_parameter_without_moments_begins_anew_and_one_that_is_not_there_is_an_error():
    network = nn.Linear(3, 2)
    indexed = indexed_state({NAMED_STATE: {"bias": entry(2.0, (2,))}}, network)["state"]
    assert indexed[0]["exp_avg"].abs().sum() == 0
    with pytest.raises(ValueError, match="its optimizer has neck"):
        indexed_state({NAMED_STATE: {"neck": entry(2.0, (2,))}}, network)
    with pytest.raises(RuntimeError):
        indexed_state({NAMED_STATE: {"bias": entry(2.0, (9,))}}, network)
