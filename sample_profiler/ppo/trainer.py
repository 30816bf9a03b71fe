"""Owns the optimization of one actor-critic network with PPO's losses (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from sample_profiler.config import LossOptions
from sample_profiler.model import PolicyNetwork
from sample_profiler.model.precision import PrecisionName
from sample_profiler.ppo.forward_passes import ForwardPass, ForwardPasses
from sample_profiler.ppo.named_moments import indexed_state
from sample_profiler.ppo.objective import Objective, Sums
from sample_profiler.ppo.optimizer_steps import OptimizerSteps
from sample_profiler.ppo.optimizers import FusedAdam
from sample_profiler.ppo.ranks import Ranks
from sample_profiler.ppo.schedules import LearningRateSchedule
from sample_profiler.ppo.training_data import MicroBatch, Targets
from sample_profiler.profiling import Timing
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.vocabulary import CALCULATE_LOSSES, GRAD_NORM

__all__ = ["Trainer", "TrainerOptions"]


@dataclass(frozen=True)
class TrainerOptions:
    """How a network is trained.

    Attributes:
        loss: its part of the configuration.
        max_grad_norm: of all gradients together; 0: no limit.
        precision: in which encoder, core and decoder compute.
        compiles: whether torch.compile makes kernels for the encoder.
        skips_bad_numbers: whether steps whose gradients are not finite are left out; else they are errors, as the tenth
            of them in a row is in any case.
    """

    loss: LossOptions
    max_grad_norm: float
    precision: PrecisionName = "fp32"
    compiles: bool = False
    skips_bad_numbers: bool = False


class Trainer:
    """Changes a network so that it does more of what turned out well.

    A minibatch goes through the network in micro-batches whose gradients add up to the minibatch's; within one, the
    encoder sees smaller pieces still, whose activations stay in the processor's cache, while the recurrent core, whose
    weights would be read anew for each piece, sees all of them at once.

    Args:
        model: the network; lives on `device`.
        optimizer: of its parameters.
        schedule: of the learning rate.
        options: how it is trained.
        device: where the network runs.
        timing: where the blocks of a training step are recorded.
        ranks: who trains the same network on other steps.

    Attributes:
        timing: where the blocks of a training step are recorded.
        ranks: who trains the same network on other steps.
        passes: forward passes of the network.
        steps: optimizer steps so far, and what was left out because its numbers are not finite.
        keeps_statistics: whether minibatches are to be in the statistics: a tenth of the time of a small one.
        compiles: whether torch.compile makes kernels for the encoder.
    """

    def __init__(
        self,
        model: PolicyNetwork,
        optimizer: FusedAdam,
        schedule: LearningRateSchedule,
        options: TrainerOptions,
        device: torch.device,
        timing: Timing,
        ranks: Ranks | None = None,
    ) -> None:
        self.model = model
        self.ranks = ranks or Ranks()
        self.device = device
        self.timing = timing
        self.keeps_statistics = True
        self.passes = ForwardPasses(model, options.precision, device, timing, compiles=options.compiles)
        self.steps = OptimizerSteps(device, timing, skips_bad_numbers=options.skips_bad_numbers)
        self._optimizer = optimizer
        self._schedule = schedule
        self._objective = Objective(options.loss, model.action_distribution, timing)
        self._max_grad_norm = options.max_grad_norm
        self.compiles = options.compiles
        self._parameters = list(model.parameters())
        self._last = Sums()
        self._last_num_valid = 1.0
        self._last_grad_norm = torch.zeros((), device=device)
        self._num_steps_heard = 0  # of which the schedule has heard what came of them
        self._latest_kl: float | None = None  # that it has heard of

    @property
    def num_steps(self) -> int:
        """Optimizer steps so far; the version of the weights."""
        return self.steps.num

    @profile_range("Trainer.train_minibatch")
    def train_minibatch(self, micro_batches: Iterable[tuple[MicroBatch, Targets]], num_valid: float) -> None:
        """Take one optimizer step.

        Args:
            micro_batches: the minibatch in pieces, with advantages that are normalized over all of it.
            num_valid: steps of the whole minibatch, of all ranks, that count; the losses are means over them.
        """
        timing = self.timing
        with timing.add_time("minibatch_init"):
            self._optimizer.zero_grad()
            sums = Sums()
        for micro_batch, targets in micro_batches:
            with timing.add_time(CALCULATE_LOSSES, device=True):
                passed = self.passes.forward(micro_batch)
                loss = self._calculate_loss(passed, micro_batch, targets, sums) / num_valid
            with timing.add_time("update"), timing.add_time("backward", device=True):
                self._backward(passed, loss)
        with timing.add_time("update"):
            if self.ranks.size == 1:  # others may have gradients where this one has none
                self._optimizer.drop_untouched()
            self._add_up_gradients(sums)
            with timing.add_time("clip"):
                self._last_grad_norm = self._optimizer.clip(self._max_grad_norm or math.inf)
            is_taken, is_finite = self.steps.begin(torch.isfinite(self._last_grad_norm))
            if not is_taken:
                return
            with timing.add_time("optimizer_step", device=True):
                self._step_optimizer(is_finite)
        if self.keeps_statistics:
            with timing.add_time("losses_postprocess"):
                self._last, self._last_num_valid = sums, num_valid

    @profile_range("Trainer.backward")
    def _backward(self, passed: ForwardPass, loss: torch.Tensor) -> None:
        passed.backward(loss)

    def _add_up_gradients(self, sums: Sums) -> None:
        """Let gradients, and statistics, be those of the minibatches of all ranks: in one message."""
        if self.ranks.size > 1:
            for parameter in self._parameters:
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        self.ranks.add_up([*gradients, *sums.values.values()])

    @profile_range("Trainer.step_optimizer")
    def _step_optimizer(self, is_finite: torch.Tensor | None) -> None:
        self._optimizer.step(is_finite)

    @profile_range("Trainer.calculate_loss")
    def _calculate_loss(self, passed: ForwardPass, batch: MicroBatch, targets: Targets, sums: Sums) -> torch.Tensor:
        """Return the sum of the losses over the valid steps of a micro-batch, and add its parts to `sums`.

        Args:
            passed: what the network made of them.
            batch: the steps.
            targets: of them.
            sums: where statistics go.
        """
        asked = sums if self.keeps_statistics else None
        return self._objective.add_up(passed.distribution, passed.values, batch.steps.flat(), targets.flat(), asked)

    def time_pass(self, precision: PrecisionName, batch: MicroBatch, targets: Targets) -> float:
        """Return the seconds that a micro-batch takes forwards and backwards; nothing is learned from it.

        Args:
            precision: in which encoder, core and decoder compute.
            batch: the micro-batch.
            targets: of its steps.
        """
        passes = self.passes
        usual, passes.precision = passes.precision, precision
        begin_s = time.perf_counter()
        try:
            with passes.as_it_acts():
                passed = passes.forward(batch)
                self._backward(passed, self._calculate_loss(passed, batch, targets, Sums()))
        finally:
            passes.precision = usual
            self._optimizer.zero_grad()
        return time.perf_counter() - begin_s

    def end_minibatch(self, sample: Iterable[tuple[MicroBatch, torch.Tensor]]) -> None:
        """Let the schedule hear how far the policy has moved, if minibatches are what it wants to hear of.

        Args:
            sample: steps to measure that by, with 1 for those that count, `[C, R]`; gone through only if it is wanted.
        """
        if self._schedule.wants_minibatch_kl:
            self._tell_kl(self._schedule.after_minibatch, sample)

    def end_epoch(self, sample: Iterable[tuple[MicroBatch, torch.Tensor]]) -> None:
        """Do the same if epochs are what it wants to hear of."""
        if self._schedule.wants_epoch_kl:
            self._tell_kl(self._schedule.after_epoch, sample)

    def _tell_kl(self, hear: Callable[[float], None], sample: Iterable[tuple[MicroBatch, torch.Tensor]]) -> None:
        if self.steps.num_with_open == self._num_steps_heard:
            return
        with self.timing.add_time("measure_kl", device=True):
            kl = self.steps.settle(self._measure_kl(sample))
        if self.num_steps == self._num_steps_heard:  # nothing was learned from: the rate is not to blame
            return
        self._num_steps_heard, self._latest_kl = self.num_steps, kl
        hear(kl)
        self._apply_learning_rate()

    @profile_range("Trainer.measure_kl")
    def _measure_kl(self, sample: Iterable[tuple[MicroBatch, torch.Tensor]]) -> torch.Tensor:
        """Return the mean KL divergence of the policy as it is now from those that acted; NaN: no step counts."""
        sums = self.passes.add_up_divergence(sample)
        self.ranks.add_up([sums])
        return sums[0] / sums[1]

    def set_progress(self, num_frames: int, seconds: float = 0.0) -> None:
        """Tell the schedule how many frames have been trained on since the run first began, and how long this time."""
        self._schedule.set_progress(num_frames, seconds)
        self._apply_learning_rate()

    def statistics(self) -> dict[str, float]:
        """Return means over the last minibatch that is in the statistics, and learning rate and norm of the gradient.

        The norm is that of the latest step, before clipping. Where the rate follows the KL divergence, also the latest
        that it has followed, of the policy after optimizer steps. A network of the user's own may add figures.

        Raises:
            ModelError: what it adds are none.
        """
        figures = {**self._last.values, "": self._last_grad_norm}
        *sums, grad_norm = torch.stack([figure.double() for figure in figures.values()]).tolist()
        means = {f"train/{name}": value for name, value in self.model.summaries().items()}
        means |= {f"train/{name}": value / self._last_num_valid for name, value in zip(figures, sums, strict=False)}
        if self._latest_kl is not None:
            means["train/kl_divergence_after_update"] = self._latest_kl
        return means | {
            f"train/{GRAD_NORM}": grad_norm,
            "train/learning_rate": self._schedule.learning_rate,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a later process needs to continue: tensors and plain data alone."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "schedule": self._schedule.state_dict(),
            "optimizer_steps": self.num_steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken.

        Raises:
            AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError: it does not fit.
        """
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(indexed_state(state["optimizer"], self.model))
        self._schedule.load_state_dict(state["schedule"])
        self._num_steps_heard = int(state["optimizer_steps"])
        self.steps.load(self._num_steps_heard)
        self._apply_learning_rate()

    def _apply_learning_rate(self) -> None:
        self._optimizer.learning_rate = self._schedule.learning_rate
