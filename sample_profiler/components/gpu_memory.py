"""Owns how much of a GPU's memory a process holds, as a gauge of who uses the GPU."""

from __future__ import annotations

import torch

from sample_profiler.vocabulary import GPU_MEMORY_MIB

__all__ = ["gpu_memory"]


def gpu_memory(device: torch.device) -> dict[str, float]:
    """Return the MiB that PyTorch holds on a GPU in this process, what it keeps for later included; elsewhere nothing.

    What the driver takes for each process beside them is not told without asking it, which takes long.
    """
    if device.type != "cuda":
        return {}
    return {GPU_MEMORY_MIB: torch.cuda.memory_reserved(device) / 2**20}
