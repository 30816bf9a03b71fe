"""Owns what an actor of Ray is to a Collector or a run: a sampling group, with workers and inference of its own.

Runs in the actor's process, on whatever node that is; its workers are what they are on the caller's machine, over
shared memory of that node. What comes from it and goes to it are arrays and plain data.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sample_profiler.collector.backends import SerialBackend
from sample_profiler.collector.layout import lay_out, make_local_backend
from sample_profiler.collector.processes import ProcessBackend
from sample_profiler.components.messages import Counters, EpisodeStatistics
from sample_profiler.config import Config
from sample_profiler.envs import EnvSpec, import_registration
from sample_profiler.model.registry import import_model_parts
from sample_profiler.profiling.captures.rollouts.request import ProfileRequest
from sample_profiler.profiling.ranges import set_profiling_enabled
from sample_profiler.runtime.commands.commands import CommandResult
from sample_profiler.runtime.machine.ray_cluster import import_ray
from sample_profiler.runtime.processes.main_module import import_no_main_module

__all__ = ["GroupAnswer", "GroupBegun", "GroupOrder", "SamplingGroup"]

Arrays = dict[str, Any]
"""Arrays by name; some entries are dicts of arrays."""


@dataclass(frozen=True)
class GroupOrder:
    """What a sampling group is to be.

    Attributes:
        config: of it, with seeds of its own.
        env_spec: of the environment.
        env_payload: how to make it.
        model_payload: parts of networks that the user has registered.
        frames: that its policy has been trained on, for environments that want to know; None: nobody trains it here.
            Else what the group gives are slots as they are (`Trajectories.copy_out`), instead of batches of a
            Collector's.
    """

    config: Config
    env_spec: EnvSpec
    env_payload: bytes
    model_payload: dict[str, bytes]
    frames: int | None = None


@dataclass(frozen=True)
class GroupBegun:
    """A group has begun.

    Attributes:
        components: their names.
        node: of Ray, on which it is.
    """

    components: list[str]
    node: str


@dataclass(frozen=True)
class GroupAnswer:
    """What a group has to give.

    Attributes:
        batch: arrays as the order wants them; None: there are not enough trajectories yet.
        episodes: that have ended since the last answer.
        results: of a command, by component.
        traces: captures that have ended: where they are to go, and their bytes.
        took_s: how long the group has worked on a batch, or waited for its workers; the rest is the way.
    """

    batch: Arrays | None = None
    episodes: tuple[EpisodeStatistics, ...] = ()
    results: dict[str, CommandResult] = field(default_factory=dict)
    traces: tuple[tuple[str, bytes], ...] = ()
    took_s: float = 0.0


class SamplingGroup:
    """Workers on this node. Made empty, and then told by `begin` what to be: what that raises has its own type."""

    def __init__(self) -> None:
        self._backend: SerialBackend | ProcessBackend | None = None
        self._copy: Callable[[Sequence[int]], Arrays] = self._copy_batch
        self._counters: Counters | None = None
        self._version = 0
        self._traces: dict[Path, str] = {}
        self._folder: Path | None = None

    def begin(self, order: GroupOrder) -> GroupBegun:
        """Start the workers.

        Raises:
            ConfigError: there is no such device, or no room for so many processes.
        """
        import_no_main_module()
        logging.getLogger().setLevel(logging.WARNING)
        import_registration(order.config.run.env, order.env_payload)
        import_model_parts(order.model_payload)
        blueprint = lay_out(order.config, order.env_spec)
        self._counters = blueprint.counters
        if order.frames is not None:
            blueprint = replace(blueprint, first_frames=(order.frames,))
            self._copy = blueprint.trajectories.copy_out
        self._backend = make_local_backend(blueprint)
        return GroupBegun(self._backend.components(), import_ray().get_runtime_context().get_node_id())

    def publish(self, weights: Arrays, version: int, frames: int = 0) -> None:
        """Have actions drawn with these weights from now on.

        Args:
            weights: by name.
            version: of them.
            frames: that they have been trained on.
        """
        # Arrays from the object store cannot be written to, of which torch warns.
        state = {name: torch.from_numpy(np.array(values)) for name, values in weights.items()}
        self._workers.publish(state, version)
        self._version = version
        assert self._counters is not None, "begin comes first"
        self._counters.trained_frames[0] = frames

    def collect(self, patience_s: float) -> GroupAnswer:
        """Return a batch, or none where that takes longer, so that weights and commands have their turn.

        Raises:
            CollectorError: a component has failed.
        """
        begin_s = time.monotonic()
        answer = self._answer(batch=self._workers.collect_within(patience_s, self._copy))
        return replace(answer, took_s=time.monotonic() - begin_s)

    def call(self, method: str, arguments: Mapping[str, tuple[Any, ...]], timeout_s: float) -> GroupAnswer:
        """Call a method of some components.

        Raises:
            CollectorError: a component has failed, or not answered in time.
        """
        if method == "enable_profile":
            arguments = {name: (self._keep_here(request),) for name, (request,) in arguments.items()}
        if method == "set_profiling_enabled":
            set_profiling_enabled(*next(iter(arguments.values())))
        results = self._workers.call(method, arguments, timeout_s)
        if method == "disable_profile":
            results = {name: self._with_wanted_path(result) for name, result in results.items()}
        return self._answer(results=results)

    def shutdown(self) -> GroupAnswer:
        """End all workers, and captures with them."""
        if self._backend is not None:
            self._backend.shutdown()
        answer = self._answer()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        return answer

    def _copy_batch(self, slots: Sequence[int]) -> Arrays:
        return to_arrays(self._workers.as_batch(slots, self._version))

    @property
    def _workers(self) -> SerialBackend | ProcessBackend:
        assert self._backend is not None, "begin comes first"
        return self._backend

    def _keep_here(self, request: ProfileRequest) -> ProfileRequest:
        """Let a trace be written on this node, from where it is sent as soon as it is whole."""
        self._folder = self._folder or Path(tempfile.mkdtemp(prefix="sample_profiler_traces_"))
        path = self._folder / f"{len(self._traces)}_{Path(request.path).name}"
        self._traces[path] = request.path
        return replace(request, path=str(path))

    def _with_wanted_path(self, result: CommandResult) -> CommandResult:
        return (
            result
            if result.value is None
            else replace(result, value=self._traces.get(Path(result.value), result.value))
        )

    def _answer(self, batch: Arrays | None = None, results: dict[str, CommandResult] | None = None) -> GroupAnswer:
        episodes: tuple[EpisodeStatistics, ...] = ()
        if self._backend is not None:
            episodes = tuple(self._backend.episodes)
            self._backend.episodes.clear()
        ended = [path for path in self._traces if path.exists()]
        traces = tuple((self._traces.pop(path), path.read_bytes()) for path in ended)
        for path in ended:
            path.unlink()
        return GroupAnswer(batch, episodes, results or {}, traces)


def to_arrays(batch: Mapping[str, Any]) -> Arrays:
    """Return a batch with arrays in the place of tensors: the object store keeps their bytes apart, uncopied."""
    return {name: to_arrays(each) if isinstance(each, Mapping) else each.numpy() for name, each in batch.items()}
