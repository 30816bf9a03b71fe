"""Owns the optimization of one actor-critic network with PPO's losses (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from sample_profiler.config import LossOptions
from sample_profiler.errors import TrainingError
from sample_profiler.model import ActionDistribution, PolicyNetwork
from sample_profiler.model.precision import PrecisionName, computing_in
from sample_profiler.ppo import losses
from sample_profiler.ppo.named_moments import indexed_state
from sample_profiler.ppo.optimizers import FusedAdam
from sample_profiler.ppo.ranks import Ranks
from sample_profiler.ppo.schedules import LearningRateSchedule
from sample_profiler.ppo.training_data import MicroBatch, Targets
from sample_profiler.profiling import Timing
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.repeated_warnings import is_logged
from sample_profiler.vocabulary import CALCULATE_LOSSES, FOR_DEVICE, FORWARD_HEAD, GRAD_NORM, WAIT

__all__ = ["Trainer", "TrainerOptions"]

logger = logging.getLogger(__name__)

_MOST_REJECTED = 10


@dataclass
class _Sums:
    """Sums over the valid steps of a minibatch, on the device; read only when somebody asks for statistics."""

    values: dict[str, torch.Tensor] = field(default_factory=dict)

    def add(self, **terms: torch.Tensor) -> None:
        for name, term in terms.items():
            term = term.detach()
            self.values[name] = self.values[name] + term if name in self.values else term


class _GoOn(torch.autograd.Function):
    """Goes on backwards from tensors whose gradients are known.

    `torch.autograd.backward` does that, too, but imports a library of symbolic algebra for gradients that it is given:
    half a second of processor time at the start of a run.
    """

    @staticmethod
    def forward(ctx: Any, gradients: tuple[torch.Tensor, ...], *heads: torch.Tensor) -> torch.Tensor:
        ctx.gradients = gradients
        return heads[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return None, *ctx.gradients


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
        num_steps: optimizer steps so far; the version of the weights.
        timing: where the blocks of a training step are recorded.
        ranks: who trains the same network on other steps.
        keeps_statistics: whether minibatches are to be in the statistics: a tenth of the time of a small one.
        precision: in which encoder, core and decoder compute.
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
        self.num_steps = 0
        self.timing = timing
        self.keeps_statistics = True
        self._optimizer = optimizer
        self._schedule = schedule
        self._loss = options.loss
        self._max_grad_norm = options.max_grad_norm
        self.precision: PrecisionName = options.precision
        self.compiles = options.compiles
        self._forward_head = torch.compile(model.forward_head) if options.compiles else model.forward_head
        self._parameters = list(model.parameters())
        self._last = _Sums()
        self._last_num_valid = 1.0
        self._last_grad_norm = torch.zeros((), device=device)
        self._num_steps_heard = 0  # of which the schedule has heard what came of them
        self._latest_kl: float | None = None  # that it has heard of
        self._skips_bad_numbers = options.skips_bad_numbers
        self._num_steps_loaded = -1  # of a checkpoint
        self._num_rejected = 0  # in a row
        self._is_suspect = False
        self._num_left_out = 0  # in all
        # Whether the gradients of steps that were taken since somebody last looked were finite. A device is asked for
        # several at once, since each look waits for it; steps whose gradients are not finite change nothing there.
        self._outcomes: list[torch.Tensor] = []
        self._looks_at_once = device.type == "cpu"

    @property
    def is_suspect(self) -> bool:
        """Whether the latest numbers were left out because they are not finite, and weights may be what makes them."""
        return self._is_suspect

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
            sums = _Sums()
        for micro_batch, targets in micro_batches:
            with timing.add_time(CALCULATE_LOSSES, device=True):
                with timing.add_time(FORWARD_HEAD):
                    heads = self._encode(micro_batch)
                    joined = torch.cat([head.detach() for head in heads]).requires_grad_()
                loss = self._calculate_loss(joined, micro_batch, targets, sums) / num_valid
            with timing.add_time("update"), timing.add_time("backward", device=True):
                self._backward(loss, heads, joined)
        with timing.add_time("update"):
            self._add_up_gradients(sums)
            with timing.add_time("clip"):
                limit = self._max_grad_norm or float("inf")
                self._last_grad_norm = nn.utils.clip_grad_norm_(self._parameters, limit)
            self._outcomes.append(torch.isfinite(self._last_grad_norm))
            if self._looks_at_once:
                self.settle()
                if self._num_rejected:
                    return
            with timing.add_time("optimizer_step", device=True):
                self._step_optimizer(None if self._looks_at_once else self._outcomes[-1])
        if self.keeps_statistics:
            with timing.add_time("losses_postprocess"):
                self._last, self._last_num_valid = sums, num_valid

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
        asked = [*self._outcomes, torch.zeros_like(self._last_grad_norm) if value is None else value]
        self._outcomes = []
        waits: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if not self._looks_at_once:
            waits = self.timing.add_time(WAIT + FOR_DEVICE)
        with waits:
            *outcomes, number = torch.stack([each.double() for each in asked]).tolist()
        for is_finite in outcomes:
            if is_finite:
                self._num_rejected, self._is_suspect = 0, False
                self.num_steps += 1
            else:
                self.reject(f"the gradients of optimizer step {self.num_steps + 1} are not finite")
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
        if self.num_steps != self._num_steps_loaded or not self._is_suspect:
            return "The last checkpoint is sound"
        return (
            f"No step was possible since the checkpoint of optimizer step {self.num_steps} was loaded: it may be that "
            "one's weights, then remove its file to go on from the checkpoint before"
        )

    @profile_range("Trainer.backward")
    def _backward(self, loss: torch.Tensor, heads: list[torch.Tensor], joined: torch.Tensor) -> None:
        """Add up gradients: through the core, and from there through each piece of the encoder's work."""
        loss.backward()  # type: ignore[no-untyped-call]
        assert joined.grad is not None
        if not heads[0].requires_grad:  # an encoder that has nothing to learn
            return
        gradients = torch.split(joined.grad, [len(head) for head in heads])
        _GoOn.apply(gradients, *heads).backward()  # type: ignore[no-untyped-call]

    def _add_up_gradients(self, sums: _Sums) -> None:
        """Let gradients, and statistics, be those of the minibatches of all ranks: in one message."""
        if self.ranks.size > 1:  # others may have gradients where this one has none
            for parameter in self._parameters:
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        self.ranks.add_up([*gradients, *sums.values.values()])

    @profile_range("Trainer.step_optimizer")
    def _step_optimizer(self, is_finite: torch.Tensor | None) -> None:
        self._optimizer.step(is_finite)

    @profile_range("Trainer.encode")
    def _encode(self, batch: MicroBatch) -> list[torch.Tensor]:
        """Encode the observations of a micro-batch piece by piece, `[n, E]` each."""
        with computing_in(self.precision, self.device):
            return [self._forward_head(self.model.normalize(observations)) for observations in batch.observations]

    @profile_range("Trainer.calculate_loss")
    def _calculate_loss(self, head: torch.Tensor, batch: MicroBatch, targets: Targets, sums: _Sums) -> torch.Tensor:
        """Return the sum of the losses over the valid steps of a micro-batch, and add its parts to `sums`.

        Args:
            head: `[N, E]`, its encoded observations.
            batch: the rest of it.
            targets: of its steps.
            sums: where statistics go.
        """
        options, timing = self._loss, self.timing
        steps, targets = batch.steps.flat(), targets.flat()
        distribution, values = self._forward(head, batch)
        with timing.add_time("tail"):
            log_probabilities = distribution.log_prob(steps.actions)
            ratio = losses.probability_ratio(log_probabilities, steps.log_probabilities)
        with timing.add_time("losses"):
            valid = targets.valid
            policy = losses.policy_loss(ratio, targets.advantages, valid, options.ppo_clip_ratio)
            value = losses.value_loss(values, steps.values, targets.returns, valid, options.ppo_clip_value)
            total = policy + options.value_loss_coeff * value
            # What nobody learns from is computed only where somebody wants to know it.
            if (explores := options.exploration_loss_coeff > 0) or self.keeps_statistics:
                with torch.set_grad_enabled(explores):
                    exploration = losses.exploration_loss(distribution, valid, options.exploration_loss)
                total = total + options.exploration_loss_coeff * exploration if explores else total
        if (learns_kl := options.kl_loss_coeff > 0) or self.keeps_statistics:
            with timing.add_time("kl_divergence"), torch.set_grad_enabled(learns_kl):
                kl = losses.kl_loss(self.model.action_distribution(steps.action_parameters), distribution, valid)
                total = total + options.kl_loss_coeff * kl if learns_kl else total
        if self.keeps_statistics:
            with torch.no_grad():
                sums.add(policy_loss=policy, value_loss=value, exploration_loss=exploration, kl_divergence=kl)
                sums.add(value=(values * valid).sum(), ratio_deviation=((ratio - 1).abs() * valid).sum())
        return total

    def _forward(self, head: torch.Tensor, batch: MicroBatch) -> tuple[ActionDistribution, torch.Tensor]:
        timing = self.timing
        with computing_in(self.precision, self.device):
            with timing.add_time("bptt"), timing.add_time("bptt_forward_core"):
                starts_episode = batch.steps.starts_episode
                sequences = head.view(*starts_episode.shape, -1)
                core = self.model.forward_core_sequence(sequences, batch.states, starts_episode)
            with timing.add_time("tail"):
                parameters, values = self.model.forward_tail(core.flatten(0, 1))
                return self.model.action_distribution(parameters), values

    @torch.no_grad()
    def evaluate(self, batch: MicroBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the network as it is now makes of recorded steps: probability ratios and values, `[N]` each.

        The ratios are as they are, not within the bounds that the loss keeps them in.
        """
        steps = batch.steps.flat()
        distribution, values = self._forward(torch.cat(self._encode(batch)), batch)
        return (distribution.log_prob(steps.actions) - steps.log_probabilities).exp(), values

    @torch.no_grad()
    def values(self, observations: dict[str, torch.Tensor], states: torch.Tensor) -> torch.Tensor:
        """Return the values of N observations, entered with recurrent states `[N, H]`, `[N]`."""
        with computing_in(self.precision, self.device):
            core, _ = self.model.forward_core(self.model.forward_head(self.model.normalize(observations)), states)
            return self.model.forward_tail(core)[1]

    @torch.no_grad()
    def makes_usable_numbers(self, observations: dict[str, torch.Tensor], states: torch.Tensor) -> bool:
        """Tell whether what the network as it is now makes of N observations can be trained on.

        Args:
            observations: by key, `[N, ...]`.
            states: `[N, H]`, recurrent states with which they are entered.
        """
        with self._as_it_acts(), computing_in(self.precision, self.device):
            parameters, values, _ = self.model(self.model.normalize(observations), states)
        # The loss has squares of values.
        return bool(torch.isfinite(parameters).all() and torch.isfinite(values.square()).all())

    def time_pass(self, precision: PrecisionName, batch: MicroBatch, targets: Targets) -> float:
        """Return the seconds that a micro-batch takes forwards and backwards; nothing is learned from it.

        Args:
            precision: in which encoder, core and decoder compute.
            batch: the micro-batch.
            targets: of its steps.
        """
        usual, self.precision = self.precision, precision
        begin_s = time.perf_counter()
        try:
            with self._as_it_acts():
                heads = self._encode(batch)
                joined = torch.cat([head.detach() for head in heads]).requires_grad_()
                self._backward(self._calculate_loss(joined, batch, targets, _Sums()), heads, joined)
        finally:
            self.precision = usual
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
        if self.num_steps + len(self._outcomes) == self._num_steps_heard:
            return
        with self.timing.add_time("measure_kl", device=True):
            kl = self.settle(self._measure_kl(sample))
        if self.num_steps == self._num_steps_heard:  # nothing was learned from: the rate is not to blame
            return
        self._num_steps_heard, self._latest_kl = self.num_steps, kl
        hear(kl)
        self._apply_learning_rate()

    @torch.no_grad()
    @profile_range("Trainer.measure_kl")
    def _measure_kl(self, sample: Iterable[tuple[MicroBatch, torch.Tensor]]) -> torch.Tensor:
        """Return the mean KL divergence of the policy as it is now from those that acted; NaN: no step counts.

        What a forward pass sees before its optimizer step is no measure of that: where each dataset is trained on once,
        it is the policy that acted.
        """
        sums = torch.zeros(2, device=self.device)  # of the divergence, and of steps that count
        with self._as_it_acts():
            for batch, valid in sample:
                with computing_in(self.precision, self.device):
                    heads = [self.model.forward_head(self.model.normalize(each)) for each in batch.observations]
                now, _ = self._forward(torch.cat(heads), batch)
                then = self.model.action_distribution(batch.steps.flat().action_parameters)
                sums[0] += losses.kl_loss(then, now, valid.flatten())
                sums[1] += valid.sum()
        self.ranks.add_up([sums])
        return sums[0] / sums[1]

    @torch.no_grad()
    @profile_range("Trainer.measure_move")
    def measure_move(self, sample: Iterable[MicroBatch], clip_ratio: float) -> tuple[float, float]:
        """Return how far the policy is now from those that acted, and how often the loss is clipped for that.

        Args:
            sample: steps to measure that by.
            clip_ratio: ``e`` in the bounds 1 / (1 + e) and 1 + e of the ratio of probabilities.

        Returns:
            The mean KL divergence, and the share of steps whose ratio is beyond the bounds.
        """
        divergences, ratios = [], []
        with self._as_it_acts():
            for batch in sample:
                with computing_in(self.precision, self.device):
                    heads = [self.model.forward_head(self.model.normalize(each)) for each in batch.observations]
                now, _ = self._forward(torch.cat(heads), batch)
                steps = batch.steps.flat()
                divergences.append(now.kl(self.model.action_distribution(steps.action_parameters)))
                ratios.append(now.log_prob(steps.actions) - steps.log_probabilities)
        is_beyond = torch.cat(ratios).abs() > math.log1p(clip_ratio)
        return float(torch.cat(divergences).mean()), float(is_beyond.float().mean())

    @contextlib.contextmanager
    def _as_it_acts(self) -> Iterator[None]:
        """Look at the network without changing it: no dropout, which draws from generators."""
        was_training = self.model.training
        self.model.eval()
        try:
            yield
        finally:
            self.model.train(was_training)

    def set_progress(self, num_frames: int, seconds: float = 0.0) -> None:
        """Tell the schedule how many frames have been trained on since the run first began, and how long this time."""
        self._schedule.set_progress(num_frames, seconds)
        self._apply_learning_rate()

    def statistics(self) -> dict[str, float]:
        """Return means over the last minibatch that is in the statistics, and learning rate and norm of the gradient.

        The norm is that of the latest step, before clipping. Where the rate follows the KL divergence, also the latest
        that it has followed, of the policy after optimizer steps.
        """
        figures = {**self._last.values, "": self._last_grad_norm}
        *sums, grad_norm = torch.stack([figure.double() for figure in figures.values()]).tolist()
        means = {f"train/{name}": value / self._last_num_valid for name, value in zip(figures, sums, strict=False)}
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
        self.num_steps = self._num_steps_loaded = self._num_steps_heard = int(state["optimizer_steps"])
        self._apply_learning_rate()

    def _apply_learning_rate(self) -> None:
        self._optimizer.learning_rate = self._schedule.learning_rate
