"""Steps that a device gets at once: they compute what they would kernel by kernel."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from sample_profiler.model.kernels.graphed_steps import GraphedSteps, find_graph_maker
from tests.doubles.graph_stand_in import GraphStandIn

needs_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no device")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, needs_device])]
NUM_STEPS = 8


class Steps:
    """A step with weights and random numbers, and how often it has been computed on behalf of the host."""

    def __init__(self, device, seed=1):
        self.generator = torch.Generator(device).manual_seed(seed)
        self.weights = torch.eye(3, device=device)
        self.num_calls = 0

    def __call__(self, observations, states):
        self.num_calls += 1
        noise = torch.empty(len(states), 3, device=states.device).normal_(generator=self.generator)
        return [observations["obs"] @ self.weights + noise, states + 1]

    def graphed(self):
        device = self.generator.device
        graphs = []

        def make(function):
            graphs.append(find_graph_maker(device, self.generator) or partial(GraphStandIn, generator=self.generator))
            return graphs[-1](function)

        return GraphedSteps(self, make), graphs


def seen(step, num_rows, device):
    observations = {"obs": torch.full((num_rows, 3), float(step), device=device)}
    return observations, torch.full((num_rows, 2), float(step), device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sizes", [[5], [5, 2], [2, 7, 3]], ids=str)
def test_they_are_what_they_would_be_one_kernel_at_a_time(device, sizes):
    plain, steps = Steps(device), Steps(device)
    graphed, graphs = steps.graphed()
    with torch.inference_mode():
        for step in range(NUM_STEPS):
            for num_rows in sizes:
                taken = seen(step, num_rows, device)
                for expected, found in zip(plain(*taken), graphed(*taken), strict=True):
                    assert torch.equal(expected, found)
            if step == 5:  # weights change where they are
                plain.weights.mul_(3)
                steps.weights.mul_(3)
    assert len(graphs) == len(sizes)
    assert torch.equal(plain.generator.get_state(), steps.generator.get_state())


@pytest.mark.cuda
@needs_device
def test_the_host_computes_none_of_it_once_there_is_a_graph():
    steps = Steps("cuda")
    graphed, _ = steps.graphed()
    for step in range(20):
        graphed(*seen(step, 4, "cuda"))
    assert steps.num_calls == 4, "three before there is a graph, and one of which it is made"


def test_what_comes_in_is_not_kept():
    """It may be the memory of a simulator, which the next step overwrites."""
    graphed, _ = Steps("cpu").graphed()
    observations, states = seen(1, 2, "cpu")
    for _ in range(5):
        graphed(observations, states)
    observations["obs"].fill_(torch.nan)
    found = graphed(*seen(2, 2, "cpu"))[0]
    assert torch.isfinite(found).all()
    assert observations["obs"].isnan().all()


def test_there_is_no_graph_for_the_processor():
    assert find_graph_maker(torch.device("cpu"), torch.Generator()) is None
