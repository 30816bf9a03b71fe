"""The Learner: trains one policy with PPO on the trajectories that the Batcher hands it, and publishes its weights.

Runs in a process of its own (parallel wiring). Reads trajectories where they were sampled; no copy of a dataset is
made: observations leave shared memory one micro-batch at a time, small enough for the activations to stay in cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sample_profiler.component_id import LEARNER, ComponentId
from sample_profiler.components.messages import (
    CheckpointSaved,
    Counters,
    TargetReached,
    TrainingStatistics,
    TrainingStep,
    WeightsPublished,
)
from sample_profiler.components.progress import TrainingProgress
from sample_profiler.config import LossOptions, SamplingOptions, SavingOptions
from sample_profiler.ppo.advantages import gae, vtrace
from sample_profiler.ppo.own_steps import Outcomes, OwnSteps
from sample_profiler.ppo.precision_trial import PrecisionTrial
from sample_profiler.ppo.trainer import Trainer
from sample_profiler.ppo.training_data import MicroBatch, RecordedSteps, Targets
from sample_profiler.profiling.device_clock import clock as device_clock
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.profiling.record.flows import END, SLOT, START, WEIGHTS, flow_point, weights_payload
from sample_profiler.runtime.loop.event_loop import Input, Timer
from sample_profiler.runtime.loop.slowdown import Slowdown, slowdown_command
from sample_profiler.runtime.messages.channels import Channel, Reports
from sample_profiler.runtime.messages.heartbeats import Pulse
from sample_profiler.storage.checkpoints import CheckpointFolder
from sample_profiler.storage.dataset import Dataset, copy_last
from sample_profiler.storage.policy_weights import PolicyWeights
from sample_profiler.storage.trajectories import Trajectories, address_of
from sample_profiler.vocabulary import (
    FOR_BATCHER,
    GATHER_OBSERVATIONS,
    LEFT_OUT_SHARE,
    NUM_THREADS,
    NUM_USEFUL_THREADS,
    POLICY_LAG,
    PREPARE_BATCH,
    REPORT_STATISTICS,
    TRAIN,
    WAIT,
)

__all__ = ["Learner", "LearnerMemory", "LearnerOptions", "LearnerPorts"]

_STATISTICS_INTERVAL_S = 2.0
_KL_STEPS = 1024  # by which a schedule that wants to know is told how far the policy has moved
_TRIAL_STEPS = 256  # that are enough to tell which precision is quicker
_MOST_LOOKED_AT = 16  # trajectories on whose ends a network is tried out before it is saved


@dataclass(frozen=True)
class LearnerPorts:
    """Where a Learner listens and talks.

    Attributes:
        datasets: slots to train on, `dataset_slots` at a time.
        trained: slots that it is done with, to the Batcher.
        first_weights: for each InferenceWorker of the policy, gets a message when there are weights.
        reports: to the Runner.
    """

    datasets: Channel
    trained: Channel
    first_weights: Sequence[Channel]
    reports: Reports


@dataclass(frozen=True)
class LearnerOptions:
    """The parts of the configuration that concern a Learner.

    Attributes:
        frames_per_step: what one agent step counts for.
        micro_batch_steps: steps that go through the network's core at once.
        encoder_steps: steps that go through its encoder at once.
        first_step_patience_s: that is to be had with the first training step, if more than with others.
        num_useful_threads: more would not train such a network faster; 0: not known.
        told: messages that somebody wants to be told of; of these signals no others are reported.
    """

    sampling: SamplingOptions
    loss: LossOptions
    saving: SavingOptions
    frames_per_step: int
    micro_batch_steps: int
    encoder_steps: int
    seed: int
    first_step_patience_s: float = 0.0
    num_useful_threads: int = 0
    told: frozenset[type] = frozenset()


@dataclass(frozen=True)
class LearnerMemory:
    """What a Learner reads and writes beside its own state."""

    trajectories: Trajectories
    weights: PolicyWeights
    counters: Counters
    checkpoints: CheckpointFolder


class Learner:
    """Trains one policy.

    Args:
        policy: index of the policy.
        dataset_slots: trajectories to train on at once.
        trainer: the network, its optimizer and schedule.
        options: parts of the configuration.
        memory: shared memory and checkpoints.
        ports: where to listen and talk.

    Attributes:
        progress: how far the training has come.

    Raises:
        CheckpointError: there is a checkpoint, and it is of another network or cannot be read.
    """

    def __init__(
        self,
        policy: int,
        dataset_slots: int,
        trainer: Trainer,
        options: LearnerOptions,
        memory: LearnerMemory,
        ports: LearnerPorts,
    ) -> None:
        self.name = str(ComponentId(LEARNER, policy))
        self.timing = trainer.timing
        self._policy = policy
        self._dataset_slots = dataset_slots
        self._trainer = trainer
        self._options = options
        self._chunks_per_micro_batch = max(1, options.micro_batch_steps // options.sampling.recurrence)
        self._memory = memory
        self._ports = ports
        self._pending: list[int] = []
        self._latest_slots: list[int] = []  # that were trained on
        self._slowdown = Slowdown()
        self._next_statistics_s = 0.0
        self._latest_lag = 0.0
        self._left_out_share = 0.0  # of the latest dataset's steps: those that were too old
        self._is_whole = True  # False while a training step is under way: its weights are not worth keeping
        self._precision_trial = PrecisionTrial(trainer)
        self._pulse = Pulse(self.name, ports.reports)
        self._patience_s = options.first_step_patience_s
        self.progress = TrainingProgress(
            trainer,
            options.saving,
            memory.checkpoints,
            memory.counters,
            policy,
            options.seed,
            self._pulse,
            self._is_sound,
        )
        self.progress.on_saved = self._tell_of_checkpoint

    def inputs(self) -> list[Input]:
        """Listen to the Batcher, to one dataset at a time: the loop looks in between whether the run is to end."""
        return [Input(self._ports.datasets, self._on_slots, most=self._dataset_slots)]

    def timers(self) -> list[Timer]:
        """Save from time to time."""
        return self.progress.timers()

    def gauges(self) -> dict[str, float]:
        """Measure what waits to be trained on, how old the latest of it was, and with how many threads it is done."""
        return {
            "pending_trajectories": len(self._pending),
            POLICY_LAG: self._latest_lag,
            LEFT_OUT_SHARE: self._left_out_share,
            NUM_THREADS: torch.get_num_threads(),
            NUM_USEFUL_THREADS: self._options.num_useful_threads,
        }

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Offer to be made slower."""
        return {"set_slowdown": slowdown_command({"learner": self._slowdown})}

    def start(self) -> None:
        """Publish the first weights, and save them: whatever happens from here on, there is a checkpoint."""
        counters = self._memory.counters
        counters.trained_frames[self._policy] = self.progress.frames
        counters.resumed_frames[self._policy] = self.progress.frames
        counters.optimizer_steps[self._policy] = self._trainer.num_steps
        self._publish()
        for channel in self._ports.first_weights:
            channel.send((0,))
        self.progress.save()
        if self.progress.has_reached_target():
            self._ports.reports.send(TargetReached(self._policy))

    def wait_block(self) -> str:
        """Tell that the Learner waits for datasets."""
        return WAIT + FOR_BATCHER

    def finish(self) -> None:
        """Save what was learned since the last checkpoint, and take the last device times.

        Raises:
            CheckpointError: it cannot be saved.
        """
        if self._is_whole:
            self.progress.save()
        else:
            self.progress.save_best()
        device_clock.settle(self.timing)

    def _on_slots(self, slots: list[int]) -> None:
        device_clock.poll()
        self._pending += slots
        if len(self._pending) < self._dataset_slots:
            return
        dataset_slots = self._pending[: self._dataset_slots]
        del self._pending[: self._dataset_slots]
        if self.progress.has_reached_target():  # others may still be learning in the same environments
            self._ports.trained.send(dataset_slots)
        else:
            self._train_on(dataset_slots)
            self._is_whole = True
            self.progress.end_dataset()
            if self.progress.has_reached_target():
                self._ports.reports.send(TargetReached(self._policy))

    @profile_range("Learner.train")
    def _train_on(self, slots: list[int]) -> None:
        sampling = self._options.sampling
        self._beat()
        is_told = self._trainer.keeps_statistics = time.monotonic() >= self._next_statistics_s
        with self.timing.add_time(PREPARE_BATCH, device=True):
            for slot in slots:
                self.timing.mark_flow(flow_point(END, SLOT, slot))
            dataset = Dataset(self._memory.trajectories, slots, sampling.recurrence, self._trainer.device)
            lag = (self._trainer.num_steps - dataset.policy_versions).float()
            steps = _recorded_steps(dataset)
            targets = self._make_targets(dataset, steps)
        self._is_whole = False
        with self.timing.add_time(TRAIN, device=True):
            self._slowdown.around(self._train_epochs, dataset, steps, targets)
        if self._precision_trial.is_due():
            with self.timing.add_time("try_precisions"):
                self._try_precisions(dataset, steps, targets)
        with self.timing.add_time("update_normalizer"):
            self._update_normalizer(dataset)
        with self.timing.add_time("after_optimizer"):
            self.progress.frames += len(slots) * sampling.rollout * self._options.frames_per_step
            self._trainer.set_progress(self.progress.frames, self._memory.counters.goal_times.elapsed_s())
            self._publish()
            self._count(lag)
            self._latest_slots = slots[:_MOST_LOOKED_AT]
            self._ports.trained.send(slots)
            if TrainingStep in self._options.told:
                iteration = int(self._memory.counters.training_iterations[self._policy])
                self._ports.reports.send(TrainingStep(self.name, self._policy, iteration, self.progress.frames))
        if is_told:
            with self.timing.add_time(REPORT_STATISTICS):
                self._report_statistics(dataset, lag)

    def _train_epochs(self, dataset: Dataset, steps: RecordedSteps, targets: Targets) -> None:
        for _ in range(self._options.sampling.num_epochs):
            with self.timing.add_time("epoch_init"):
                minibatches = self._draw_minibatches(dataset.num_chunks)
            for chunks in minibatches:
                self._beat()
                self._train_minibatch(dataset, steps, targets.of(address_of(chunks)), chunks)
                self._patience_s = 0.0
                self._trainer.end_minibatch(self._sample(dataset, steps, targets.valid, chunks))
            self._trainer.end_epoch(self._sample(dataset, steps, targets.valid, np.arange(dataset.num_chunks)))

    def _try_precisions(self, dataset: Dataset, steps: RecordedSteps, targets: Targets) -> None:
        num_chunks = min(self._chunks_per_micro_batch, max(1, _TRIAL_STEPS // self._options.sampling.recurrence))
        chunks = np.arange(min(num_chunks, dataset.num_chunks))
        self._precision_trial.make(
            lambda: next(self._micro_batches(dataset, steps, chunks)), targets.of(address_of(chunks))
        )

    def _beat(self) -> None:
        """Give a sign of life: a large minibatch takes minutes where cores are few. The first one asks for patience."""
        self._pulse.beat(self._patience_s)

    @profile_range("Learner.prepare")
    def _make_targets(self, dataset: Dataset, steps: RecordedSteps) -> Targets:
        """Compute advantages and the targets of the value head.

        Values are those that inference computed, except behind the last step, which inference has not seen. V-trace
        wants them of the network as it is now; only those of final observations before the last step, which are not
        kept, stay those that inference computed.
        """
        model = self._trainer.model
        age = self._trainer.num_steps, self._options.sampling.max_policy_lag
        valid = dataset.is_valid(*age)
        with torch.no_grad():
            advantages, returns = self._estimate_advantages(dataset, steps)
            is_finite = torch.isfinite(advantages) & torch.isfinite(returns)
            if not is_finite.all():
                self._trainer.reject(f"the advantages or returns of {int((~is_finite).sum())} steps are not finite")
                advantages, returns = (torch.where(is_finite, values, 0.0) for values in (advantages, returns))
                valid &= is_finite
            elif not valid.any() and (num_spoiled := dataset.num_spoiled(*age)):
                reason = f"the observations or rewards of all {num_spoiled} steps are not finite"
                self._trainer.reject(reason, may_be_weights=False)
            if self._options.loss.normalize_returns:
                model.returns_normalizer.update(returns[valid])
                returns = model.returns_normalizer.normalize(returns)
        return Targets(*map(dataset.by_chunk, (advantages, returns, valid.float())))

    @profile_range("Learner.estimate_advantages")
    def _estimate_advantages(self, dataset: Dataset, steps: RecordedSteps) -> tuple[torch.Tensor, torch.Tensor]:
        """Return advantages and returns in units of (scaled) rewards, `[S, T]` each."""
        loss = self._options.loss
        ratios, values = self._evaluate(dataset, steps) if loss.with_vtrace else (None, dataset.values)
        values = torch.cat([values, self._values_behind(dataset)[:, None]], dim=1)
        final_values = dataset.final_values.clone()
        final_values[:, -1] = values[:, -1]
        if loss.normalize_returns:
            values, final_values = map(self._trainer.model.returns_normalizer.denormalize, (values, final_values))
        own_steps = OwnSteps(dataset.absent)
        own = own_steps.of(
            Outcomes(dataset.rewards, values, ratios, dataset.terminated, dataset.truncated, final_values)
        )
        rewards = (own.rewards * loss.reward_scale).clamp(-loss.reward_clip, loss.reward_clip)
        ends = (own.terminated, own.truncated, own.final_values if loss.value_bootstrap else None)
        if own.ratios is None:
            results = gae(rewards, own.values, *ends, loss.gamma, loss.gae_lambda)
        else:
            results = vtrace(rewards, own.values, own.ratios, *ends, loss.gamma, loss.vtrace_rho, loss.vtrace_c)
        advantages, returns = map(own_steps.put_back, results)
        return advantages, returns

    def _evaluate(self, dataset: Dataset, steps: RecordedSteps) -> tuple[torch.Tensor, torch.Tensor]:
        """Return probability ratios and values of all steps under the network as it is now, `[S, T]` each."""
        chunks = np.arange(dataset.num_chunks)
        results = [self._trainer.evaluate(batch) for batch in self._micro_batches(dataset, steps, chunks)]
        ratios, values = (torch.cat(parts).view_as(dataset.rewards) for parts in zip(*results, strict=True))
        return ratios, values

    def _values_behind(self, dataset: Dataset) -> torch.Tensor:
        """Return the value of what follows the last step of each trajectory, `[S]`, as the network gives it."""
        return self._trainer.values(*dataset.last())

    @profile_range("Learner.try_out")
    def _is_sound(self) -> bool:
        """Tell whether the weights are worth keeping.

        The step that spoils them is one like any other: its gradient was that of the weights before. So it is looked at
        what they make of the latest observations; these may be overwritten meanwhile, by others that are as good.
        """
        if self._trainer.is_suspect:
            return False
        if not self._latest_slots:  # they are as they were drawn or loaded
            return True
        latest = copy_last(self._memory.trajectories, self._latest_slots, self._trainer.device)
        return self._trainer.makes_usable_numbers(*latest)

    def _draw_minibatches(self, num_chunks: int) -> list[npt.NDArray[np.int64]]:
        order = np.arange(num_chunks)
        if self._options.sampling.shuffle_minibatches:
            self.progress.random.shuffle(order)
        return np.array_split(order, self._options.sampling.num_batches_per_epoch)

    def _train_minibatch(
        self, dataset: Dataset, steps: RecordedSteps, targets: Targets, chunks: npt.NDArray[np.int64]
    ) -> None:
        """Take an optimizer step on some chunks, unless none of their steps counts; `targets` are of these alone."""
        if num_valid := targets.num_valid():
            micro_batches = self._micro_batches(dataset, steps, chunks)
            pieces = targets.normalized().split(self._chunks_per_micro_batch)
            self._trainer.train_minibatch(zip(micro_batches, pieces, strict=True), num_valid)

    def _sample(
        self, dataset: Dataset, steps: RecordedSteps, valid: torch.Tensor, chunks: npt.NDArray[np.int64]
    ) -> Iterator[tuple[MicroBatch, torch.Tensor]]:
        """Yield some of the chunks, enough to tell how far the policy has moved, with which of their steps count."""
        most_chunks = max(1, _KL_STEPS // self._options.sampling.recurrence)
        if len(chunks) > most_chunks:
            # A generator of its own, which needs no saving: others draw the same whether this is wanted or not.
            random = np.random.default_rng(self._trainer.num_steps)
            chunks = random.choice(chunks, most_chunks, replace=False, shuffle=False)
        pieces = torch.split(valid[chunks], self._chunks_per_micro_batch)
        yield from zip(self._micro_batches(dataset, steps, chunks), pieces, strict=True)

    def _micro_batches(
        self, dataset: Dataset, steps: RecordedSteps, chunks: npt.NDArray[np.int64]
    ) -> Iterator[MicroBatch]:
        for start in range(0, len(chunks), self._chunks_per_micro_batch):
            self._beat()
            with self.timing.add_time("bptt_initial"):
                piece = chunks[start : start + self._chunks_per_micro_batch]
                micro_batch = MicroBatch(
                    self._observations(dataset, piece), dataset.states(piece), steps.of(address_of(piece))
                )
            yield micro_batch

    def _observations(self, dataset: Dataset, chunks: npt.NDArray[np.int64]) -> Iterator[dict[str, torch.Tensor]]:
        """Take the observations of some chunks out of shared memory, as many as the encoder sees at once."""
        per_piece = max(1, self._options.encoder_steps // self._options.sampling.recurrence)
        for start in range(0, len(chunks), per_piece):
            self._beat()
            with self.timing.add_time(GATHER_OBSERVATIONS):
                observations = dataset.observations(chunks[start : start + per_piece])
            yield observations

    @profile_range("Learner.update_normalizer")
    def _update_normalizer(self, dataset: Dataset) -> None:
        """Learn the statistics of observations, after training: inference and learner saw the same normalization.

        What fills the places of agents that have no part, and of numbers that were not finite, says nothing of others.
        """
        active = ~dataset.inactive.flatten()
        leaves_some_out = not active.all()
        first = 0
        for observations in self._observations(dataset, np.arange(dataset.num_chunks)):
            behind = first + len(next(iter(observations.values())))
            if leaves_some_out:
                observations = {key: values[active[first:behind]] for key, values in observations.items()}
            self._trainer.model.update_normalizer(observations)
            first = behind

    @profile_range("Learner.publish")
    def _publish(self) -> None:
        version = self._trainer.num_steps
        self._memory.weights.publish(self._trainer.model.state_dict(), version)
        self.timing.mark_flow(flow_point(START, WEIGHTS, weights_payload(self._policy, version)))
        if WeightsPublished in self._options.told:
            self._ports.reports.send(WeightsPublished(self.name, self._policy, version))

    def _tell_of_checkpoint(self, kind: str, path: Path, frames: int) -> None:
        if CheckpointSaved in self._options.told:
            self._ports.reports.send(CheckpointSaved(self.name, self._policy, kind, str(path), frames))

    def _count(self, lag: torch.Tensor) -> None:
        counters, policy = self._memory.counters, self._policy
        self._latest_lag = float(lag.mean())
        self._left_out_share = float((lag > self._options.sampling.max_policy_lag).float().mean())
        counters.lag_sum[policy] += float(lag.sum())
        counters.lag_count[policy] += lag.numel()
        counters.lag_max[policy] = max(counters.lag_max[policy], float(lag.max()))
        counters.optimizer_steps[policy] = self._trainer.num_steps
        counters.trained_frames[policy] = self.progress.frames
        counters.training_iterations[policy] += 1
        if not counters.first_training_ns[policy]:
            counters.first_training_ns[policy] = time.monotonic_ns()

    def _report_statistics(self, dataset: Dataset, lag: torch.Tensor) -> None:
        self._next_statistics_s = time.monotonic() + _STATISTICS_INTERVAL_S
        values = self._trainer.statistics() | {
            "train/policy_lag_mean": float(lag.mean()),
            "train/policy_lag_max": float(lag.max()),
            "train/reward_mean": float(dataset.rewards.mean()),
        }
        self._ports.reports.send(TrainingStatistics(self._policy, self.progress.frames, values))

    def course(self) -> dict[str, Any]:
        """Return what waits to be trained on, for `follow`; the rest is in every checkpoint."""
        return {"pending": list(self._pending)}

    def follow(self, course: dict[str, Any]) -> None:
        """Go on from a course; before `start`."""
        self._pending = list(course["pending"])


def _recorded_steps(dataset: Dataset) -> RecordedSteps:
    return RecordedSteps(
        starts_episode=dataset.by_chunk(dataset.starts_episode),
        actions=dataset.by_chunk(dataset.actions),
        action_parameters=dataset.by_chunk(dataset.action_parameters),
        log_probabilities=dataset.by_chunk(dataset.log_probabilities),
        values=dataset.by_chunk(dataset.values),
    )
