"""The RemoteSampler: brings the Learner of a run trajectories of sampling groups on other nodes of a cluster of Ray.

Runs in a process of its own on the Learner's node. To Batcher and Learner it is one more RolloutWorker: it fills slots
of its own, sends their numbers on, and gets them back. What it has no slots for stays where it was sampled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sample_profiler.collector.remote_groups import RemoteGroups
from sample_profiler.collector.sampling_group import Arrays, GroupAnswer
from sample_profiler.component_id import REMOTE_SAMPLER
from sample_profiler.components.messages import Counters, EpisodesFinished, EpisodeStatistics
from sample_profiler.model import PolicyNetwork
from sample_profiler.profiling import Timing
from sample_profiler.profiling.record.flows import SLOT, START, flow_point
from sample_profiler.runtime.loop.event_loop import Input, Timer
from sample_profiler.runtime.messages.channels import Channel, Reports
from sample_profiler.storage.policy_weights import PolicyWeights
from sample_profiler.storage.trajectories import Trajectories
from sample_profiler.vocabulary import FOR_ACTORS, FOR_LEARNER, FREE_SLOTS, WAIT, WAY_SHARE

__all__ = ["RemoteSampler", "RemoteSamplerMemory", "RemoteSamplerPorts"]

_LOOK_INTERVAL_S = 0.02
_GROW_INTERVAL_S = 5.0
_REPORT_INTERVAL_S = 1.0


@dataclass(frozen=True)
class RemoteSamplerPorts:
    """Where a RemoteSampler listens and talks.

    Attributes:
        free: slots that it may fill again.
        finished: slots that it has filled.
        reports: to the Runner.
    """

    free: Channel
    finished: Channel
    reports: Reports


@dataclass(frozen=True)
class RemoteSamplerMemory:
    """What a RemoteSampler reads and writes beside its own state."""

    trajectories: Trajectories
    weights: PolicyWeights
    counters: Counters


class RemoteSampler:
    """Samples by means of groups on other nodes.

    Args:
        worker: its number among the workers of the run.
        dataset_slots: trajectories that a group gives at once.
        free: slots that it may fill at the beginning.
        groups: on other nodes.
        network: like the Learner's, for its weights.
        memory: shared memory.
        ports: where to listen and talk.
        timing: of it.
    """

    def __init__(
        self,
        worker: int,
        dataset_slots: int,
        free: deque[int],
        groups: RemoteGroups,
        network: PolicyNetwork,
        memory: RemoteSamplerMemory,
        ports: RemoteSamplerPorts,
        timing: Timing,
    ) -> None:
        self.name = REMOTE_SAMPLER
        self.timing = timing
        self._worker = worker
        self._dataset_slots = dataset_slots
        self._free = free
        self._groups = groups
        self._state = network.state_dict()
        self._memory = memory
        self._ports = ports
        self._version = -1
        self._waiting: deque[tuple[int, Arrays]] = deque()  # for slots, at most one of each group
        self._episodes: list[EpisodeStatistics] = []

    def inputs(self) -> list[Input]:
        """Listen to the Batcher."""
        return [Input(self._ports.free, self._on_free)]

    def timers(self) -> list[Timer]:
        """Look for what groups have, for nodes that have joined, and report episodes."""
        return [
            Timer(_LOOK_INTERVAL_S, self._look),
            Timer(_GROW_INTERVAL_S, self._groups.grow),
            Timer(_REPORT_INTERVAL_S, self._report_episodes),
        ]

    def gauges(self) -> dict[str, float]:
        """Measure how many groups there are, what waits for slots, how many are free, and how long the way takes."""
        return {
            "groups": float(len(self._groups)),
            "waiting_datasets": float(len(self._waiting)),
            FREE_SLOTS: float(len(self._free)),
            WAY_SHARE: self._groups.way_share,
        }

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Offer nothing of its own."""
        return {}

    def start(self) -> None:
        """Start the groups."""
        self._groups.start()

    def wait_block(self) -> str:
        """Tell whom it waits for: groups for datasets, or the Learner to give slots back."""
        return WAIT + (FOR_LEARNER if self._waiting else FOR_ACTORS)

    def finish(self) -> None:
        """End the groups."""
        for answer in self._groups.shutdown():
            self._episodes += answer.episodes
        self._report_episodes()

    def _on_free(self, slots: list[int]) -> None:
        self._free.extend(slots)
        self._fill()

    def _look(self) -> None:
        self._publish()
        with self.timing.add_time("take_answers"):
            for index, answer in self._groups.take(timeout_s=0):
                self._take_in(index, answer)
        self._fill()
        if self._version >= 0:
            waiting = {index for index, _ in self._waiting}
            self._groups.ask(set(range(len(self._groups))) - waiting)

    def _publish(self) -> None:
        weights = self._memory.weights
        if weights.version == self._version:
            return
        with self.timing.add_time("broadcast_weights"):
            self._version = weights.load_into(self._state)
            frames = int(self._memory.counters.trained_frames[0])
            self._groups.order = replace(self._groups.order, frames=frames)
            arrays = {name: tensor.numpy() for name, tensor in self._state.items()}
            self._groups.publish(arrays, self._version, frames)

    def _take_in(self, index: int, answer: GroupAnswer) -> None:
        self._episodes += answer.episodes
        if answer.batch is not None:
            self._waiting.append((index, answer.batch))

    def _fill(self) -> None:
        """Put datasets into slots, as far as there are some, and hand these on."""
        trajectories = self._memory.trajectories
        while self._waiting and len(self._free) >= self._dataset_slots:
            _, contents = self._waiting.popleft()
            with self.timing.add_time("copy_trajectories"):
                slots = [self._free.popleft() for _ in range(self._dataset_slots)]
                trajectories.copy_in(slots, contents)
            for slot in slots:
                self.timing.mark_flow(flow_point(START, SLOT, slot))
            self._memory.counters.agent_steps[self._worker, 0] += len(slots) * trajectories.layout.rollout
            self._ports.finished.send(slots)

    def _report_episodes(self) -> None:
        if self._episodes:
            self._ports.reports.send(EpisodesFinished(tuple(self._episodes), self.name))
            self._episodes.clear()
