"""Owns sampling groups in actors of Ray: where they are, what they were asked for, and who follows on a lost one."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sample_profiler.collector.caller import CollectorError
from sample_profiler.collector.sampling_group import GroupAnswer, GroupBegun, GroupOrder, SamplingGroup
from sample_profiler.config import Config
from sample_profiler.config.seeds import derive_seed
from sample_profiler.errors import ConfigError
from sample_profiler.runtime.machine.ray_cluster import (
    Places,
    as_remote,
    import_ray,
    join_cluster,
    num_reserved_cpus,
)
from sample_profiler.runtime.messages.heartbeats import FIRST_SIGN_S

__all__ = ["LOOK_S", "RemoteGroups"]

logger = logging.getLogger(__name__)

LOOK_S = 1.0
_PATIENCE_S = 0.25  # that an actor has with a batch before weights and commands have their turn
_END_S = 30.0  # for actors to end in order
_WINDOW_S = 3600.0
_TOLD_S = 30.0
_RECENT_S = 30.0  # that the mean share of the way is about
_AWAY_S = 5.0  # more between two looks was no silence of others


@dataclass
class _Group:
    """A sampling group, from here.

    Attributes:
        index: of it.
        actor: where it is.
        node: of Ray, on which it is or is to be; empty: wherever Ray has put it.
        pending: what it was asked for last and has not been seen to answer: one thing at a time, so that no more than
            a batch of it waits for the caller.
        asked_s: when that was, or when it had room to begin (monotonic clock).
        placing: answered as soon as it has room; None: it has.
        told_s: when it was last said that it has none.
        components: their names; None: its workers are not there yet.
        publishing: the weights that were last sent to it, until they have arrived.
        version: of these; -1: none.
        num_lost: how many have had its place and were lost.
    """

    index: int
    actor: Any
    node: str
    pending: Any
    asked_s: float
    placing: Any
    told_s: float = -math.inf
    components: list[str] | None = None
    publishing: Any = None
    version: int = -1
    num_lost: int = 0

    @property
    def is_beginning(self) -> bool:
        """Whether it has room, and its workers are not there yet."""
        return self.components is None and self.placing is None


class RemoteGroups:
    """Sampling groups in actors of Ray, each asked for one thing at a time, and replaced when it is lost.

    Weights go into the object store once a version, from where each node takes them once; those that come more quickly
    than they can be sent are left out, unless a batch is to be of the latest.

    Args:
        config: of all of them.
        order: what each is to be, but for its seed.
        spares_own_node: whether the node of this process is used only where there is no room on others.
        patience_s: for which a cluster that has lost something is waited for; 0: it has to be there, with enough room.

    Attributes:
        order: what those are to be that are started from now on.
        way_share: which part of the time for which groups are asked for batches these, and what they are asked with,
            are on their way, or lie there until somebody looks: a mean of the latest.

    Raises:
        ConfigError: Ray is missing, there is no such cluster, or it has no room.
    """

    def __init__(self, config: Config, order: GroupOrder, *, spares_own_node: bool, patience_s: float = 0.0) -> None:
        self._ray = import_ray()
        self._config = config
        self.order = order
        self.way_share = 0.0
        self._weights: Any = None
        self._version = -1
        self._frames = 0
        self._losses_s: deque[float] = deque()
        self._looked_s = time.monotonic()
        self._owns_cluster = join_cluster(self._ray, config, patience_s)
        self._own_nodes = {self._ray.get_runtime_context().get_node_id()} if spares_own_node else set()
        self._places = Places(self._ray, num_reserved_cpus(config), self._own_nodes)
        self._groups: deque[_Group] = deque()  # the next to be looked at first

    def start(self) -> None:
        """Start as many groups as asked; how that goes is found out later."""
        for index in range(self._config.remote.ray_actors):
            self._groups.append(self._start(index))

    def await_begin(self) -> None:
        """Wait until all groups have begun; replace those that are lost meanwhile.

        Raises:
            CollectorError: one cannot.
        """
        while any(group.components is None for group in self._groups):
            self.take(LOOK_S)

    def grow(self) -> None:
        """Start a group on a node that has none, as far as more are wanted; one at a time."""
        has_all = len(self._groups) >= self._config.remote.max_nodes
        if has_all or any(group.components is None for group in self._groups):
            return
        node = self._find_place()
        if node and node not in self._own_nodes and all(group.node != node for group in self._groups):
            logger.info("Another node of the cluster samples from now on: actor %d", len(self._groups))
            self._groups.append(self._start(len(self._groups), node=node))

    def __len__(self) -> int:
        return len(self._groups)

    def components(self) -> dict[int, list[str]]:
        """Return the names of the components of all groups that have begun, by group."""
        return {group.index: group.components for group in self._in_order() if group.components}

    def publish(self, weights: Mapping[str, Any], version: int, frames: int = 0) -> None:
        """Put weights into the object store, and tell all groups.

        Args:
            weights: arrays by name.
            version: of them.
            frames: that they have been trained on.
        """
        self._weights, self._version, self._frames = self._ray.put(dict(weights)), version, frames
        for group in self._groups:
            self._send_weights(group)

    def ask(self, indices: Collection[int] | None = None, *, of_latest: bool = False) -> None:
        """Ask groups for batches that have nothing else to do.

        Args:
            indices: of the groups; None: all.
            of_latest: whether they are to have the latest weights first.
        """
        for group in self._groups:
            if group.pending is None and (indices is None or group.index in indices):
                self._send_weights(group, is_needed=of_latest)
                group.pending, group.asked_s = group.actor.collect.remote(_PATIENCE_S), time.monotonic()

    def take(self, timeout_s: float) -> list[tuple[int, GroupAnswer]]:
        """Return which groups have answered, and what; replace those that are lost.

        Args:
            timeout_s: for which the first of them is waited for, and taken alone; 0: all are taken that have answered.

        Raises:
            CollectorError: a group has failed, or one that is lost is not to be replaced.
        """
        by_answer = {group.pending: group for group in self._groups if group.pending is not None}
        if not by_answer:
            return []
        num_wanted = 1 if timeout_s else len(by_answer)
        ready, _ = self._ray.wait(list(by_answer), num_returns=num_wanted, timeout=timeout_s)
        taken = [(by_answer[answer], self._take_answer(by_answer[answer])) for answer in ready]
        for group, answer in taken:
            if answer and answer.batch is not None:
                self._groups.rotate(-1 - self._groups.index(group))  # who has not given one has the next turn
        self._look_for_silent()
        return [(group.index, answer) for group, answer in taken if answer is not None]

    def call(
        self, method: str, arguments: Mapping[int, Mapping[str, tuple[Any, ...]]], timeout_s: float
    ) -> dict[int, GroupAnswer]:
        """Have groups call a method of their components.

        Args:
            method: of the components.
            arguments: of the call, by group, by component.
            timeout_s: for each of them.

        Raises:
            CollectorError: a group has failed, is lost, or does not answer in time.
        """
        asked = {
            group.index: (group, group.actor.call.remote(method, arguments[group.index], timeout_s))
            for group in self._groups
            if group.index in arguments
        }
        return {index: self._get(group, answer, timeout_s + LOOK_S) for index, (group, answer) in asked.items()}

    def shutdown(self) -> Iterator[GroupAnswer]:
        """Let all groups finish, and return what they still have to say."""
        ray = self._ray
        if not ray.is_initialized():  # its user has left the cluster, and all actors with it
            return
        begun = [group for group in self._groups if group.components is not None]
        for group in self._groups:
            if group not in begun:
                ray.kill(group.actor)
        endings = {group.actor.shutdown.remote(): group for group in begun}
        deadline_s = time.monotonic() + _END_S
        for ending, group in endings.items():
            try:
                yield ray.get(ending, timeout=max(0.0, deadline_s - time.monotonic()))
            except ray.exceptions.RayError as error:
                logger.warning("Actor %d did not end in order: %s", group.index, _first_line(error))
            ray.kill(group.actor)
        if self._owns_cluster:
            ray.shutdown()

    def _in_order(self) -> list[_Group]:
        return sorted(self._groups, key=lambda group: group.index)

    def _find_place(self) -> str:
        return self._places.find(Counter(group.node for group in self._groups))

    def _start(self, index: int, num_lost: int = 0, node: str = "") -> _Group:
        """Make an actor and tell it what to be; whether there is room for it, and how it goes, is found out later."""
        config, ray = self._config, self._ray
        node = node or self._find_place()
        self._places.add(node)
        place = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=True) if node else "SPREAD"
        run = replace(config.run, seed=derive_seed(config.run.seed or 0, index, num_lost))
        order = replace(self.order, config=replace(self.order.config, run=run))
        actor = as_remote(SamplingGroup, num_cpus=num_reserved_cpus(config), scheduling_strategy=place).remote()
        placing, pending = actor.__ray_ready__.remote(), actor.begin.remote(order)
        return _Group(index, actor, node, pending, time.monotonic(), placing, num_lost=num_lost)

    def _send_weights(self, group: _Group, *, is_needed: bool = False) -> None:
        if group.components is None or group.version == self._version:
            return
        if group.publishing is not None and not is_needed and not self._answered([group.publishing]):
            return
        group.publishing = group.actor.publish.remote(self._weights, self._version, self._frames)
        group.version = self._version

    def _take_answer(self, group: _Group) -> GroupAnswer | None:
        """Return what a group has to give; None: nothing, as one that has begun, or that was lost and is replaced."""
        answer, group.pending = group.pending, None
        try:
            said: GroupAnswer | GroupBegun = self._get(group, answer)
        except _LostError as error:
            self._replace(group, str(error))
            return None
        if isinstance(said, GroupBegun):
            group.components, group.node = said.components, said.node
            logger.info("Actor %d samples on node %s", group.index, group.node)
            return None
        self._note_way(time.monotonic() - group.asked_s, said.took_s)
        return said

    def _note_way(self, passed_s: float, took_s: float) -> None:
        if passed_s > 0:
            share = max(0.0, 1 - took_s / passed_s)
            self.way_share += min(1.0, passed_s / _RECENT_S) * (share - self.way_share)

    def _look_for_silent(self) -> None:
        self._note_absence()
        self._note_placed()
        now_s, limit_s = time.monotonic(), self._config.faults.hang_timeout + _PATIENCE_S
        # Who has room and begins loads libraries and makes environments, as all others may at the moment.
        first_s = max(limit_s, FIRST_SIGN_S)
        late = [
            group
            for group in self._groups
            if group.pending is not None and now_s - group.asked_s >= (first_s if group.is_beginning else limit_s)
        ]
        answered = self._answered([group.pending for group in late if group.placing is None])
        for group in late:
            silent_s = now_s - group.asked_s
            if group.placing is not None:
                if now_s - group.told_s >= _TOLD_S:
                    logger.warning("Actor %d has waited for room in the cluster for %.0f s", group.index, silent_s)
                    group.told_s = now_s
            elif group.pending not in answered and not self._config.sampling.serial_mode:
                self._ray.kill(group.actor)
                self._replace(group, f"it gave no sign of life for {silent_s:.0f} s")

    def _note_absence(self) -> None:
        """Let no time count as silence in which this process was away itself, as with a machine that is paused."""
        now_s = time.monotonic()
        away_s = max(0.0, now_s - self._looked_s - _AWAY_S)
        self._looked_s = now_s
        for group in self._groups:
            group.asked_s = min(now_s, group.asked_s + away_s)

    def _note_placed(self) -> None:
        """See who has got room: the time that it takes to begin counts from then on."""
        waiting = {group.placing: group for group in self._groups if group.placing is not None}
        for placing in self._answered(list(waiting)):
            waiting[placing].placing, waiting[placing].asked_s = None, time.monotonic()

    def _answered(self, pending: list[Any]) -> list[Any]:
        """Return what is there by now of what groups were asked for, wherever in the cluster."""
        if not pending:
            return []
        answered: list[Any]
        answered, _ = self._ray.wait(pending, num_returns=len(pending), timeout=0, fetch_local=False)
        return answered

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
        place = self._groups.index(group)
        self._groups.remove(group)
        self._places.lose(group.node)
        self._groups.insert(place, self._start(group.index, group.num_lost + 1))

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


class _LostError(CollectorError):
    """An actor has ended that was not asked to."""


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
