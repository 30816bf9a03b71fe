"""Owns forward passes of a network through recorded steps: the one that is learned from, and those that only tell."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from sample_profiler.model import ActionDistribution, PolicyNetwork
from sample_profiler.model.precision import PrecisionName, computing_in
from sample_profiler.ppo import losses
from sample_profiler.ppo.pixels_anew import PixelsAnew
from sample_profiler.ppo.training_data import MicroBatch
from sample_profiler.profiling import Timing
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.vocabulary import FORWARD_HEAD

__all__ = ["ForwardPass", "ForwardPasses"]


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
class ForwardPass:
    """What a network made of N steps, and the way back.

    Attributes:
        distribution: of their actions.
        values: `[N]`.
        heads: of the encoder, piece by piece; none where the network went all the way at once.
        joined: `[N, E]`, the same, from which the rest of the network went on.
    """

    distribution: ActionDistribution
    values: torch.Tensor
    heads: Sequence[torch.Tensor] = ()
    joined: torch.Tensor | None = None

    def backward(self, loss: torch.Tensor) -> None:
        """Add up gradients: through the core, and from there through each piece of the encoder's work.

        Args:
            loss: `()`, that follows from distribution and values.
        """
        loss.backward()  # type: ignore[no-untyped-call]
        if self.joined is None or not self.heads[0].requires_grad:  # an encoder that has nothing to learn
            return
        assert self.joined.grad is not None
        gradients = torch.split(self.joined.grad, [len(head) for head in self.heads])
        _GoOn.apply(gradients, *self.heads).backward()  # type: ignore[no-untyped-call]


class ForwardPasses:
    """Shows a network observations.

    Args:
        model: the network; lives on `device`.
        precision: in which encoder, core and decoder compute.
        compiles: whether torch.compile makes kernels for the encoder.
        device: where the network runs.
        timing: where the blocks of a pass are recorded.

    Attributes:
        precision: in which encoder, core and decoder compute.
    """

    def __init__(
        self, model: PolicyNetwork, precision: PrecisionName, device: torch.device, timing: Timing, *, compiles: bool
    ) -> None:
        self.precision: PrecisionName = precision
        self._model = model
        self._device = device
        self._timing = timing
        self._is_compiled = compiles
        self._forward_head = torch.compile(model.forward_head) if compiles else model.forward_head
        # What is compiled decides by itself what it keeps.
        self._pixels = None if compiles else PixelsAnew(model)

    def prepare(self, most_fragments: int) -> None:
        """Get ready for sequences of which up to so many are pieces of different episodes."""
        with computing_in(self.precision, self._device):
            self._model.prepare_sequences(most_fragments)

    def forward(self, batch: MicroBatch) -> ForwardPass:
        """Go through the network with a micro-batch to learn from."""
        with self._timing.add_time(FORWARD_HEAD):
            pieces = iter(batch.observations)
            first = next(pieces)
            if (passed := self._forward_at_once(first, batch)) is not None:
                return passed
            heads = self.encode(replace(batch, observations=itertools.chain([first], pieces)))
            joined = torch.cat([head.detach() for head in heads]).requires_grad_()
        return ForwardPass(*self.behind_encoder(joined, batch), heads, joined)

    @profile_range("Trainer.encode")
    def _forward_at_once(self, observations: Mapping[str, torch.Tensor], batch: MicroBatch) -> ForwardPass | None:
        """Go all the way with a micro-batch that is one piece, if the network is so small that it does that."""
        if self._is_compiled or self.precision != "fp32":
            return None
        if len(next(iter(observations.values()))) < batch.steps.starts_episode.numel():
            return None
        if (passed := self._model.forward_at_once(observations)) is None:
            return None
        parameters, values = passed
        return ForwardPass(self._model.action_distribution(parameters), values)

    @profile_range("Trainer.encode")
    def encode(self, batch: MicroBatch) -> list[torch.Tensor]:
        """Encode the observations of a micro-batch piece by piece, `[n, E]` each."""
        with computing_in(self.precision, self._device):
            return [self._encode_piece(observations) for observations in batch.observations]

    def _encode_piece(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        if self._pixels is None:
            return self._forward_head(self._model.normalize(observations))
        normalized = self._pixels.normalize(observations)
        with self._pixels.kept_as_bytes(observations, normalized):
            return self._forward_head(normalized)

    def behind_encoder(self, head: torch.Tensor, batch: MicroBatch) -> tuple[ActionDistribution, torch.Tensor]:
        """Return the distribution of actions and the values, `[N]`, of a micro-batch.

        Args:
            head: `[N, E]`, its encoded observations.
            batch: the rest of it.
        """
        timing = self._timing
        with computing_in(self.precision, self._device):
            with timing.add_time("bptt"), timing.add_time("bptt_forward_core"):
                starts_episode = batch.steps.starts_episode
                sequences = head.view(*starts_episode.shape, -1)
                core = self._model.forward_core_sequence(sequences, batch.states, starts_episode)
            with timing.add_time("tail"):
                parameters, values = self._model.forward_tail(core.flatten(0, 1))
                return self._model.action_distribution(parameters), values

    @torch.no_grad()
    def evaluate(self, batch: MicroBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the network as it is now makes of recorded steps: probability ratios and values, `[N]` each.

        The ratios are as they are, not within the bounds that the loss keeps them in.
        """
        steps = batch.steps.flat()
        distribution, values = self.behind_encoder(torch.cat(self.encode(batch)), batch)
        return (distribution.log_prob(steps.actions) - steps.log_probabilities).exp(), values

    @torch.no_grad()
    def values(self, observations: dict[str, torch.Tensor], states: torch.Tensor) -> torch.Tensor:
        """Return the values of N observations, entered with recurrent states `[N, H]`, `[N]`."""
        with computing_in(self.precision, self._device):
            core, _ = self._model.forward_core(self._model.forward_head(self._model.normalize(observations)), states)
            return self._model.forward_tail(core)[1]

    @torch.no_grad()
    def makes_usable_numbers(self, observations: dict[str, torch.Tensor], states: torch.Tensor) -> bool:
        """Tell whether what the network as it is now makes of N observations can be trained on.

        Args:
            observations: by key, `[N, ...]`.
            states: `[N, H]`, recurrent states with which they are entered.
        """
        with self.as_it_acts(), computing_in(self.precision, self._device):
            parameters, values, _ = self._model(self._model.normalize(observations), states)
        # The loss has squares of values.
        return bool(torch.isfinite(parameters).all() and torch.isfinite(values.square()).all())

    @torch.no_grad()
    def add_up_divergence(self, sample: Iterable[tuple[MicroBatch, torch.Tensor]]) -> torch.Tensor:
        """Return the sum of the KL divergence of the policy as it is now from those that acted, and of what counts.

        What a forward pass sees before its optimizer step is no measure of that: where each dataset is trained on once,
        it is the policy that acted.

        Args:
            sample: steps to measure that by, with 1 for those that count, `[C, R]`.

        Returns:
            `[2]`, on the device.
        """
        sums = torch.zeros(2, device=self._device)
        with self.as_it_acts():
            for batch, valid in sample:
                now, then = self._now_and_then(batch)
                sums[0] += losses.kl_loss(then, now, valid.flatten())
                sums[1] += valid.sum()
        return sums

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
        with self.as_it_acts():
            for batch in sample:
                now, then = self._now_and_then(batch)
                steps = batch.steps.flat()
                divergences.append(now.kl(then))
                ratios.append(now.log_prob(steps.actions) - steps.log_probabilities)
        is_beyond = torch.cat(ratios).abs() > math.log1p(clip_ratio)
        return float(torch.cat(divergences).mean()), float(is_beyond.float().mean())

    def _now_and_then(self, batch: MicroBatch) -> tuple[ActionDistribution, ActionDistribution]:
        """Return the distributions of the policy as it is now, and of those that acted."""
        with computing_in(self.precision, self._device):  # what is compiled is made for steps that are learned from
            heads = [self._model.forward_head(self._model.normalize(each)) for each in batch.observations]
        now, _ = self.behind_encoder(torch.cat(heads), batch)
        return now, self._model.action_distribution(batch.steps.flat().action_parameters)

    @contextlib.contextmanager
    def as_it_acts(self) -> Iterator[None]:
        """Look at the network without changing it: no dropout, which draws from generators."""
        was_training = self._model.training
        self._model.eval()
        try:
            yield
        finally:
            self._model.train(was_training)
