from __future__ import annotations

import copy
import pickle

import pytest
import torch

from sample_profiler.config import ModelOptions
from sample_profiler.model.cores import make_core
from sample_profiler.model.kernels.fragments import EpisodeFragments

KINDS = [("gru", 1), ("gru", 2), ("lstm", 1), ("lstm", 2)]


def make(rnn_type, num_layers):
    return make_core(5, ModelOptions(rnn_type=rnn_type, rnn_num_layers=num_layers, rnn_size=4))


def step_by_step(core, head, states, starts):
    outputs = []
    for step in range(head.shape[1]):
        states = torch.where(starts[:, step, None], 0.0, states)
        output, states = core.step(head[:, step], states)
        outputs.append(output)
    return torch.stack(outputs, dim=1)


def test_fragments_by_hand():
    # Sequence 0 is a b | c, sequence 1 is d e f and begins with a new episode.
    starts = torch.tensor([[False, False, True], [True, False, False]])
    fragments = EpisodeFragments.from_starts(starts)
    # Longest first: d e f, a b, c. First steps d a c, second steps e b, third f; a to f are 0 to 5.
    assert fragments.order.tolist() == [3, 0, 2, 4, 1, 5]
    assert fragments.batch_sizes.tolist() == [3, 2, 1]
    assert fragments.sequences.tolist() == [1, 0, 0]
    assert fragments.continues.tolist() == [[False], [True], [False]]
    states = torch.tensor([[7.0], [8.0]])
    assert fragments.initial_states(states).tolist() == [[0], [7], [0]]
    block = torch.arange(12.0).view(2, 3, 2)
    assert torch.equal(fragments.unpack(fragments.pack(block).data, 2), block)


@pytest.mark.parametrize(("rnn_type", "num_layers"), KINDS)
@pytest.mark.parametrize("probability", [0.0, 0.05, 0.5, 1.0])
def test_packed_sequences_equal_single_steps_in_outputs_and_gradients(rnn_type, num_layers, probability):
    core = make(rnn_type, num_layers).double()
    head = torch.randn(6, 9, 5, dtype=torch.float64, requires_grad=True)
    states = torch.randn(6, core.state_size, dtype=torch.float64, requires_grad=True)
    starts = torch.rand(6, 9) < probability
    weights = torch.randn(6, 9, 4, dtype=torch.float64)
    inputs = [head, states, *core.parameters()]
    packed = core.sequence(head, states, starts)
    stepped = step_by_step(core, head, states, starts)
    torch.testing.assert_close(packed, stepped)
    gradients = [torch.autograd.grad((output * weights).sum(), inputs) for output in (packed, stepped)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("rnn_type", "num_layers"), KINDS)
def test_nothing_passes_from_one_episode_to_the_next(rnn_type, num_layers):
    core = make(rnn_type, num_layers)
    head = torch.randn(1, 6, 5, requires_grad=True)
    starts = torch.tensor([[False, False, False, True, False, False]])
    core.sequence(head, torch.randn(1, core.state_size), starts)[0, 4].sum().backward()
    assert head.grad[0, :3].abs().max() == 0
    assert head.grad[0, 3:5].abs().min() > 0


@pytest.mark.parametrize(("rnn_type", "num_layers"), KINDS)
def test_one_episode_is_torchs_own_sequence(rnn_type, num_layers):
    core = make(rnn_type, num_layers)
    head = torch.randn(3, 7, 5)
    expected, _ = core.rnn(head.transpose(0, 1))
    starts = torch.zeros(3, 7, dtype=torch.bool)
    packed = core.sequence(head, torch.zeros(3, core.state_size), starts)
    torch.testing.assert_close(packed, expected.transpose(0, 1))


@pytest.mark.parametrize("use_rnn", [True, False])
@pytest.mark.parametrize(("rnn_type", "num_layers"), KINDS)
def test_state_size_is_what_the_options_say(use_rnn, rnn_type, num_layers):
    options = ModelOptions(use_rnn=use_rnn, rnn_type=rnn_type, rnn_num_layers=num_layers, rnn_size=4)
    core = make_core(5, options)
    assert core.state_size == options.rnn_state_size
    output, state = core.step(torch.randn(2, 5), torch.randn(2, core.state_size))
    assert output.shape == (2, core.output_size)
    assert state.shape == (2, core.state_size)


def test_without_memory_nothing_changes():
    core = make_core(5, ModelOptions(use_rnn=False))
    block, states = torch.randn(2, 3, 5), torch.randn(2, 1)
    assert torch.equal(core.sequence(block, states, torch.ones(2, 3, dtype=torch.bool)), block)
    assert [torch.equal(a, b) for a, b in zip(core.step(block[:, 0], states), (block[:, 0], states), strict=True)]


def test_a_copy_of_a_packed_core_is_not_packed():
    core = make("gru", 2)
    core.pack()
    rows, states = torch.randn(3, 5), torch.randn(3, core.state_size)
    for twin in (copy.deepcopy(core), pickle.loads(pickle.dumps(core))):
        assert twin._packed is None
        with torch.no_grad():
            torch.testing.assert_close(twin.step(rows, states), core.step(rows, states))
