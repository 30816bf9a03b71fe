"""Owns the backend of a Collector whose workers run in actors of Ray, each of them a sampling group on some node."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sample_profiler.collector.batch import Batch
from sample_profiler.collector.caller import MAX_EPISODES, CollectorError
from sample_profiler.collector.remote_groups import LOOK_S, RemoteGroups
from sample_profiler.collector.sampling_group import GroupAnswer, GroupOrder
from sample_profiler.component_id import INFERENCE_WORKER, ROLLOUT_WORKER, ComponentId
from sample_profiler.components.messages import EpisodeStatistics
from sample_profiler.config import Config
from sample_profiler.errors import ConfigError
from sample_profiler.files import written_whole
from sample_profiler.run.layout.blueprint import Blueprint
from sample_profiler.runtime.commands.commands import CommandResult

__all__ = ["RayBackend"]

logger = logging.getLogger(__name__)


class RayBackend:
    """Sampling groups in actors of Ray.

    With ``--async_rl=True`` a batch is of one group, whichever has one first. Else each group samples an equal part of
    every batch.

    Args:
        blueprint: of one group.

    Attributes:
        episodes: that have ended and that nobody has taken yet.

    Raises:
        CollectorError: a group cannot begin.
        ConfigError: Ray is missing, there is no such cluster, or it has no room.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        self._config = config = blueprint.config
        order = GroupOrder(_part_of(config), blueprint.env_spec, blueprint.env_payload, blueprint.model_payload)
        self._batches: deque[Batch] = deque()
        self._process = os.getpid()
        self._is_shut_down = False
        self.episodes: deque[EpisodeStatistics] = deque(maxlen=MAX_EPISODES)
        self._groups = RemoteGroups(config, order, spares_own_node=False)
        try:
            self._groups.start()
            self._groups.await_begin()
        except BaseException:
            self.shutdown()
            raise

    def components(self) -> list[str]:
        """Return the names of all components: those of the first group, then of the second, and so on."""
        by_group = self._groups.components()
        return [self._global_name(name, index) for index, names in by_group.items() for name in names]

    def publish(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """Put the weights into the object store, and tell all groups."""
        self._check()
        self._groups.publish({name: tensor.detach().cpu().numpy() for name, tensor in state.items()}, version)

    def collect(self, version: int) -> Batch:
        """Wait for a batch of any group, or for a part of one from each."""
        self._check()
        is_async = self._config.sampling.async_rl
        asked = None if is_async else set(range(len(self._groups)))
        num_parts = 1 if asked is None else len(asked)
        while len(self._batches) < num_parts:
            self._groups.ask(asked, of_latest=not is_async)
            self._take(asked)
        batch = _joined([self._batches.popleft() for _ in range(num_parts)])
        if is_async:
            self._groups.grow()
            self._groups.ask()  # who has given a batch samples the next meanwhile
        lag = version - batch["policy_versions"]
        batch["valid"] &= lag <= self._config.sampling.max_policy_lag
        return batch

    def call(self, method: str, arguments: Mapping[str, tuple[Any, ...]], timeout_s: float) -> dict[str, CommandResult]:
        """Have each group call the method of its components."""
        self._check()
        of_groups: dict[int, dict[str, tuple[Any, ...]]] = {}
        for index, names in self._groups.components().items():
            for name in names:
                if (everywhere := self._global_name(name, index)) in arguments:
                    of_groups.setdefault(index, {})[name] = arguments[everywhere]
        results: dict[str, CommandResult] = {}
        for index, answer in self._groups.call(method, of_groups, timeout_s).items():
            self._take_in(answer)
            for name, result in answer.results.items():
                everywhere = self._global_name(name, index)
                results[everywhere] = replace(result, component=everywhere)
        return {name: results[name] for name in arguments}

    def shutdown(self) -> None:
        """Let all groups finish; doing so again does nothing, nor does it in a forked copy of this process."""
        if self._is_shut_down or os.getpid() != self._process:
            return
        self._is_shut_down = True
        for answer in self._groups.shutdown():
            self._take_in(answer)

    def _take(self, asked: set[int] | None) -> None:
        for index, answer in self._groups.take(LOOK_S):
            self._take_in(answer)
            if answer.batch is None:
                continue
            batch = _to_tensors(answer.batch)
            batch["workers"] += index * self._config.sampling.num_workers
            self._batches.append(batch)
            if asked is not None:
                asked.discard(index)

    def _take_in(self, answer: GroupAnswer) -> None:
        """Keep the episodes, and write the traces where they were wanted: here."""
        self.episodes.extend(answer.episodes)
        for path, data in answer.traces:
            _write(Path(path), data)

    def _global_name(self, name: str, index: int) -> str:
        """Return what a component of a group is called among those of all groups."""
        component, sampling = ComponentId.parse(name), self._config.sampling
        per_group = {ROLLOUT_WORKER: sampling.num_workers, INFERENCE_WORKER: sampling.policy_workers_per_policy}
        return str(replace(component, index=(component.index or 0) + index * per_group[component.kind]))

    def _check(self) -> None:
        if self._is_shut_down:
            raise CollectorError("the collector has been shut down: make a new one")


def _part_of(config: Config) -> Config:
    """Return the configuration of a group: it samples batches of its own, or a part of each.

    Raises:
        ConfigError: a batch cannot be divided.
    """
    sampling, num_parts = config.sampling, config.remote.ray_actors
    local = replace(config, remote=replace(config.remote, backend="local"))
    if sampling.async_rl:
        return local
    if config.remote.max_nodes > num_parts:
        raise ConfigError(
            [
                f"--max_nodes={config.remote.max_nodes} with --async_rl=False: each of the actors there are has its "
                "part of every batch, so there can be no more of them later: use --async_rl=True, or more --ray_actors"
            ]
        )
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
