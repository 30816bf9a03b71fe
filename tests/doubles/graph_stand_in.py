"""What stands in for a CUDA graph where there is no GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class GraphStandIn:
    """Computes again what a function computed, from the same memory into the same memory, as a graph does.

    Args:
        function: what a graph would be made of.
        generator: whose random numbers a graph would not draw while it is made.
    """

    def __init__(self, function: Callable[[], Sequence[Tensor]], generator: torch.Generator) -> None:
        self._function = function
        before = generator.get_state()
        self.outputs = [output.clone() for output in function()]
        generator.set_state(before)
        for output in self.outputs:
            output.zero_()
        self.num_replays = 0

    def replay(self) -> None:
        self.num_replays += 1
        for output, values in zip(self.outputs, self._function(), strict=True):
            output.copy_(values)
