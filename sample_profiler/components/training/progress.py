"""Owns how far the training of a policy has come, and its way into checkpoints and back out of them."""

from __future__ import annotations

import contextlib
import copy
import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from sample_profiler.components.messages import Counters
from sample_profiler.config import SavingOptions
from sample_profiler.errors import CheckpointError
from sample_profiler.ppo.trainer import Trainer
from sample_profiler.runtime.loop.event_loop import Timer
from sample_profiler.runtime.messages.heartbeats import SAVE_S, Pulse
from sample_profiler.storage.checkpoints import FORMAT_VERSION, CheckpointFolder
from sample_profiler.storage.goal_times import name_of_stop
from sample_profiler.storage.mismatch import describe_mismatch
from sample_profiler.vocabulary import LOAD_CHECKPOINT, SAVE_CHECKPOINT

__all__ = ["RunCourse", "TrainingProgress"]

logger = logging.getLogger(__name__)

_MOST_STEPS = 10**18  # far from what 64 bits hold
# What is raised by reading a state that has other pieces, or pieces of other types, than ours.
_UNFITTING = (AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError)


class RunCourse(Protocol):
    """Where all that a run consists of is, beside the training of its policy."""

    @property
    def is_offered(self) -> bool:
        """Whether all of it can be put back to where it is."""

    def metric(self) -> float:
        """Return what the best policy is chosen by; NaN: unknown yet."""

    def take(self) -> dict[str, Any] | None:
        """Return it as data that a checkpoint can hold; None if there is none."""


@dataclass(frozen=True)
class _Best:
    """The best policy so far, as it was when that was found: a copy or, until training goes on, what is trained."""

    state: dict[str, Any]
    num_steps: int
    num_frames: int
    metric: float
    is_copy: bool = False


