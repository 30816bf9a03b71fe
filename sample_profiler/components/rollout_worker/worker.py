"""The RolloutWorker: steps environments with the actions that inference drew, and writes what they answer into slots.

Runs in a process of its own (parallel wiring) and imports numpy and its environments, not torch. Its environments are
split into groups: while inference draws actions for one group, the worker steps another (double buffering). Groups that
step more quickly than a message travels ask together instead, where their actions have come together.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sample_profiler.component_id import ROLLOUT_WORKER, ComponentId
from sample_profiler.components.messages import Counters, EpisodesFinished
from sample_profiler.components.rollout_worker.env_times import EnvTimeGauges
from sample_profiler.components.rollout_worker.stepping_group import SteppingGroup
from sample_profiler.components.rollout_worker.training_news import TrainingNews
from sample_profiler.components.rollout_worker.vector_group import make_stepping_group
from sample_profiler.config import SamplingOptions
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.bad_numbers import BadNumbers
from sample_profiler.profiling import Timing
from sample_profiler.profiling.captures.rollouts.captures import PostCollectHook, RolloutCaptures
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.profiling.record.flows import END, REQUEST, SLOT, START, STEP, flow_point
from sample_profiler.runtime.loop.event_loop import Input, Timer
from sample_profiler.runtime.loop.slowdown import Slowdown, slowdown_command
from sample_profiler.runtime.machine.children_time import ChildrenTime
from sample_profiler.runtime.messages.channels import Channel, Reports, Sender
from sample_profiler.runtime.messages.heartbeats import Pulse
from sample_profiler.storage.sampling_plan import SamplingPlan
from sample_profiler.storage.slot_blocks import SlotBlocks
from sample_profiler.storage.trajectories import Trajectories
from sample_profiler.vocabulary import (
    AGENTS_PER_ENV,
    CHILDREN_CPU_S,
    DECORRELATE,
    ENQUEUE_POLICY_REQUESTS,
    ENV_RESET,
    ENV_STEP,
    FOR_INFERENCE,
    FREE_SLOTS,
    MAKE_ENVS,
    WAIT,
    WAIT_FOR_TRAJECTORIES,
    WAITING_GROUPS,
)

__all__ = ["RolloutWorker", "RolloutWorkerOptions", "RolloutWorkerPorts"]

_REPORT_INTERVAL_S = 1.0
_QUICK_REPORT_INTERVAL_S = 0.2  # where it is to be known when a mean is reached

# What a message to inference and a batch of it cost beside the rows in it. A group that steps in less time is worth
# waiting for: its request goes with that of the group before.
_QUICK_STEP_NS = 250_000

MakeAgentsEnv = Callable[[int, int], AgentsEnv]
"""(index over the run, index within the worker) → environment."""


@dataclass(frozen=True)
class RolloutWorkerPorts:
    """Where a RolloutWorker listens and talks.

    Attributes:
        actions: indices of groups for which one policy's actions are there.
        free: slots that may be filled.
        requests: for each policy, groups that want actions.
        finished: for each policy, slots that have been filled.
        reports: to the Runner.
    """

    actions: Channel
    free: Channel
    requests: Sequence[Sender]
    finished: Sequence[Sender]
    reports: Reports


@dataclass(frozen=True)
class RolloutWorkerOptions:
    """How a RolloutWorker samples.

    Attributes:
        sampling: its part of the configuration.
        value_bootstrap: whether truncated episodes need the value of their final observation.
        frames_per_step: what one agent step counts for in statistics.
        bad_numbers: what follows where an environment returns numbers that are not finite.
        is_replacement: whether it takes the place of a worker that was lost; then the Batcher says which slots it has.
        is_quick: whether it reports episodes as soon as that can be of use, instead of about once a second.
        first_frames: by policy: that it had been trained on when the run began; empty: none. None: Learners say.
        is_alone: whether whoever reads its trajectories is in its process: they may live where a vector observes.
    """

    sampling: SamplingOptions
    value_bootstrap: bool
    frames_per_step: int
    bad_numbers: BadNumbers
    is_replacement: bool = False
    is_quick: bool = False
    first_frames: tuple[int, ...] | None = ()
    is_alone: bool = False


class RolloutWorker:
    """Steps its environments, group by group.

    Args:
        index: of this worker.
        plan: who samples what.
        options: how it samples.
        make_env: builds an environment.
        trajectories: memory to write to.
        counters: where steps are counted.
        ports: where to listen and talk.
        timing: where its blocks are recorded; None: a new one.

    Attributes:
        beat: gives a sign of life, with the patience that is to be had until the next one, in seconds.
        captures: of its rollouts, and the hook that is called after each.
        slowdown: of its environments' steps.
    """

    def __init__(
        self,
        index: int,
        plan: SamplingPlan,
        options: RolloutWorkerOptions,
        make_env: MakeAgentsEnv,
        trajectories: Trajectories,
        counters: Counters,
        ports: RolloutWorkerPorts,
        timing: Timing | None = None,
    ) -> None:
        self.name = str(ComponentId(ROLLOUT_WORKER, index=index))
        self.timing = timing or Timing(f"{self.name} profile")
        self._index = index
        self._sampling = options.sampling
        self._report_interval_s = _QUICK_REPORT_INTERVAL_S if options.is_quick else _REPORT_INTERVAL_S
        self._trajectories = trajectories
        self._agent_steps = counters.agent_steps[index]
        self._ports = ports
        self.beat = Pulse(self.name, ports.reports).beat
        self._free = [deque(() if options.is_replacement else slots) for slots in plan.first_slots[index]]
        self._blocks = SlotBlocks(plan.block_size)
        self._slot_policy = plan.slot_policy
        self.captures = RolloutCaptures(self, index)
        self.slowdown = Slowdown()
        self._num_rollouts = 0
        self._has_begun = False
        self._at_boundary: tuple[Callable[[], None], int] | None = None
        self._waiting: deque[SteppingGroup] = deque()
        self._to_request: list[list[int]] = [[] for _ in ports.requests]
        self._groups: dict[int, SteppingGroup] = {}
        self._envs: list[AgentsEnv] = []
        first_env = plan.groups_of(index)[0].envs.start
        self.beat(is_starting=True)
        try:
            for group in plan.groups_of(index):
                with self.timing.add_time(MAKE_ENVS):
                    for env in group.envs:
                        self._envs.append(make_env(env, env - first_env))
                        self.beat(is_starting=True)
                    self._groups[group.index] = make_stepping_group(
                        group,
                        self._envs[-len(group.envs) :],
                        trajectories,
                        self.timing,
                        options.value_bootstrap,
                        options.frames_per_step,
                        options.bad_numbers,
                        may_move=options.is_alone and plan.block_size > 1,
                    )
        except BaseException:
            self._close_envs()
            raise
        first_frames = (0,) * len(ports.requests) if options.first_frames == () else options.first_frames
        groups = plan.groups_of(index)
        self._news = TrainingNews(self._envs, groups, options.sampling, counters, first_frames, self.timing)
        self._children_time = ChildrenTime()
        self._env_times = EnvTimeGauges(list(self._groups.values()), first_env, self._steps_of_an_env)

    def inputs(self) -> list[Input]:
        """Listen to inference and to the Batcher."""
        return [Input(self._ports.actions, self._on_actions), Input(self._ports.free, self._on_free)]

    def timers(self) -> list[Timer]:
        """Report finished episodes from time to time, and tell environments how far the training is."""
        return [Timer(self._report_interval_s, self.report_episodes), *self._news.timers()]

    def gauges(self) -> dict[str, float]:
        """Measure how many slots are free, how many groups wait for some, and times of environments and games."""
        gauges = {FREE_SLOTS: float(sum(map(len, self._free))), WAITING_GROUPS: float(len(self._waiting))}
        gauges[AGENTS_PER_ENV] = self._num_agents / len(self._envs)
        children_s = self._children_time.seconds()
        if children_s is not None:
            gauges[CHILDREN_CPU_S] = children_s
        return gauges | self._env_times.gauges()

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Offer what may be asked of a RolloutWorker while it runs."""
        return {
            "call_envs": self.call_envs,
            "set_post_collect_hook": self.set_post_collect_hook,
            "enable_profile": self.captures.enable,
            "disable_profile": self.disable_profile,
            "set_slowdown": slowdown_command({"env": self.slowdown}),
        }

    def set_post_collect_hook(self, hook: PostCollectHook | None) -> None:
        """Have `hook(worker, rollout)` called after each rollout, or nothing any more (None).

        A rollout is one group of the worker's environments that has finished all its `--rollout` steps. The hook gets
        the index of the worker and the number of the rollout, counted from 0 over all groups of the worker; what it
        raises ends the worker.
        """
        self.captures.hook = hook

    def call_envs(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Call a method of all environments of this worker, between two of their steps.

        Args:
            method: name of the method; it is looked for through wrappers, of a vector in its members.
            arguments: of the call.

        Raises:
            EnvContractError: an environment has no such method.
            EnvError: it raised in it.
        """
        with self.timing.add_time("call_envs"):
            for env in self._envs:
                env.call(method, arguments)

    def disable_profile(self) -> str | None:
        """End a capture that is on, and return the name of its trace; groups that it held back go on.

        Raises:
            OSError: the trace cannot be written.
        """
        try:
            return self.captures.disable()
        finally:
            self._begin_rollouts()
            self._send_requests()

    def start(self) -> None:
        """Reset all environments, decorrelate them as asked, and ask for the first actions; unless on a course."""
        if self._has_begun:
            return
        self._has_begun = True
        self._news.begin(lambda: self.beat(is_starting=True))
        pause_s = self._sampling.decorrelate_experience_max_seconds
        if pause_s > 0:
            self.beat(pause_s, is_starting=True)
            with self.timing.add_time(DECORRELATE):
                time.sleep(pause_s * self._index / self._sampling.num_workers)
        num_random_steps = self._sampling.rollout if self._sampling.decorrelate_envs_on_one_worker else 0
        for group in self._groups.values():
            with self.timing.add_time(ENV_RESET):
                group.reset(num_random_steps, lambda: self.beat(is_starting=True))
            self._waiting.append(group)
            self._begin_rollouts()
            self._send_requests()

    @property
    def offers_course(self) -> bool:
        """Whether all its environments can be put back to where they are."""
        return all(env.offers_state for env in self._envs)

    def course(self) -> dict[str, Any] | None:
        """Return where it is, environments included, as data for `follow`.

        None: it has not begun, or has environments that cannot be put back to where they are.
        """
        if not self._has_begun or not self.offers_course:
            return None
        return {
            "free": [list(slots) for slots in self._free],
            "held": self._blocks.held(),
            "waiting": [group.index for group in self._waiting],
            "groups": {index: group.course() for index, group in self._groups.items()},
            "envs": [env.get_state() for env in self._envs],
            "num_rollouts": self._num_rollouts,
        }

    def follow(self, course: dict[str, Any]) -> None:
        """Go on from a course instead of the beginning; before `start`."""
        self._free = [deque(slots) for slots in course["free"]]
        self._blocks.add(course["held"])
        self._waiting = deque(self._groups[index] for index in course["waiting"])
        for index, group in self._groups.items():
            group.follow(course["groups"][index])
        for env, state in zip(self._envs, course["envs"], strict=True):
            env.set_state(state)
        self._num_rollouts = course["num_rollouts"]
        self._has_begun = True

    def wait_block(self) -> str:
        """Tell whom the worker waits for: the Learner's side for free slots if every group does, else inference."""
        return WAIT_FOR_TRAJECTORIES if len(self._waiting) == len(self._groups) else WAIT + FOR_INFERENCE

    def finish(self) -> None:
        """End a capture that is on, report the last episodes and close all environments."""
        self.captures.end()
        self.report_episodes()
        self._close_envs()

    def report_episodes(self) -> None:
        """Tell the Runner of the episodes that have ended since the last report."""
        episodes = tuple(episode for group in self._groups.values() for episode in group.episodes)
        if episodes:
            self._ports.reports.send(EpisodesFinished(episodes, self.name))
            for group in self._groups.values():
                group.episodes.clear()

    def at_rollout_boundary(self, callback: Callable[[], None], most_begun: int | None = None) -> None:
        """Call `callback` as soon as no rollout is under way, and let none begin before.

        Args:
            callback: called once.
            most_begun: how many rollouts may have begun without a step taken: these are not under way yet. None: all.
        """
        self._at_boundary = callback, len(self._groups) if most_begun is None else most_begun
        self._begin_rollouts()
        self._send_requests()

    def _on_actions(self, groups: list[int]) -> None:
        for index in groups:
            group = self._groups[index]
            group.num_replies_due -= 1
            if group.num_replies_due == 0:
                if group.step_ns > _QUICK_STEP_NS:
                    self._send_requests()
                self._step(group)
                if group.step_index == self._sampling.rollout:
                    self._end_rollout(group)
        self._send_requests()

    @profile_range("RolloutWorker.take_free_slots")
    def _on_free(self, slots: list[int]) -> None:
        with self.timing.add_time("overhead"):
            for slot in self._blocks.add(slots):
                self._free[self._slot_policy[slot]].append(slot)
        self._begin_rollouts()
        self._send_requests()

    @profile_range("RolloutWorker.rollout")
    def _step(self, group: SteppingGroup) -> None:
        timing = self.timing
        with timing.add_time(ENV_STEP, device=group.is_on_device):
            timing.mark_flow(flow_point(END, REQUEST, group.index))
            self.slowdown.around(group.step)
            timing.mark_flow(flow_point(START, REQUEST, group.index))
        with timing.add_time("overhead"):
            for policy, num_rows in group.rows_of_policy:
                self._agent_steps[policy] += num_rows
        if group.step_index < self._sampling.rollout:
            self._request_actions(group)
            return
        with timing.add_time("complete_rollouts"):
            slots = group.slots.tolist()
            for slot in slots:
                timing.mark_flow(flow_point(START, SLOT, slot))
            for policy, _ in group.rows_of_policy:
                finished = [slot for slot, p in zip(slots, group.policies, strict=True) if p == policy]
                self._ports.finished[policy].send(finished)

    def _end_rollout(self, group: SteppingGroup) -> None:
        """Tell whoever counts rollouts, outside of every range: a capture that begins or ends here cuts none in two."""
        self._waiting.append(group)
        number, self._num_rollouts = self._num_rollouts, self._num_rollouts + 1
        self.captures.tell(number)
        self._begin_rollouts()

    def _begin_rollouts(self) -> None:
        """Let waiting groups begin, first come first served, as far as there are slots for them.

        While rollouts are captured no more begin than the capture still counts: it shall have no part of others.

        The order matters beyond fairness: a group takes its last observations over from its old slots, which may be
        filled again only after that; as long as an earlier group waits, no later one takes a slot.
        """
        if self._at_boundary is not None:
            callback, most_begun = self._at_boundary
            if self._num_begun > most_begun or any(
                0 < group.step_index < self._sampling.rollout for group in self._groups.values()
            ):
                return
            self._at_boundary = None
            callback()
        while self._waiting and self._num_begun < self.captures.num_rollouts_left:
            group = self._waiting[0]
            if any(len(self._free[policy]) < num_rows for policy, num_rows in group.rows_of_policy):
                return
            self._waiting.popleft()
            self._news.begin_rollout()
            with self.timing.add_time("overhead"):
                group.begin_rollout(np.array([self._free[p].popleft() for p in group.policies], dtype=np.int32))
            self._request_actions(group)

    @property
    def _num_begun(self) -> int:
        return len(self._groups) - len(self._waiting)

    def _request_actions(self, group: SteppingGroup) -> None:
        """Note that a group wants actions; `_send_requests` tells inference."""
        self._trajectories.group_step[group.index] = group.step_index
        group.num_replies_due = len(group.rows_of_policy)
        for policy, _ in group.rows_of_policy:
            self._to_request[policy].append(group.index)

    def _send_requests(self) -> None:
        for policy, groups in enumerate(self._to_request):
            if groups:
                self._send_requests_to(policy, groups)
                groups.clear()

    @profile_range("RolloutWorker.request_actions")
    def _send_requests_to(self, policy: int, groups: Sequence[int]) -> None:
        with self.timing.add_time(ENQUEUE_POLICY_REQUESTS):
            for group in groups:
                self.timing.mark_flow(flow_point(STEP, REQUEST, group))
            self._ports.requests[policy].send(groups)

    def _steps_of_an_env(self) -> float:
        """Return how many steps an environment of this worker has taken, on average."""
        return float(self._agent_steps.sum()) / self._num_agents

    @property
    def _num_agents(self) -> int:
        return sum(len(group.policies) for group in self._groups.values())

    def _close_envs(self) -> None:
        with self.timing.add_time("close_envs"):
            for env in self._envs:
                env.close()
