"""Owns the numbers in which a network computes: float32, or bfloat16 where that loses nothing that training needs.

With bf16, encoder, core and decoder compute in bfloat16. The weights that the optimizer changes, the statistics of
normalizers, the last layers, distributions and losses stay float32: a logit or a value in bfloat16 would be off by up
to 0.4 %, which is as much as a policy changes in a training step.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Literal

import torch

from sample_profiler.model.policy_network import PolicyNetwork
from sample_profiler.vocabulary import GPU_MEMORY_MIB

__all__ = ["InferenceNetwork", "PrecisionName", "computing_in", "gpu_memory"]

PrecisionName = Literal["fp32", "bf16"]


def computing_in(precision: PrecisionName, device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Return a context in which networks compute in `precision`; that of fp32 is empty and costs next to nothing."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


class InferenceNetwork:
    """The network that draws actions: the published weights, in the precision that inference computes in.

    Args:
        model: takes the published weights; on the device of inference.
        precision: of the computation.

    Attributes:
        model: whose state dict the published weights are loaded into; `refresh` after that.
        network: to compute with, in `computing_in(precision)`.
    """

    def __init__(self, model: PolicyNetwork, precision: PrecisionName) -> None:
        self.model = model
        self.network = model
        if precision == "bf16":
            # A copy: casting the weights for each batch would cost as much as a small batch itself.
            self.network = copy.deepcopy(model)
            self.network.cast(torch.bfloat16)

    @torch.no_grad()
    def refresh(self) -> None:
        """Take over what was loaded into `model`, in the order in which it is multiplied fastest."""
        if self.network is not self.model:
            for ours, loaded in zip(self.network.state_dict().values(), self.model.state_dict().values(), strict=True):
                ours.copy_(loaded)
        self.network.pack()


def gpu_memory(device: torch.device) -> dict[str, float]:
    """Return the MiB that PyTorch holds on a GPU in this process, what it keeps for later included; elsewhere nothing.

    What the driver takes for each process beside them is not told without asking it, which takes long.
    """
    if device.type != "cuda":
        return {}
    return {GPU_MEMORY_MIB: torch.cuda.memory_reserved(device) / 2**20}
