"""Owns that a GPU gets all that a step of inference computes at once, as a CUDA graph, instead of kernel by kernel.

To give a GPU a small kernel takes the host longer than the kernel takes the GPU. A graph has all kernels of one step,
and the addresses that these had: so what a step takes is copied to where it was when the graph was made, and what it
returns is where it was then. Random numbers go on from step to step as they would without. See the CUDA C++ Programming
Guide, "CUDA Graphs".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = ["Graph", "GraphedSteps", "MakeGraph", "find_graph_maker"]

_STEPS_BEFORE = 3
"""Of the same shapes, before a graph is made: libraries prepare themselves in the first ones."""

Step = Callable[[Mapping[str, Tensor], Tensor], Sequence[Tensor]]
"""Takes observations by key, ``[N, ...]``, and states ``[N, H]``; returns tensors."""


class Graph(Protocol):
    """What a function gave to a device, which has not computed it.

    Attributes:
        outputs: What the function returned.
    """

    outputs: Sequence[Tensor]

    def replay(self) -> None:
        """Give it to the device."""


MakeGraph = Callable[[Callable[[], Sequence[Tensor]]], Graph]
"""Makes a graph of what a function gives to a device."""


class GraphedSteps:
    """Steps of which a graph is made for each combination of shapes that they get.

    What they compute with beside their arguments has to stay where it is in memory; nothing in them may wait for the
    device, or be decided by the host from step to step.
    """

    def __init__(self, step: Step, make_graph: MakeGraph) -> None:
        """Begin without graphs.

        Args:
            step: What a step is.
            make_graph: Of it.
        """
        self._step = step
        self._make_graph = make_graph
        self._num_steps: Counter[Any] = Counter()
        self._graphs: dict[Any, tuple[dict[str, Tensor], Tensor, Graph]] = {}

    def __call__(self, observations: Mapping[str, Tensor], states: Tensor) -> Sequence[Tensor]:
        """Return what the step returns; the next step overwrites it.

        Args:
            observations: What it takes; copied.
            states: Likewise.
        """
        kind = len(states), tuple((key, values.shape, values.dtype) for key, values in observations.items())
        if kind not in self._graphs:
            self._num_steps[kind] += 1
            if self._num_steps[kind] <= _STEPS_BEFORE:
                return self._step(observations, states)
            self._graphs[kind] = self._graph_of(observations, states)
        seen, remembered, graph = self._graphs[kind]
        for key, values in observations.items():
            seen[key].copy_(values)
        remembered.copy_(states)
        graph.replay()
        return graph.outputs

    def _graph_of(self, observations: Mapping[str, Tensor], states: Tensor) -> tuple[dict[str, Tensor], Tensor, Graph]:
        """Return where observations and states go from now on, and the graph."""
        seen, remembered = {key: torch.clone(values) for key, values in observations.items()}, torch.clone(states)
        return seen, remembered, self._make_graph(lambda: self._step(seen, remembered))


class _CudaGraph:
    """What a function gave to a GPU."""

    def __init__(self, function: Callable[[], Sequence[Tensor]], generator: torch.Generator) -> None:
        self._graph = torch.cuda.CUDAGraph()
        self._graph.register_generator_state(generator)
        # A simulator in the same process may have threads of its own, which call the driver meanwhile.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self.outputs = function()

    def replay(self) -> None:
        """Give it to the GPU."""
        self._graph.replay()


def find_graph_maker(device: torch.device, generator: torch.Generator) -> MakeGraph | None:
    """Return what makes graphs for a device; None: there are none for it.

    Args:
        device: Where it computes.
        generator: Random numbers are of this one.
    """
    if device.type != "cuda":
        return None
    return lambda function: _CudaGraph(function, generator)
