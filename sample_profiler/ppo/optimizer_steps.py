"""Owns how many optimizer steps there were, and what becomes of those whose numbers are not finite."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import torch

from sample_profiler.errors import TrainingError
from sample_profiler.profiling import Timing
from sample_profiler.repeated_warnings import is_logged
from sample_profiler.vocabulary import FOR_DEVICE, WAIT

__all__ = ["OptimizerSteps"]

logger = logging.getLogger(__name__)

_MOST_REJECTED = 10


class OptimizerSteps:
    """Counts the optimizer steps of a network whose gradients were finite, and leaves the others out.

    Args:
        device: where the network runs. A processor is asked at once what came of a step; another device for several
            steps together, since each look waits for it. It changes nothing itself where gradients are not finite.
        timing: where waits for the device are recorded.
        skips_bad_numbers: whether steps whose numbers are not finite are left out; else they are errors, as the tenth
            of them in a row is in any case.

    Attributes:
        num: steps so far; the version of the weights.
    """

    def __init__(self, device: torch.device, timing: Timing, *, skips_bad_numbers: bool) -> None:
        self.num = 0
        self._timing = timing
        self._nothing = torch.zeros((), device=device)
        self._looks_at_once = device.type == "cpu"
        self._skips_bad_numbers = skips_bad_numbers
        self._num_loaded = -1  # of a checkpoint
        self._num_rejected = 0  # in a row
        self._num_left_out = 0  # in all
        self._is_suspect = False
        self._outcomes: list[torch.Tensor] = []  # whether gradients were finite, since somebody last looked

    @property
    def num_with_open(self) -> int:
        """Steps so far, those included of which nobody has looked yet what came of them."""
        return self.num + len(self._outcomes)

    @property
    def is_suspect(self) -> bool:
        """Whether the latest numbers were left out because they are not finite, and weights may be what makes them."""
        return self._is_suspect

    def load(self, num: int) -> None:
        """Go on behind the steps of a checkpoint."""
        self.num = self._num_loaded = num

    def begin(self, is_finite: torch.Tensor) -> tuple[bool, torch.Tensor | None]:
        """Note that a step is about to be taken.

        Args:
            is_finite: whether its gradients are, on the device.

        Returns:
            Whether to take it, and what the device has to look at itself before it changes anything: nothing if that is
            known.

        Raises:
            TrainingError: as `reject`.
        """
        self._outcomes.append(is_finite)
        if not self._looks_at_once:
            return True, is_finite
        self.settle()
        return not self._num_rejected, None

    def settle(self, value: torch.Tensor | None = None) -> float:
        """Look which of the latest steps had finite gradients, and count these.

        Args:
            value: a number on the device that is wanted, too, so that it is waited for once.

        Returns:
            That number; 0: none was given.

        Raises:
            TrainingError: as `reject`.
        """
        if not self._outcomes and value is None:
            return 0.0
        asked = [*self._outcomes, self._nothing if value is None else value]
        self._outcomes = []
        waits: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if not self._looks_at_once:
            waits = self._timing.add_time(WAIT + FOR_DEVICE)
        with waits:
            *outcomes, number = torch.stack([each.double() for each in asked]).tolist()
        for is_finite in outcomes:
            if is_finite:
                self._num_rejected, self._is_suspect = 0, False
                self.num += 1
            else:
                self.reject(f"the gradients of optimizer step {self.num + 1} are not finite")
        return float(number)

    def reject(self, reason: str, *, may_be_weights: bool = True) -> None:
        """Leave something out of training because its numbers are not finite.

        Args:
            reason: what is not.
            may_be_weights: whether the weights may be what makes it so; else they are as sound as before.

        Raises:
            TrainingError: that is not wanted, or happens again and again.
        """
        self._num_rejected += 1
        self._is_suspect |= may_be_weights
        if self._skips_bad_numbers and self._num_rejected < _MOST_REJECTED:
            self._num_left_out += 1
            if is_logged(self._num_left_out):
                logger.warning("%s: they are left out of training (number %d)", reason, self._num_left_out)
            return
        times = f" for the {self._num_rejected}th time in a row" if self._num_rejected > 1 else ""
        raise TrainingError(
            f"{reason}{times}: an observation, a reward or a weight is NaN, infinite or huge. "
            f"{self._describe_checkpoint()}; look for what the environment returns, or lower --learning_rate"
        )

    def _describe_checkpoint(self) -> str:
        if self.num != self._num_loaded or not self._is_suspect:
            return "The last checkpoint is sound"
        return (
            f"No step was possible since the checkpoint of optimizer step {self.num} was loaded: it may be that "
            "one's weights, then remove its file to go on from the checkpoint before"
        )
