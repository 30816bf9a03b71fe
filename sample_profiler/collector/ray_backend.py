"""Owns the backend of a Collector whose workers run in actors of Ray, each of them a sampling group on some node."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sample_profiler.collector.batch import Batch
from sample_profiler.collector.caller import MAX_EPISODES, CollectorError
from sample_profiler.collector.sampling_group import GroupAnswer, GroupOrder, SamplingGroup
from sample_profiler.component_id import INFERENCE_WORKER, ROLLOUT_WORKER, ComponentId
from sample_profiler.components.messages import EpisodeStatistics
from sample_profiler.config import Config
from sample_profiler.config.seeds import derive_seed
from sample_profiler.errors import ConfigError
from sample_profiler.files import written_whole
from sample_profiler.run.layout.blueprint import Blueprint
from sample_profiler.runtime.commands.commands import CommandResult
from sample_profiler.runtime.machine.ray_cluster import as_remote, import_ray, join_cluster, num_reserved_cpus

__all__ = ["RayBackend"]

logger = logging.getLogger(__name__)

_PATIENCE_S = 0.25  # that an actor has with a batch before weights and commands have their turn
_LOOK_S = 1.0
_END_S = 30.0  # for actors to end in order
_WINDOW_S = 3600.0
_TOLD_S = 30.0


@dataclass
class _Group:
    """A sampling group, from here.

    Attributes:
        index: of it.
        actor: where it is.
        pending: what it was asked for last and has not been seen to answer: one thing at a time, so that no more than
            a batch of it waits for the caller.
        asked_s: when that was (monotonic clock).
        has_begun: whether its workers are there.
        publishing: the weights that were last sent to it, until they have arrived.
        version: of these; -1: none.
        num_lost: how many have had its place and were lost.
    """

    index: int
    actor: Any
    pending: Any = None
    asked_s: float = 0.0
    has_begun: bool = False
    publishing: Any = None
    version: int = -1
    num_lost: int = 0


class RayBackend:
    """Sampling groups in actors of Ray.

    With ``--async_rl=True`` a batch is of one group, whichever has one first. Else each group samples an equal part of
    every batch. Weights go into the object store once a version, from where each node takes them once.

    Args:
        blueprint: of one group.

    Attributes:
        episodes: that have ended and that nobody has taken yet.

    Raises:
        CollectorError: a group cannot begin.
        ConfigError: Ray is missing, there is no such cluster, or it has no room.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        self._ray = import_ray()
        self._config = config = blueprint.config
        self._num_groups = config.remote.ray_actors
        self._order = GroupOrder(_part_of(config), blueprint.env_spec, blueprint.env_payload, blueprint.model_payload)
        self._names: list[str] = []  # of the components of one group
        self._weights: Any = None
        self._version = -1
        self._batches: deque[Batch] = deque()
        self._losses_s: deque[float] = deque()
        self._process = os.getpid()
        self._is_shut_down = False
        self.episodes: deque[EpisodeStatistics] = deque(maxlen=MAX_EPISODES)
        self._owns_cluster = join_cluster(self._ray, config)
        self._groups: deque[_Group] = deque()  # the next to be looked at first
        try:
            for index in range(self._num_groups):
                self._groups.append(self._start(index))
            for group in self._groups:
                self._names = self._get(group, group.pending)
                group.has_begun, group.pending = True, None
        except BaseException:
            self.shutdown()
            raise

    def components(self) -> list[str]:
        """Return the names of all components: those of the first group, then of the second, and so on."""
        return [self._global_name(name, index) for index in range(self._num_groups) for name in self._names]

    def publish(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """Put the weights into the object store, and tell all groups."""
        self._check()
        self._weights = self._ray.put({name: tensor.detach().cpu().numpy() for name, tensor in state.items()})
        self._version = version
        for group in self._groups:
            self._send_weights(group)

    def collect(self, version: int) -> Batch:
        """Wait for a batch of any group, or for a part of one from each."""
        self._check()
        is_async = self._config.sampling.async_rl
        num_parts = 1 if is_async else self._num_groups
        asked = set() if is_async else {group.index for group in self._groups}
        while len(self._batches) < num_parts:
            for group in self._groups:
                if group.pending is None and (is_async or group.index in asked):
                    self._ask(group)
            self._wait(asked)
        batch = _joined([self._batches.popleft() for _ in range(num_parts)])
        lag = version - batch["policy_versions"]
        batch["valid"] &= lag <= self._config.sampling.max_policy_lag
        return batch

    def call(self, method: str, arguments: Mapping[str, tuple[Any, ...]], timeout_s: float) -> dict[str, CommandResult]:
        """Have each group call the method of its components."""
        self._check()
        asked = {}
        for group in self._groups:
            of_group = {name: self._global_name(name, group.index) for name in self._names}
            own = {name: arguments[everywhere] for name, everywhere in of_group.items() if everywhere in arguments}
            if own:
                asked[group.index] = group, group.actor.call.remote(method, own, timeout_s)
        results: dict[str, CommandResult] = {}
        for group, answer in asked.values():
            for name, result in self._take_in(self._get(group, answer, timeout_s + _LOOK_S)).results.items():
                everywhere = self._global_name(name, group.index)
                results[everywhere] = replace(result, component=everywhere)
        return {name: results[name] for name in arguments}

    def shutdown(self) -> None:
        """Let all groups finish; doing so again does nothing, nor does it in a forked copy of this process."""
        if self._is_shut_down or os.getpid() != self._process:
            return
        self._is_shut_down = True
        ray = self._ray
        if not ray.is_initialized():  # its user has left the cluster, and all actors with it
            return
        endings = {group.actor.shutdown.remote(): group for group in self._groups}
        deadline_s = time.monotonic() + _END_S
        for ending, group in endings.items():
            try:
                self._take_in(ray.get(ending, timeout=max(0.0, deadline_s - time.monotonic())))
            except ray.exceptions.RayError as error:
                logger.warning("Actor %d did not end in order: %s", group.index, _first_line(error))
            ray.kill(group.actor)
        if self._owns_cluster:
            ray.shutdown()

    def _start(self, index: int, num_lost: int = 0) -> _Group:
        """Make an actor and tell it what to be; whether there is room for it, and how it goes, is found out later."""
        config = self._config
        seed = derive_seed(config.run.seed or 0, index, num_lost)
        order = replace(self._order, config=replace(self._order.config, run=replace(config.run, seed=seed)))
        actor_class = as_remote(SamplingGroup, num_cpus=num_reserved_cpus(config), scheduling_strategy="SPREAD")
        actor = actor_class.remote()
        return _Group(index, actor, actor.begin.remote(order), time.monotonic(), num_lost=num_lost)

    def _ask(self, group: _Group) -> None:
        self._send_weights(group)
        group.pending, group.asked_s = group.actor.collect.remote(_PATIENCE_S), time.monotonic()

    def _send_weights(self, group: _Group) -> None:
        """Send the latest weights, unless others are still on their way; those that come too quickly are left out."""
        if not group.has_begun or group.version == self._version:
            return
        if group.publishing is not None and not self._ray.wait([group.publishing], timeout=0)[0]:
            return
        group.publishing = group.actor.publish.remote(self._weights, self._version)
        group.version = self._version

    def _wait(self, asked: set[int]) -> None:
        """Wait until a group has answered, and take in what it says."""
        by_answer = {group.pending: group for group in self._groups if group.pending is not None}
        ready, _ = self._ray.wait(list(by_answer), num_returns=1, timeout=_LOOK_S)
        for answer in ready:
            group = by_answer[answer]
            has_given = self._take_answer(group)
            if has_given:
                asked.discard(group.index)
                self._groups.rotate(-1 - self._groups.index(group))  # who has not given one has the next turn
        self._look_for_silent()

    def _take_answer(self, group: _Group) -> bool:
        """Return whether a group has given a batch; replace it if it is lost."""
        answer, group.pending = group.pending, None
        try:
            said = self._get(group, answer)
        except _LostError as error:
            self._replace(group, str(error))
            return False
        if not group.has_begun:
            group.has_begun = True
            return False
        batch = self._take_in(said).batch
        if batch is None:
            return False
        batch = _to_tensors(batch)
        batch["workers"] += group.index * self._config.sampling.num_workers
        self._batches.append(batch)
        if self._config.sampling.async_rl:
            self._ask(group)
        return True

    def _look_for_silent(self) -> None:
        limit_s = self._config.faults.hang_timeout + _PATIENCE_S
        for group in list(self._groups):
            silent_s = time.monotonic() - group.asked_s
            if group.pending is None or silent_s < limit_s or self._config.sampling.serial_mode:
                continue
            if group.has_begun:
                self._ray.kill(group.actor)
                self._replace(group, f"it gave no sign of life for {silent_s:.0f} s")
            elif silent_s % _TOLD_S < _LOOK_S:
                logger.warning("Actor %d has waited for room in the cluster for %.0f s", group.index, silent_s)

    def _replace(self, group: _Group, why: str) -> None:
        """Put another actor in the place of a lost one.

        Raises:
            CollectorError: that is not wanted, or has been done too often.
        """
        faults, now_s = self._config.faults, time.monotonic()
        while self._losses_s and now_s - self._losses_s[0] > _WINDOW_S:
            self._losses_s.popleft()
        if faults.on_worker_failure == "stop":
            raise CollectorError(f"actor {group.index} is lost: {why}")
        if len(self._losses_s) >= faults.max_worker_restarts:
            raise CollectorError(
                f"actor {group.index} is lost: {why}; {len(self._losses_s)} have been replaced within an hour "
                f"(--max_worker_restarts={faults.max_worker_restarts})"
            )
        self._losses_s.append(now_s)
        logger.warning("Actor %d is lost: %s. Another one takes its place, and begins new episodes", group.index, why)
        self._groups[self._groups.index(group)] = self._start(group.index, group.num_lost + 1)

    def _get(self, group: _Group, answer: Any, timeout_s: float | None = None) -> Any:
        """Return what a group has answered.

        Raises:
            CollectorError: it raised, or did not answer in time.
            _LostError: it is lost.
        """
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(answer, timeout=timeout_s)
        except exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, CollectorError | ConfigError):
                raise CollectorError(f"actor {group.index}: {cause}") from None
            raise CollectorError(f"actor {group.index} failed: {error}") from error
        except exceptions.GetTimeoutError as error:
            raise CollectorError(f"actor {group.index} did not answer within {timeout_s:g} seconds") from error
        except exceptions.RayError as error:
            raise _LostError(_first_line(error)) from error

    def _take_in(self, answer: GroupAnswer) -> GroupAnswer:
        """Keep the episodes, and write the traces where they were wanted: here."""
        self.episodes.extend(answer.episodes)
        for path, data in answer.traces:
            _write(Path(path), data)
        return answer

    def _global_name(self, name: str, index: int) -> str:
        """Return what a component of a group is called among those of all groups."""
        component, sampling = ComponentId.parse(name), self._config.sampling
        per_group = {ROLLOUT_WORKER: sampling.num_workers, INFERENCE_WORKER: sampling.policy_workers_per_policy}
        return str(replace(component, index=(component.index or 0) + index * per_group[component.kind]))

    def _check(self) -> None:
        if self._is_shut_down:
            raise CollectorError("the collector has been shut down: make a new one")


