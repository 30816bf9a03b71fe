"""Owns how the learning rate changes during training.

Whoever trains tells a schedule what has happened (:meth:`LearningRateSchedule.set_progress`, ``after_minibatch``,
``after_epoch``) and reads :attr:`LearningRateSchedule.learning_rate`. Finding out a KL divergence costs a forward pass
and a wait for the device, so a schedule says which of them it wants.
"""

from __future__ import annotations

import math
from typing import Any

from sample_profiler.config import OptimizerOptions

__all__ = ["ConstantSchedule", "KlAdaptiveSchedule", "LearningRateSchedule", "LinearDecaySchedule", "make_schedule"]

_STEP_FACTOR = 1.5
_TOLERANCE_FACTOR = 2.0


class LearningRateSchedule:
    """Base of all schedules: hears everything and changes nothing.

    Attributes:
        learning_rate: To be used for the next optimizer step.
        wants_minibatch_kl: :meth:`after_minibatch` is to be called.
        wants_epoch_kl: :meth:`after_epoch` is to be called.
    """

    wants_minibatch_kl = False
    wants_epoch_kl = False

    def __init__(self, options: OptimizerOptions) -> None:
        self.learning_rate = options.learning_rate

    def set_progress(self, num_frames: int, seconds: float = 0.0) -> None:
        """Hear how far the training has come.

        Args:
            num_frames: That have been trained on since the run first began, before any resumption.
            seconds: Since it was started for the last time.
        """

    def after_minibatch(self, kl: float) -> None:
        """Hear the mean KL divergence, over steps of the latest minibatch, of the policy after its optimizer step.

        Args:
            kl: From the policies that acted; NaN where no step counts.
        """

    def after_epoch(self, kl: float) -> None:
        """Hear the same over steps of the dataset, of the policy after the epoch's last optimizer step."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a later process needs to continue: plain numbers."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""


class ConstantSchedule(LearningRateSchedule):
    """Stays at ``learning_rate``, also if that is another than before a resumption."""


class LinearDecaySchedule(LearningRateSchedule):
    """Goes down to a share of itself, and stays there.

    The rate depends on the number of frames, whatever the frameskip, batch size and number of epochs are, and a resumed
    run goes on where it was. Where it is to end after some seconds, they count instead as soon as more of them are
    over. It keeps no state: a new target or first rate applies from the resumption on.
    """

    def __init__(self, options: OptimizerOptions, train_for_env_steps: int, train_for_seconds: float) -> None:
        """Start at frame 0.

        Args:
            options: ``learning_rate`` is the first one, ``lr_decay_end`` the share of it that is left after
                ``lr_decay_steps``.
            train_for_env_steps: Frames, not agent steps, after which it is left if ``lr_decay_steps`` are not given.
            train_for_seconds: Seconds after which it is left, the same.
        """
        super().__init__(options)
        self._first_rate = options.learning_rate
        self._end = options.lr_decay_end
        follows_run = options.lr_decay_steps == -1
        self._last_frame = train_for_env_steps if follows_run else options.lr_decay_steps
        self._last_second = train_for_seconds if follows_run else math.inf

    def set_progress(self, num_frames: int, seconds: float = 0.0) -> None:
        """Set the rate for a frame and a second."""
        left = 1.0 - min(1.0, max(num_frames / self._last_frame, seconds / self._last_second))
        self.learning_rate = self._first_rate * (self._end + (1.0 - self._end) * left)


class KlAdaptiveSchedule(LearningRateSchedule):
    """Holds the KL divergence of each update near a threshold.

    The rate is divided by 1.5 where the divergence is more than twice the threshold, and multiplied where it is less
    than half of it, within bounds. The divergence is that of Schulman et al. 2017 (arXiv:1707.06347, section 4), whose
    penalty goes up and down in the same way: of the policy after optimizer steps from those that acted.
    """

    def __init__(self, options: OptimizerOptions) -> None:
        super().__init__(options)
        self.wants_minibatch_kl = options.lr_schedule == "kl_adaptive_minibatch"
        self.wants_epoch_kl = not self.wants_minibatch_kl
        self._threshold = options.lr_schedule_kl_threshold
        self._min_rate = options.lr_adaptive_min
        self._max_rate = options.lr_adaptive_max

    def after_minibatch(self, kl: float) -> None:
        """Adapt the rate if minibatches are what counts."""
        if self.wants_minibatch_kl:
            self._adapt(kl)

    def after_epoch(self, kl: float) -> None:
        """Adapt the rate if epochs are what counts."""
        if self.wants_epoch_kl:
            self._adapt(kl)

    def state_dict(self) -> dict[str, Any]:
        """Return the rate."""
        return {"learning_rate": self.learning_rate}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over the rate of an adaptive schedule; that of any other says nothing about this one."""
        rate = float(state.get("learning_rate", self.learning_rate))
        self.learning_rate = min(max(rate, self._min_rate), self._max_rate)

    def _adapt(self, kl: float) -> None:
        # A divergence that is not a number compares as neither, and leaves the rate alone.
        if kl > _TOLERANCE_FACTOR * self._threshold:
            self.learning_rate = max(self.learning_rate / _STEP_FACTOR, self._min_rate)
        elif kl < self._threshold / _TOLERANCE_FACTOR:
            self.learning_rate = min(self.learning_rate * _STEP_FACTOR, self._max_rate)


def make_schedule(
    options: OptimizerOptions, train_for_env_steps: int, train_for_seconds: float = math.inf
) -> LearningRateSchedule:
    """Make the schedule that ``lr_schedule`` asks for.

    Args:
        options: Rates and thresholds.
        train_for_env_steps: Frames at which training ends.
        train_for_seconds: Seconds since its latest start after which it ends.
    """
    if options.lr_schedule == "constant":
        return ConstantSchedule(options)
    if options.lr_schedule == "linear_decay":
        return LinearDecaySchedule(options, train_for_env_steps, train_for_seconds)
    return KlAdaptiveSchedule(options)
