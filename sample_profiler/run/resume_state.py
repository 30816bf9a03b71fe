"""Owns the course of a serial, synchronous run: all that its further steps depend on, beside what it has learned.

Saved with the latest checkpoint, it lets a resumed run go on bit for bit as if it had not been interrupted: the
environments, the trajectories that are being filled, what is on its way between components, the latest episodes, and
every generator of random numbers. It is there where environments offer `get_state()` and `set_state(state)`; others
begin new episodes.
"""

from __future__ import annotations

import hashlib
import logging
import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sample_profiler.components.rollout_worker.worker import RolloutWorker
from sample_profiler.errors import CheckpointError, EnvError
from sample_profiler.run.layout.blueprint import Blueprint, Channels
from sample_profiler.runtime.loop.event_loop import Component, EventLoop
from sample_profiler.runtime.messages.channels import LocalChannel
from sample_profiler.storage.sealing import SEAL_FORMAT, open_sealed, seal

if TYPE_CHECKING:
    from sample_profiler.components.training.progress import TrainingProgress
    from sample_profiler.run.runner import Runner

__all__ = ["keep_resume_state"]

logger = logging.getLogger(__name__)

_MAX_BYTES = 256 << 20  # of trajectories: a checkpoint is written every two minutes
_MT19937_WORDS = 624


def keep_resume_state(blueprint: Blueprint, components: Sequence[Component], loop: EventLoop, runner: Runner) -> None:
    """Let a run follow the course that was saved with its checkpoint, if there is one, and save its own.

    Args:
        blueprint: of the run; nothing happens unless it is a serial and synchronous one, of one policy.
        components: of the run, before their start.
        loop: that they will run in.
        runner: of the run.

    Raises:
        CheckpointError: the course that was saved is of another version.
        EnvError: an environment cannot be put back to where it was.
    """
    sampling = blueprint.config.sampling
    # With several policies checkpoints are of several moments.
    if sampling.async_rl or sampling.num_policies > 1:
        return
    if obstacle := _find_obstacle(blueprint):
        logger.info("Resumed, the run will begin new episodes: %s", obstacle)
        return
    course = _ResumeState(blueprint, components, loop, runner)
    learner: Any = components[0]
    progress: TrainingProgress = learner.progress
    loaded = progress.join(course)
    if loaded is not None:
        course.follow(loaded)


def _find_obstacle(blueprint: Blueprint) -> str:
    """Say why there is no course of a run that could have one; empty: nothing is in the way."""
    if blueprint.config.sampling.inference == "worker":
        return "with --inference=worker where it is in them is not saved"
    num_bytes = blueprint.trajectories.num_bytes
    if num_bytes > _MAX_BYTES:
        return (
            f"its trajectories take {num_bytes >> 20:,} MiB, and up to {_MAX_BYTES >> 20} are saved with a checkpoint"
        )
    return ""


