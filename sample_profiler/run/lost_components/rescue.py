"""Puts another process in the place of a RolloutWorker that was lost, and looks into components that hang."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from sample_profiler.component_id import BATCHER, INFERENCE_WORKER, ComponentId
from sample_profiler.errors import RecordError
from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.reports.sections.hang import describe_hang, describe_place
from sample_profiler.run.layout.blueprint import Blueprint
from sample_profiler.run.layout.topology import plan_worker, recording_options
from sample_profiler.run.lost_components.lack_of_memory import describe_end, describe_envs, describe_refusal, name_with
from sample_profiler.run.lost_components.replacements import Replacements, find_worker
from sample_profiler.run_folder import LiveFolder
from sample_profiler.runtime.messages.heartbeats import FIRST_SIGN_S
from sample_profiler.runtime.processes.child_process import Child
from sample_profiler.runtime.processes.failure import Failure
from sample_profiler.runtime.processes.supervisor import Supervisor

__all__ = ["Rescue"]

_ANSWER_S = 30.0


class _Asked(Protocol):
    """Whoever can ask components for something, as the Runner."""

    def call(self, method: str, arguments: tuple[Any, ...], components: list[str], timeout_s: float) -> dict[str, Any]:
        """Call a method of these components; one that hangs is ended meanwhile."""


class Rescue:
    """Replaces lost RolloutWorkers, so that nobody else notices.

    Why that works: every slot belongs to one worker. Those that the lost one had finished are whole, and go their way
    through Batcher and Learner; all others the successor may fill. What other processes still hold of the lost one,
    requests and slots on their way back, is let go of before the successor exists, so it cannot take it for its own.

    Args:
        blueprint: of the run.
        supervisor: of its processes.
    """

    def __init__(self, blueprint: Blueprint, supervisor: Supervisor) -> None:
        self._blueprint = blueprint
        self._supervisor = supervisor
        # Others may still load their libraries; one that hangs is noticed before this is over.
        self._patience_s = max(FIRST_SIGN_S, blueprint.config.faults.hang_timeout) + _ANSWER_S
        self.replacements = Replacements(blueprint.config.faults, blueprint.counters, blueprint.plan)

    def replace(self, child: Child, asked: _Asked, names: list[str]) -> Child:
        """Put a new process in the place of a RolloutWorker's, which is dead or is ended now.

        Args:
            child: the lost one.
            asked: asks components.
            names: of all components.

        Raises:
            CommandError: another component does not answer.
            OSError: the system has no room for another process.
        """
        worker = find_worker(child.name, self._blueprint.plan)
        assert worker is not None
        self._supervisor.bury(child)
        batchers = [name for name in names if ComponentId.parse(name).kind == BATCHER]
        others = [name for name in names if ComponentId.parse(name).kind in (BATCHER, INFERENCE_WORKER)]
        asked.call("forget_worker", (worker,), others, self._patience_s)
        channels = self._blueprint.channels
        # Who brings trajectories of other machines hears of no actions.
        for channel in (channels.free[worker], *channels.actions[worker : worker + 1]):
            channel.clear()
        asked.call("readmit_worker", (worker,), batchers, self._patience_s)
        plan = plan_worker(self._blueprint, worker, attempt=self.replacements.num_replaced)
        return self._supervisor.spawn(plan.settings, plan.make)

    def bury(self, child: Child) -> None:
        """End a process that nobody takes the place of, with everything that it has started and left behind."""
        self._supervisor.bury(child)

    def find(self, component: str) -> Child | None:
        """Return the process of a component."""
        return next((child for child in self._supervisor.children if child.name == component), None)

    def await_ends(self, processes: Sequence[Child]) -> list[Child]:
        """Return these processes that have ended, and those that end in the same moment; what they held is open."""
        ended = self._supervisor.await_ends(processes)
        self.release_locks()
        return ended

    def release_locks(self) -> None:
        """Open what processes have left locked that have ended, before others wait for it in vain."""
        self._blueprint.transport.release()

    def find_ended(self) -> list[Child]:
        """Return the processes that have ended and that nobody has taken the place of."""
        return [child for child in self._supervisor.children if not child.is_alive()]

    def explain_end(self, child: Child, *, tells_all: bool) -> Failure:
        """Return why a process has ended that has not told it: the kernel may tell that it lacked memory.

        Args:
            child: that has ended.
            tells_all: what all others had then, too, and the cure; else only what this one had.
        """
        lack = self._supervisor.explain_end(child)
        num_earlier = self.replacements.num_lacking_memory(child.name)
        return describe_end(child, lack, self._envs_of, num_earlier, tells_all=tells_all)

    def explain(self, failure: Failure) -> Failure:
        """Add to what a component has told what it had of memory, if that is why it failed."""
        child = self.find(failure.component)
        if child is None or not failure.was_raised:
            return failure
        lack = self._supervisor.explain_refusal(child, was_refused=failure.lacks_memory)
        if lack is None:
            return failure
        title = name_with(child.name, self._envs_of(child.name))
        num_earlier = self.replacements.num_lacking_memory(child.name)
        words = describe_refusal(lack, title, num_earlier, knows_own_limit=failure.lacks_memory)
        is_sure = failure.lacks_memory or lack.by_kernel
        return replace(failure, message=f"{failure.message} ({words})", lacks_memory=is_sure)

    def _envs_of(self, component: str) -> str:
        return describe_envs(component, self._blueprint.plan, self._blueprint.config.run.env)

    def examine(self, child: Child, silent_s: float) -> Failure:
        """Return what can be seen of a component that gives no sign of life: open blocks, latest events, stacks."""
        self._supervisor.beat()  # a second for each of many, and the others would take the Runner for hanging
        message = f"it has shown no sign of life for {silent_s:.0f} s and was ended{child.describe_obstacle()}"
        locks = self._describe_locks()
        record = self._read_record(child, with_events=True)
        parts = [describe_hang(record, time.perf_counter_ns())] if record else []
        stacks = child.dump_stacks()
        parts.append(f"its threads are here:\n{stacks}" if stacks else "its threads did not say where they are\n")
        message = "; ".join([message, *(lock for lock in self._describe_locks() if lock in locks)])
        return Failure(child.name, message, "\n".join(filter(None, parts)), is_hang=True)

    def locate(self, component: str) -> str:
        """Return in which block a component is, and for how long; empty: that cannot be seen."""
        child = self.find(component)
        record = self._read_record(child, with_events=False) if child else None
        return describe_place(record, time.perf_counter_ns()) if record else ""

    def describe_end(self, child: Child) -> str:
        """Return where a component is that does not end: its block, and the line of its main thread."""
        _, _, stack = child.dump_stacks().partition("Current thread")  # which has got the signal
        line = next((line.strip() for line in stack.splitlines() if line.startswith("  File ")), "")
        return "; ".join(filter(None, (self.locate(child.name), line)))

    def _describe_locks(self) -> list[str]:
        names = {child.pid: f"{child.name} (process {child.pid})" for child in self._supervisor.children}
        return self._blueprint.transport.describe_locks(names)

    def _read_record(self, child: Child, *, with_events: bool) -> ProcessRecord | None:
        folder = recording_options(self._blueprint.config, self._blueprint.run_folder).folder
        if folder is None:
            return None
        path = LiveFolder(folder).record(child.name, child.pid)
        try:
            # A file system that does not answer may be why the component is silent.
            with self._supervisor.beating():
                return read_record_file(path, with_events=with_events, with_histograms=False)
        except (RecordError, OSError):  # it has none, as on a full disk, or had not begun to record
            return None