class _LostError(CollectorError):
    """An actor has ended that was not asked to."""


def _part_of(config: Config) -> Config:
    """Return the configuration of a group: it samples batches of its own, or a part of each.

    Raises:
        ConfigError: a batch cannot be divided.
    """
    sampling, num_parts = config.sampling, config.remote.ray_actors
    local = replace(config, remote=replace(config.remote, backend="local"))
    if sampling.async_rl:
        return local
    if sampling.batch_size % (num_parts * sampling.rollout):
        fitting = max(1, sampling.batch_size // (num_parts * sampling.rollout)) * num_parts * sampling.rollout
        raise ConfigError(
            [
                f"--batch_size={sampling.batch_size} cannot be divided among --ray_actors={num_parts}: with "
                f"--async_rl=False each samples whole rollouts of {sampling.rollout} steps for every batch; use for "
                f"example --batch_size={fitting}"
            ]
        )
    return replace(local, sampling=replace(sampling, batch_size=sampling.batch_size // num_parts))


def _to_tensors(arrays: Mapping[str, Any]) -> Batch:
    """Copy arrays out of the object store, which keeps them for no longer then."""
    return {
        name: _to_tensors(each) if isinstance(each, Mapping) else torch.from_numpy(np.array(each))
        for name, each in arrays.items()
    }


def _joined(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    return {
        name: _joined([batch[name] for batch in batches])
        if isinstance(each, Mapping)
        else torch.cat([batch[name] for batch in batches])
        for name, each in batches[0].items()
    }


def _write(path: Path, data: bytes) -> None:
    try:
        with written_whole(path) as partial:
            partial.write_bytes(data)
    except OSError as error:
        logger.warning("The trace %s cannot be written: %s", path, error)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
