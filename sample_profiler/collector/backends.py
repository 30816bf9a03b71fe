"""Owns what a Collector asks of its workers wherever they run, and the backend that runs them in this process.

Both wirings of a run are there, with the caller's process where Batcher and Learner would be: `SerialBackend` here, and
`ProcessBackend`. A backend for workers on other machines would offer what the protocol says.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sample_profiler.collector.batch import Batch, copy_trajectories
from sample_profiler.collector.caller import Caller, CollectorError, PausableLoop
from sample_profiler.components.messages import EpisodeStatistics
from sample_profiler.errors import FROM_OUTSIDE
from sample_profiler.profiling import get_timing, set_timing
from sample_profiler.run.layout.blueprint import Blueprint
from sample_profiler.run.layout.topology import plan_sampling
from sample_profiler.runtime.commands.commands import Command, CommandResult, run_command
from sample_profiler.runtime.loop.event_loop import Component, LocalWaiter, LoopControl
from sample_profiler.runtime.machine.core_shares import choose_worker_threads
from sample_profiler.runtime.machine.libraries import tame_numerical_libraries
from sample_profiler.runtime.messages.channels import LocalReports
from sample_profiler.runtime.processes.child import finish_component
from sample_profiler.runtime.processes.failure import Failure

if TYPE_CHECKING:
    import torch

__all__ = ["CollectorBackend", "LocalBackend", "SerialBackend"]

Copies = TypeVar("Copies")


class CollectorBackend(Protocol):
    """Workers, wherever they run."""

    @property
    def episodes(self) -> deque[EpisodeStatistics]:
        """Episodes that have ended and that nobody has taken yet, oldest first."""

    def components(self) -> list[str]:
        """Return the names of all components."""

    def publish(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """Have actions drawn with these weights from now on."""

    def collect(self, version: int) -> Batch:
        """Wait for as many finished trajectories as make a batch, and return copies of them.

        Args:
            version: of the weights that the caller has published last.

        Raises:
            CollectorError: a component has failed.
        """

    def call(self, method: str, arguments: Mapping[str, tuple[Any, ...]], timeout_s: float) -> dict[str, CommandResult]:
        """Call a method of some components, each with its arguments, and return what came of it, by component.

        Raises:
            CollectorError: a component has failed, or not answered in time.
        """

    def shutdown(self) -> None:
        """Let all components finish and let go of everything; doing so again does nothing."""


class LocalBackend:
    """What both wirings on one machine share: trajectories and weights in shared memory, and a loop of the caller's."""

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint
        self._caller: Caller
        self._loop: PausableLoop
        self._has_begun = False
        self._to_release: list[int] = []
        self._withheld = blueprint.plan.later_slots(0)
        self._deadline_s = math.inf
        self._process = os.getpid()
        self._is_shut_down = False

    @property
    def episodes(self) -> deque[EpisodeStatistics]:
        """Episodes that have ended and that nobody has taken yet."""
        return self._caller.episodes

    def components(self) -> list[str]:
        """Return the names of all components."""
        return [plan.settings.name for plan in plan_sampling(self._blueprint)]

    def publish(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """Write the weights into shared memory, where inference looks before each batch of actions."""
        with self._caller.timing.add_time("publish_weights"):
            self._blueprint.weights[0].publish(state, version)

    def collect(self, version: int) -> Batch:
        """Run the loop until there are as many trajectories as make a batch, and copy them."""
        batch = self.collect_within(math.inf, partial(self.as_batch, version=version))
        assert batch is not None
        return batch

    def as_batch(self, slots: Sequence[int], version: int) -> Batch:
        """Return copies of what is in some slots as a batch; `version` is of the weights that were published last."""
        memory, plan = self._blueprint.trajectories, self._blueprint.plan
        max_policy_lag = self._blueprint.config.sampling.max_policy_lag
        return copy_trajectories(memory, slots, plan.slot_worker, max_policy_lag, version)

    def collect_within(self, patience_s: float, copy: Callable[[Sequence[int]], Copies]) -> Copies | None:
        """Do the same, or return None where that takes longer; what has been sampled by then stays for the next time.

        Args:
            patience_s: after which the loop ends, within a quarter of a second; with workers in this process, only when
                they have taken their turns.
            copy: returns copies of what is in some slots, which are filled again afterwards.

        Raises:
            CollectorError: a component has failed.
        """
        plan, sampling = self._blueprint.plan, self._blueprint.config.sampling
        if not self._has_begun:
            self._has_begun = True
            for channel in self._blueprint.channels.first_weights[0]:
                channel.send((0,))
        self._release()
        finished = self._caller.finished
        deadline_s = time.monotonic() + patience_s
        self._run_until(lambda: len(finished) >= plan.dataset_slots or time.monotonic() >= deadline_s)
        if len(finished) < plan.dataset_slots:
            return None
        slots = [finished.popleft() for _ in range(plan.dataset_slots)]
        with self._caller.timing.add_time("copy_trajectories"):
            copies = copy(slots)
        self._to_release = [*slots, *self._withheld]
        self._withheld.clear()
        if sampling.async_rl:
            self._release()
        return copies

    def _release(self) -> None:
        """Give slots back: at once, or, where sampling waits for the caller, only when the next batch is wanted."""
        slots, self._to_release = self._to_release, []
        for worker, freed in self._blueprint.plan.by_worker(slots).items():
            self._blueprint.channels.free[worker].send(freed)

    def _run_until(self, is_satisfied: Callable[[], bool]) -> None:
        """Run the loop until there is what is wanted, or something has failed."""
        self._check()
        if is_satisfied():
            return
        caller = self._caller
        caller.is_satisfied = is_satisfied
        # What the caller's own program records meanwhile and afterwards is none of ours.
        previous = get_timing()
        try:
            self._loop.run()
        finally:
            caller.is_satisfied = lambda: False
            set_timing(previous, process_wide=True)
        self._check()

    def _check(self) -> None:
        if self._is_shut_down:
            raise CollectorError("the collector has been shut down: make a new one")
        if (failure := self._caller.failure) is not None:
            raise CollectorError(f"{failure.component} failed: {failure.message}\n{failure.traceback_text}".rstrip())


class SerialBackend(LocalBackend):
    """All workers in this process, one after another, while the caller waits for a batch."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__(blueprint)
        tame_numerical_libraries(choose_worker_threads(1))
        self._reports = LocalReports()
        self._components: list[Component] = []
        previous = get_timing()
        try:
            for plan in plan_sampling(blueprint):
                self._components.append(plan.make(self._reports))
            control = LoopControl()
            self._caller = Caller(blueprint.channels.finished[0], [self._reports], control)
            self._loop = PausableLoop([self._caller, *self._components], LocalWaiter, control=control)
            self._loop.start()
        except BaseException:
            for component in self._components:
                finish_component(component, self._reports)
            raise
        finally:
            set_timing(previous, process_wide=True)

    def call(
        self,
        method: str,
        arguments: Mapping[str, tuple[Any, ...]],
        timeout_s: float,  # noqa: ARG002 (nobody else is here who could wait)
    ) -> dict[str, CommandResult]:
        """Run the command in place."""
        self._check()
        return {
            component.name: run_command(component, Command(0, method, arguments[component.name]))
            for component in self._components
            if component.name in arguments
        }

    def shutdown(self) -> None:
        """Let all workers finish; doing so again does nothing, nor does it in a forked copy of this process."""
        if self._is_shut_down or os.getpid() != self._process:
            return
        self._is_shut_down = True
        previous = get_timing()
        for component in self._components:
            set_timing(component.timing, process_wide=True)
            finish_component(component, self._reports)
        set_timing(previous, process_wide=True)
        self._caller.handle_reports(self._reports.receive())

    def _run_until(self, is_satisfied: Callable[[], bool]) -> None:
        try:
            super()._run_until(is_satisfied)
        except (CollectorError, *FROM_OUTSIDE):
            raise
        except BaseException as error:
            failure = self._caller.failure = Failure.from_exception(self._loop.active.name, error)
            raise CollectorError(f"{failure.component} failed: {failure.message}") from error
