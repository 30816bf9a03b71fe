"""Owns whether bf16 pays: how long a pass takes in it, and in fp32, with this network on this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sample_profiler.model.precision import PrecisionName
from sample_profiler.ppo.trainer import Trainer
from sample_profiler.ppo.training_data import MicroBatch, Targets

__all__ = ["PrecisionTrial"]

logger = logging.getLogger(__name__)

_FIRST_DATASET = 3  # by then caches, threads and kernels are as they will be
_NUM_ROUNDS = 3
_LEAST_RATIO = 1.05  # less may be chance


class PrecisionTrial:
    """Looks once, early in a run that computes in bf16 on a processor, whether fp32 would be quicker, and says so.

    Args:
        trainer: of the network.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._num_datasets = 0

    def is_due(self) -> bool:
        """Tell whether it is to be made on the dataset that has just been trained on; ask once for each."""
        trainer = self._trainer
        if trainer.passes.precision == "fp32" or trainer.compiles or trainer.device.type != "cpu":
            return False
        self._num_datasets += 1
        return self._num_datasets == _FIRST_DATASET

    def make(self, make_batch: Callable[[], MicroBatch], targets: Targets) -> None:
        """Time both in turns, and warn if fp32 is quicker; the quickest pass of each counts.

        Args:
            make_batch: gathers the same micro-batch each time.
            targets: of its steps.
        """
        times: dict[PrecisionName, list[float]] = {"bf16": [], "fp32": []}
        for _ in range(_NUM_ROUNDS):
            for precision, seconds in times.items():
                seconds.append(self._trainer.time_pass(precision, make_batch(), targets))
        bf16_s, fp32_s = min(times["bf16"]), min(times["fp32"])
        if bf16_s > _LEAST_RATIO * fp32_s:
            logger.warning(
                "Precision bf16 takes %.2f times as long as fp32 here: %.1f ms instead of %.1f for %d steps forwards "
                "and backwards: use --precision=fp32",
                *(bf16_s / fp32_s, 1e3 * bf16_s, 1e3 * fp32_s, targets.valid.numel()),
            )
