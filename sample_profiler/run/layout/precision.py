"""Owns in which numbers the networks of a run compute, where that depends on the machine."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from sample_profiler.profiling.process.machine import has_bf16_instructions, processor_name

if TYPE_CHECKING:
    from sample_profiler.model.precision import PrecisionName

__all__ = ["choose_precision"]

logger = logging.getLogger(__name__)

_FIRST_WITH_BF16 = (8, 0)  # compute capability, that of Ampere


def choose_precision(asked: Literal["auto", "fp32", "bf16"], device: str) -> PrecisionName:
    """Return what `--precision` comes to here, and warn of one that there are no instructions for.

    Args:
        asked: the flag.
        device: "cpu" or "cuda".
    """
    if asked == "fp32":
        return "fp32"
    lacking = _find_lack(device)
    if asked == "auto":
        chosen: PrecisionName = "fp32" if lacking else "bf16"
        logger.info("Precision %s: %s", chosen, lacking or "there are instructions for bf16")
        return chosen
    if lacking:
        logger.warning(
            "--precision=bf16: %s, so that it is slower than fp32: use --precision=fp32, or auto, which chooses",
            lacking,
        )
    return "bf16"


def _find_lack(device: str) -> str:
    """Say what has no instructions for bfloat16; empty: there are some."""
    if device == "cpu":
        return "" if has_bf16_instructions() else f"the processor ({processor_name()}) has no instructions for bf16"
    import torch  # it has been asked for the GPU already

    has_them = torch.cuda.get_device_capability() >= _FIRST_WITH_BF16
    return "" if has_them else f"the GPU ({torch.cuda.get_device_name()}) has no instructions for bf16"