class _ResumeState:
    def __init__(self, blueprint: Blueprint, components: Sequence[Component], loop: EventLoop, runner: Runner) -> None:
        self._trajectories = blueprint.trajectories
        self._parts: dict[str, Any] = {
            each.name: each for each in components if hasattr(each, "course") and hasattr(each, "follow")
        }
        self._parts[runner.name] = runner.statistics
        self._workers = [each for each in components if isinstance(each, RolloutWorker)]
        self._runner = runner
        self._loop = loop
        self._channels = _list_channels(blueprint.channels)
        self._first_weights = [channel for channels in blueprint.channels.first_weights for channel in channels]
        memory = blueprint.trajectories
        layout = repr((blueprint.plan.fingerprint(), memory.layout, memory.num_bytes, blueprint.env_name))
        self._fingerprint = hashlib.sha256(layout.encode()).hexdigest()
        self._has_warned = False

    @property
    def is_offered(self) -> bool:
        """Whether all environments can be put back to where they are."""
        return all(worker.offers_course for worker in self._workers)

    def metric(self) -> float:
        """Return what the best policy is chosen by, over the latest of all episodes that have ended; NaN: too few."""
        self._count_episodes()
        metric = self._runner.statistics.metric(0)
        return math.nan if metric is None else metric

    def _count_episodes(self) -> None:
        """Have episodes counted that have ended: workers report them by the clock, which no course follows."""
        for worker in self._workers:
            worker.report_episodes()
        self._runner.take_reports()

    def take(self) -> dict[str, Any] | None:
        """Return the course as data that a checkpoint can hold; None if there is none."""
        if self._loop.is_handling:  # somebody has raised in the middle of a step
            return None
        self._count_episodes()
        parts = {name: part.course() for name, part in self._parts.items()}
        if any(course is None for course in parts.values()):
            return None
        try:
            return seal(
                {
                    "fingerprint": self._fingerprint,
                    "parts": parts,
                    "memory": self._trajectories.memory.copy(),
                    "channels": [channel.pending() for channel in self._channels],
                    "unhandled": [n for n, channel in enumerate(self._channels) if channel in self._loop.unhandled],
                    "random": (random.getstate(), np.random.get_state(legacy=False)),
                    "torch_random": _torch_states(),
                }
            )
        except TypeError as error:
            if not self._has_warned:
                self._has_warned = True
                logger.warning("Resumed, the run will begin new episodes: the state of an environment has %s", error)
            return None

    def follow(self, sealed: dict[str, Any]) -> None:
        """Put everything to where it was."""
        if isinstance(sealed, dict) and sealed.get("format") != SEAL_FORMAT:
            logger.info("Environments begin new episodes: another version of this program has saved where they were")
            return
        course = open_sealed(sealed)
        if course is None:
            logger.warning("Environments begin new episodes: where they were is damaged in the checkpoint")
            return
        if course.get("fingerprint") != self._fingerprint:
            logger.info("Environments begin new episodes: the run was laid out differently when it was saved")
            return
        try:
            for name, part in self._parts.items():
                part.follow(course["parts"][name])
            self._trajectories.put_back(course["memory"])
            for channel, values in zip(self._channels, course["channels"], strict=True):
                channel.receive()
                channel.send(values)
            if unhandled := [self._channels[number] for number in course["unhandled"]]:
                self._loop.begin_with([*self._first_weights, *unhandled])
            state, numpy_state = course["random"]
            random.setstate(state)
            _set_numpy_state(numpy_state)
            _set_torch_states(course.get("torch_random", []))  # checkpoints of earlier versions have none
        except EnvError:
            raise
        except (AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the course of the run in its checkpoint is of another version ({type(error).__name__}: {error}): use "
                "--load_checkpoint_kind=best if a best one was saved, another --experiment, or "
                "--restart_behavior=overwrite"
            ) from error
        logger.info("Environments go on where they were")


def _list_channels(channels: Channels) -> list[LocalChannel]:
    """Return all channels but those of the first weights, each once."""
    members = (
        *(channel for of_worker in channels.requests for channel in of_worker),
        *(*channels.actions, *channels.finished, *channels.datasets, *channels.trained, *channels.free),
    )
    return [channel for channel in dict.fromkeys(members) if isinstance(channel, LocalChannel)]


def _torch_states() -> list[Any]:
    """Return the states of PyTorch's own generators, which parts of a network may draw from: processor, then GPUs."""
    import torch  # only now: the Runner of a parallel run reads this module

    gpu_states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    return [torch.get_rng_state(), *gpu_states]


def _set_numpy_state(state: Any) -> None:
    position = state["state"]["pos"]
    if not 0 <= position <= _MT19937_WORDS:  # numpy would read behind the key
        raise ValueError(f"{position!r:.80} is no position in numpy's random numbers")
    np.random.set_state(state)


def _set_torch_states(states: Sequence[Any]) -> None:
    import torch

    if states:
        torch.set_rng_state(states[0])
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.set_rng_state_all(states[1 : 1 + torch.cuda.device_count()])