class TrainingProgress:
    """How far the training of one policy has come: its network and all that is saved with it.

    Args:
        trainer: the network, its optimizer and schedule.
        options: when to save what.
        checkpoints: where to.
        counters: have what the best policy is chosen by, of which episodes, and when what was reached.
        policy: index of the policy.
        seed: of the random numbers.
        pulse: gives signs of life while a checkpoint is written.
        is_sound: tells whether the weights as they are now can be gone on with; others are not saved.

    Attributes:
        frames: that the policy has been trained on.
        random: draws minibatches.
        on_saved: is called with the kind, the path and the frames of each checkpoint that was written.

    Raises:
        CheckpointError: there is a checkpoint, and it is of another network or cannot be read.
    """

    def __init__(
        self,
        trainer: Trainer,
        options: SavingOptions,
        checkpoints: CheckpointFolder,
        counters: Counters,
        policy: int,
        seed: int,
        pulse: Pulse,
        is_sound: Callable[[], bool],
    ) -> None:
        self.frames = 0
        self.random = np.random.default_rng(seed)
        self.on_saved: Callable[[str, Path, int], None] = lambda *_: None
        self._is_sound = is_sound
        self._course: RunCourse | None = None
        self._loaded_course: dict[str, Any] | None = None
        self._trainer = trainer
        self._options = options
        self._checkpoints = checkpoints
        self._counters = counters
        self._policy = policy
        self._pulse = pulse
        self._best_metric = -math.inf  # of what is written
        self._unwritten_best: _Best | None = None
        self._steps_saved = self._reached_saved = -1
        self._keeps_files = trainer.ranks.rank == 0
        self._stop = name_of_stop(options)
        with trainer.timing.add_time(LOAD_CHECKPOINT):
            checkpoints.remove_partials()
            self._load()
            self._best_metric = self._metric_of_best()
            self._join_ranks()

    def join(self, course: RunCourse) -> dict[str, Any] | None:
        """Save the course of the whole run with the latest checkpoint from now on.

        Args:
            course: of the run. Where it can be saved, it is looked for the best policy after each dataset, instead of
                by the clock; a better one is kept in memory and written by the clock, since that takes long beside a
                short dataset.

        Returns:
            The one that was saved with the loaded checkpoint, once; None: there was none.
        """
        self._course = course if self._keeps_files else None
        loaded, self._loaded_course = self._loaded_course, None
        return loaded

    def timers(self) -> list[Timer]:
        """Save from time to time."""
        options = self._options
        if not self._keeps_files:
            return []
        timers = [Timer(options.save_every_sec, self._save_if_possible)]
        if options.save_milestones_sec > 0:
            timers.append(Timer(options.save_milestones_sec, self._save_milestone))
        if not options.benchmark:
            timers.append(Timer(options.save_best_every_sec, self._save_best_if_possible))
        return timers

    def has_reached_target(self) -> bool:
        """Tell whether the policy has been trained on as many frames as asked, or until it was as good as asked."""
        has_stopped = self._counters.goal_times.find(self._policy, self._stop) is not None
        return has_stopped or self.frames >= self._options.train_for_env_steps

    def end_dataset(self) -> None:
        """Look whether the policy is the best so far, where that is not done by the clock."""
        if self._looks_after_datasets and not self._options.benchmark:
            self._look_for_best()
            self._keep_best()

    def save(self) -> None:
        """Save the best policy, if it is not yet, and the latest checkpoint, unless it would tell nothing new.

        Weights that cannot be gone on with are not saved: the checkpoint before stays the latest.

        Raises:
            CheckpointError: one of them cannot be written; the other is, if that is possible.
        """
        try:
            self.save_best()  # first: who goes on from the latest knows of it and does not find it again
        finally:
            self._save_latest()

    def save_best(self) -> None:
        """Save the best policy that was found, unless it is saved already.

        Raises:
            CheckpointError: it cannot be written, and is kept for the next try.
        """
        best, name = self._unwritten_best, self._options.save_best_metric
        if best is None:
            return
        with self._saving():
            path = self._checkpoints.save_best(best.state, best.num_steps, best.num_frames, name, best.metric)
        self._best_metric, self._unwritten_best = best.metric, None
        self.on_saved("best", path, best.num_frames)

    def _save_latest(self) -> None:
        if not self._keeps_files:
            return
        num_reached = self._counters.goal_times.num_reached(self._policy)
        is_known = (self._trainer.num_steps, num_reached) == (self._steps_saved, self._reached_saved)
        if is_known:
            return
        with self._saving():
            if not self._is_worth_saving():
                return
            # First: it has episodes counted that are part of the state.
            course = self._course.take() if self._course else None
            state = self._state() if course is None else self._state() | {"course": course}
            path = self._checkpoints.save(state, self._trainer.num_steps, self.frames)
        self._steps_saved, self._reached_saved = self._trainer.num_steps, num_reached
        self.on_saved("latest", path, self.frames)

    @property
    def _looks_after_datasets(self) -> bool:
        return self._course is not None and self._course.is_offered

    def _is_worth_saving(self) -> bool:
        is_sound = self._is_sound()
        if not is_sound:
            logger.warning(
                "The weights of policy %d after %d optimizer steps are not saved: what they give is not finite, or "
                "huge. Earlier checkpoints are as they were",
                *(self._policy, self._trainer.num_steps),
            )
        return is_sound

    @contextlib.contextmanager
    def _saving(self) -> Iterator[None]:
        with self._trainer.timing.add_time(SAVE_CHECKPOINT), self._pulse.beating(SAVE_S):
            yield

    def _load(self) -> None:
        state = self._checkpoints.load(self._options.load_checkpoint_kind)
        if state is None:
            return
        # An untrained one of a run that failed at once, perhaps because of the network that was mended since then.
        is_first = _is_untrained(state) and not self._checkpoints.holds_training
        first = copy.deepcopy(self._trainer.state_dict()) if is_first else None
        try:
            self._trainer.load_state_dict(state)
            self.frames = int(state["frames"])
            self._load_metrics(state)
            if self.frames:  # else the run begins now
                self._counters.goal_times.resume(self._policy, state)
            self.random.bit_generator.state = state["random"]
            self._loaded_course = state.get("course")
            for name, count in (("frames", self.frames), ("optimizer steps", self._trainer.num_steps)):
                if not 0 <= count <= _MOST_STEPS:
                    raise ValueError(f"it says {count} {name}")
        except _UNFITTING as error:
            if first is not None:
                self._trainer.load_state_dict(first)  # some of it has been replaced
                self._best_metric = -math.inf
                self._checkpoints.set_aside(f"the checkpoint is not of this network ({describe_mismatch(error)})")
                return
            raise CheckpointError(
                f"the checkpoint in {self._checkpoints.path} is not of this network ({describe_mismatch(error)}): use "
                "the flags and the registered encoder, core and decoder that it was trained with, or another "
                "--experiment; --restart_behavior=overwrite deletes the earlier run and begins anew"
            ) from error
        self._trainer.set_progress(self.frames)
        self._steps_saved = self._trainer.num_steps
        self._reached_saved = self._counters.goal_times.num_reached(self._policy)

    def _join_ranks(self) -> None:
        """Begin as rank 0 does, which alone keeps checkpoints."""
        ranks = self._trainer.ranks
        if ranks.size == 1:
            return
        with self._pulse.beating(ranks.timeout_s):
            state = ranks.share(self._trainer.state_dict() | {"frames": self.frames})
        if ranks.rank > 0:
            self._trainer.load_state_dict(state)
            self.frames = int(state["frames"])
            self._trainer.set_progress(self.frames)

    def _load_metrics(self, state: dict[str, Any]) -> None:
        """Go on with the best metric and the latest episodes, unless another statistic is asked for now."""
        if state.get("best_metric_name") == self._options.save_best_metric:
            self._best_metric = float(state["best_metric"])
            self._counters.resume_metrics(self._policy, state["latest_metrics"].double().numpy())

    def _metric_of_best(self) -> float:
        """Return the metric of the best checkpoint, which may have been saved after the latest; -inf: there is none."""
        best, name = self._best_metric, self._options.save_best_metric
        for state in self._checkpoints.better_states(name, best, self._trainer.num_steps):
            with contextlib.suppress(*_UNFITTING):  # it is of something else
                if state["best_metric_name"] == name:
                    best = max(best, float(state["best_metric"]))
        return best

    def _state(self) -> dict[str, Any]:
        return self._trainer.state_dict() | {
            "format_version": FORMAT_VERSION,
            "frames": self.frames,
            "best_metric": self._best_metric,
            "best_metric_name": self._options.save_best_metric,
            "latest_metrics": torch.from_numpy(self._counters.recent_metrics(self._policy)),
            "random": self.random.bit_generator.state,
            **self._counters.goal_times.state(self._policy),
        }

    def _save_if_possible(self) -> None:
        with _going_on(f"in {self._options.save_every_sec:g} s"):
            self.save()

    def _save_milestone(self) -> None:
        with _going_on(f"in {self._options.save_milestones_sec:g} s"), self._saving():
            if not self._is_worth_saving():
                return
            path = self._checkpoints.save_milestone(self._state(), self._trainer.num_steps, self.frames)
            self.on_saved("milestone", path, self.frames)

    def _save_best_if_possible(self) -> None:
        if not self._looks_after_datasets:
            self._look_for_best()
        try:
            with _going_on(f"in {self._options.save_best_every_sec:g} s"):
                self.save_best()
        finally:
            self._keep_best()

    def _look_for_best(self) -> None:
        """Note the policy for `save_best` if the metric is better than ever."""
        course = self._course if self._looks_after_datasets else None
        metric = course.metric() if course else float(self._counters.metric[self._policy])
        best = self._best_metric if self._unwritten_best is None else self._unwritten_best.metric
        if self.frames < self._options.save_best_after or not metric > best:
            return
        with self._saving():
            if not self._is_sound():
                return
            state = self._state() | {"best_metric": metric}
        self._unwritten_best = _Best(state, self._trainer.num_steps, self.frames, metric)

    def _keep_best(self) -> None:
        """Copy what is to be saved and is not yet: training goes on in the tensors themselves.

        Where it is saved at once, as nearly always, nothing is copied.
        """
        best = self._unwritten_best
        if best is not None and not best.is_copy:
            with self._saving():
                self._unwritten_best = replace(best, state=copy.deepcopy(best.state), is_copy=True)


def _is_untrained(state: dict[str, Any]) -> bool:
    counts = (state.get("optimizer_steps"), state.get("frames"))
    return all(type(count) is int and count == 0 for count in counts)


@contextlib.contextmanager
def _going_on(next_try: str) -> Iterator[None]:
    """Warn of a checkpoint that cannot be written: there is an older one, and training is worth more than a newer."""
    try:
        yield
    except CheckpointError as error:
        logger.warning("%s. Training goes on, and tries again %s", error, next_try)
