"""The Learner: trains one policy with PPO on the trajectories that the Batcher hands it, and publishes its weights.

Runs in a process of its own (parallel wiring). Reads trajectories where they were sampled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sample_profiler.component_id import LEARNER, ComponentId
from sample_profiler.components.learning_figures import LearningFigures
from sample_profiler.components.messages import (
    CheckpointSaved,
    Counters,
    TargetReached,
    TrainingStatistics,
    TrainingStep,
    WeightsPublished,
)
from sample_profiler.components.training.epochs import Epochs
from sample_profiler.components.training.micro_batches import MicroBatches, recorded_steps
from sample_profiler.components.training.progress import TrainingProgress
from sample_profiler.components.training.rank_meetings import RankMeetings
from sample_profiler.components.training.target_estimator import TargetEstimator
from sample_profiler.config import LossOptions, SamplingOptions, SavingOptions
from sample_profiler.model.precision import gpu_memory
from sample_profiler.ppo.precision_trial import PrecisionTrial
from sample_profiler.ppo.trainer import Trainer
from sample_profiler.ppo.training_data import RecordedSteps, Targets
from sample_profiler.profiling.device_clock import clock as device_clock
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.profiling.record.flows import END, SLOT, START, WEIGHTS, flow_point, weights_payload
from sample_profiler.runtime.loop.event_loop import Input, Timer
from sample_profiler.runtime.loop.slowdown import Slowdown, slowdown_command
from sample_profiler.runtime.messages.channels import Channel, Reports
from sample_profiler.runtime.messages.heartbeats import Pulse
from sample_profiler.storage.checkpoints import CheckpointFolder
from sample_profiler.storage.dataset import Dataset, Outline, copy_last
from sample_profiler.storage.policy_weights import PolicyWeights
from sample_profiler.storage.trajectories import Trajectories, address_of
from sample_profiler.vocabulary import (
    FOR_BATCHER,
    LAG_MEAN,
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
_TRIAL_STEPS = 256  # that are enough to tell which precision is quicker
_USUAL_FRAGMENTS = 8  # of episodes in one sequence; there are seldom more
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
        frames_per_step: what one agent step counts for; of several ranks, one at each.
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
        self._micro_batches = MicroBatches(
            options.micro_batch_steps,
            options.encoder_steps,
            options.sampling.recurrence,
            trainer.timing,
            self._beat,
        )
        self._memory = memory
        self._ports = ports
        self._pending: list[int] = []
        self._latest_slots: list[int] = []  # that were trained on
        self._slowdown = Slowdown()
        self._figures = LearningFigures(trainer, options.loss)
        self._next_statistics_s = 0.0
        self._latest_lag = 0.0
        self._left_out_share = 0.0  # of the latest dataset's steps: those that were too old
        self._is_whole = True  # False while a training step is under way: its weights are not worth keeping
        self._precision_trial = PrecisionTrial(trainer)
        self._pulse = Pulse(self.name, ports.reports)
        self._meetings = RankMeetings(
            trainer.ranks, policy, memory.counters, self._pulse, ports.reports, trainer.timing
        )
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
        self._targets = TargetEstimator(
            trainer, options.loss, self._micro_batches, options.micro_batch_steps, options.sampling.max_policy_lag
        )
        self._epochs = Epochs(trainer, options.sampling, self._micro_batches, self.progress.random, self._beat)

    def inputs(self) -> list[Input]:
        """Listen to the Batcher, to one dataset at a time: the loop looks in between whether the run is to end."""
        return [Input(self._ports.datasets, self._on_slots, most=self._dataset_slots)]

    def timers(self) -> list[Timer]:
        """Save from time to time."""
        return self.progress.timers()

    def gauges(self) -> dict[str, float]:
        """Measure what waits to be trained on, how old the latest of it was, and with how many threads it is done."""
        return self._meetings.gauges() | {
            "pending_trajectories": len(self._pending),
            POLICY_LAG: self._latest_lag,
            LEFT_OUT_SHARE: self._left_out_share,
            NUM_THREADS: torch.get_num_threads(),
            NUM_USEFUL_THREADS: self._options.num_useful_threads,
            **gpu_memory(self._trainer.device),
        }

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Offer to save now, and to be made slower."""
        return {
            "save_checkpoint": self.progress.save,
            "set_slowdown": slowdown_command({"learner": self._slowdown}),
        }

    def start(self) -> None:
        """Publish the first weights, and save them: whatever happens from here on, there is a checkpoint."""
        counters = self._memory.counters
        counters.trained_frames[self._policy] = self.progress.frames
        counters.resumed_frames[self._policy] = self.progress.frames
        counters.has_begun[self._policy] = True
        counters.optimizer_steps[self._policy] = self._trainer.num_steps
        self._publish()
        for channel in self._ports.first_weights:
            channel.send((0,))
        self.progress.save()
        if self.progress.has_reached_target():
            self._ports.reports.send(TargetReached(self._policy))
            return
        # Here, where others gather the first experience meanwhile.
        fragments = min(_USUAL_FRAGMENTS, self._options.sampling.recurrence)
        self._trainer.passes.prepare(self._micro_batches.chunks_at_once * fragments)

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
            self._meetings.take_leave()
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
        with self._trainer.ranks.failing_together():
            self._take_dataset(dataset_slots)

    def _take_dataset(self, slots: list[int]) -> None:
        # Else others may still be learning in the same environments.
        if self._meetings.is_over(has_reached_target=self.progress.has_reached_target()):
            self._ports.trained.send(slots)
        else:
            self._train_on(slots)
            self._is_whole = True
            self.progress.end_dataset()
            if self.progress.has_reached_target():
                self._ports.reports.send(TargetReached(self._policy))

    @profile_range("Learner.train")
    def _train_on(self, slots: list[int]) -> None:
        sampling = self._options.sampling
        self._beat()
        is_due = time.monotonic() >= self._next_statistics_s
        # Of several ranks, each has a clock of its own, and all add up the same.
        self._trainer.keeps_statistics = is_due or self._trainer.ranks.size > 1
        with self.timing.add_time(PREPARE_BATCH, device=True):
            for slot in slots:
                self.timing.mark_flow(flow_point(END, SLOT, slot))
            dataset = Dataset(self._memory.trajectories, slots, sampling.recurrence, self._trainer.device)
            outline = dataset.look(self._trainer.num_steps, sampling.max_policy_lag)
            steps = recorded_steps(dataset)
            targets = self._targets.estimate(dataset, steps, outline)
        self._is_whole = False
        with self.timing.add_time(TRAIN, device=True):
            self._slowdown.around(self._epochs.train, dataset, steps, targets)
        if self._precision_trial.is_due():
            with self.timing.add_time("try_precisions"):
                self._try_precisions(dataset, steps, targets)
        self._figures.note_starts(dataset)
        figures: dict[str, float] = {}
        if is_due:
            sample = partial(self._micro_batches.of, dataset, steps)
            with self.timing.add_time(REPORT_STATISTICS):  # of observations that are overwritten once slots are free
                figures = self._figures.measure(dataset, steps, targets, sample)
        with self.timing.add_time("update_normalizer"):
            self._update_normalizer(dataset, outline.has_inactive)
        with self.timing.add_time("after_optimizer"):
            self.progress.frames += len(slots) * sampling.rollout * self._options.frames_per_step
            elapsed_s = self._meetings.mean(self._memory.counters.goal_times.elapsed_s())
            self._trainer.set_progress(self.progress.frames, elapsed_s)
            self._publish()
            self._count(outline, dataset.rewards.numel())
            self._latest_slots = slots[:_MOST_LOOKED_AT]
            self._ports.trained.send(slots)
            if TrainingStep in self._options.told:
                iteration = int(self._memory.counters.training_iterations[self._policy])
                self._ports.reports.send(TrainingStep(self.name, self._policy, iteration, self.progress.frames))
        if is_due:
            with self.timing.add_time(REPORT_STATISTICS):
                self._report_statistics(outline, dataset.rewards.numel(), figures)

    def _try_precisions(self, dataset: Dataset, steps: RecordedSteps, targets: Targets) -> None:
        num_chunks = min(self._micro_batches.chunks_at_once, max(1, _TRIAL_STEPS // self._options.sampling.recurrence))
        chunks = np.arange(min(num_chunks, dataset.num_chunks))
        self._precision_trial.make(
            lambda: next(self._micro_batches.of(dataset, steps, chunks)), targets.of(address_of(chunks))
        )

    def _beat(self) -> None:
        """Give a sign of life: a large minibatch takes minutes where cores are few. The first one asks for patience."""
        self._pulse.beat(0.0 if self._epochs.num_minibatches else self._options.first_step_patience_s)

    @profile_range("Learner.try_out")
    def _is_sound(self) -> bool:
        """Tell whether the weights are worth keeping.

        The step that spoils them is one like any other: its gradient was that of the weights before. So it is looked at
        what they make of the latest observations; these may be overwritten meanwhile, by others that are as good.
        """
        if self._trainer.steps.is_suspect:
            return False
        if not self._latest_slots:  # they are as they were drawn or loaded
            return True
        latest = copy_last(self._memory.trajectories, self._latest_slots, self._trainer.device)
        return self._trainer.passes.makes_usable_numbers(*latest)

    @profile_range("Learner.update_normalizer")
    def _update_normalizer(self, dataset: Dataset, leaves_some_out: bool) -> None:
        """Learn the statistics of observations, after training: inference and learner saw the same normalization.

        What fills the places of agents that have no part, and of numbers that were not finite, says nothing of others.
        """
        active = ~dataset.inactive.flatten()
        first = 0
        with self._trainer.ranks.adding_up(self._trainer.model.observation_normalizer):
            for observations in self._micro_batches.observations(dataset, np.arange(dataset.num_chunks)):
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

    def _count(self, outline: Outline, num_steps: int) -> None:
        counters, policy = self._memory.counters, self._policy
        self._latest_lag = outline.lag_sum / num_steps
        self._left_out_share = outline.num_too_old / num_steps
        least = counters.lag_min[policy] if counters.lag_count[policy] else outline.lag_min
        counters.lag_min[policy] = min(least, outline.lag_min)
        counters.lag_sum[policy] += outline.lag_sum
        counters.lag_count[policy] += num_steps
        counters.lag_max[policy] = max(counters.lag_max[policy], outline.lag_max)
        counters.optimizer_steps[policy] = self._trainer.num_steps
        counters.trained_frames[policy] = self.progress.frames
        counters.training_iterations[policy] += 1
        if not counters.first_training_ns[policy]:
            counters.first_training_ns[policy] = time.monotonic_ns()

    def _report_statistics(self, outline: Outline, num_steps: int, figures: Mapping[str, float]) -> None:
        self._next_statistics_s = time.monotonic() + _STATISTICS_INTERVAL_S
        values = self._trainer.statistics() | {
            **{f"train/{name}": value for name, value in figures.items()},
            f"train/{LAG_MEAN}": outline.lag_sum / num_steps,
            "train/policy_lag_max": outline.lag_max,
            "train/reward_mean": outline.reward_mean,
        }
        self._ports.reports.send(TrainingStatistics(self._policy, self.progress.frames, values))

    def course(self) -> dict[str, Any]:
        """Return what waits to be trained on, for `follow`; the rest is in every checkpoint."""
        return {"pending": list(self._pending)}

    def follow(self, course: dict[str, Any]) -> None:
        """Go on from a course; before `start`."""
        self._pending = list(course["pending"])
