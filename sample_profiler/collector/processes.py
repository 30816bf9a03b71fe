"""Owns the backend of a Collector that runs every worker in a process of its own."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from sample_profiler.collector.backends import LocalBackend
from sample_profiler.collector.caller import Caller, CollectorError, PausableLoop
from sample_profiler.collector.releasing import Releasing
from sample_profiler.component_id import BATCHER, ComponentId
from sample_profiler.run.layout.blueprint import Blueprint
from sample_profiler.run.layout.topology import plan_sampling
from sample_profiler.run.lost_components.lack_of_memory import describe_end, describe_envs
from sample_profiler.runtime.commands.commands import Command, CommandResult
from sample_profiler.runtime.loop.event_loop import LoopControl
from sample_profiler.runtime.processes.child_process import Child
from sample_profiler.runtime.processes.failure import Failure
from sample_profiler.runtime.processes.supervisor import GRACE_AFTER_FAILURE_S, Supervisor

__all__ = ["ProcessBackend"]

logger = logging.getLogger(__name__)

_POLL_S = 0.002


class ProcessBackend(LocalBackend):
    """Every worker in a process of its own."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__(blueprint)
        self._supervisor = Supervisor()
        self._number = 0
        try:
            for plan in plan_sampling(blueprint):
                child = self._supervisor.spawn(plan.settings, plan.make)
                logger.info("Started %s as process %d", child.name, child.pid)
            self._releasing = Releasing(blueprint.transport)
        except BaseException:  # this process would wait for the children at its exit, and they for it
            self._supervisor.kill()
            raise
        control = LoopControl()
        self._caller = Caller(
            blueprint.channels.finished[0],
            [],
            control,
            self._supervisor.children,
            self._supervisor.note_shared_memory,
            self._explain_end,
        )
        # Where the Batcher would be: what workers finish comes to this process.
        make_waiter = blueprint.transport.looking_waiter_of(str(ComponentId(BATCHER, 0)))
        self._loop = PausableLoop([self._caller], make_waiter, self._beat, control=control)

    def call(self, method: str, arguments: Mapping[str, tuple[Any, ...]], timeout_s: float) -> dict[str, CommandResult]:
        """Send the command to all that it is for, and take what comes until all have answered."""
        self._check()
        self._number += 1
        number, results = self._number, self._caller.results
        results.clear()
        for child in self._supervisor.children:
            if child.name in arguments:
                child.send_command(Command(number, method, arguments[child.name]))

        def count_answers() -> int:
            return sum(result.number == number for result in results.values())

        self._deadline_s = time.monotonic() + timeout_s
        try:
            self._deliver()
            self._run_until(lambda: count_answers() == len(arguments))
        finally:
            self._deadline_s = math.inf
        if count_answers() < len(arguments):
            silent = [name for name in arguments if name not in results]
            raise CollectorError(f"{', '.join(silent)} did not answer {method!r} within {timeout_s:g} seconds")
        return dict(results)

    def shutdown(self) -> None:
        """Let all workers finish; doing so again does nothing, nor does it in a forked copy of this process."""
        if self._is_shut_down or os.getpid() != self._process:
            return
        self._is_shut_down = True
        grace_s = GRACE_AFTER_FAILURE_S if self._caller.failure else math.inf
        for child in self._supervisor.stop(grace_s, self._take_reports):
            logger.warning("%s did not end within %g s and was killed", child.name, min(grace_s, child.patience_s))
        self._releasing.end()  # only now: a worker that is lost on its way out may hold a queue, too

    def _explain_end(self, child: Child) -> Failure:
        envs_of = partial(describe_envs, plan=self._blueprint.plan, env=self._blueprint.config.run.env)
        return describe_end(child, self._supervisor.explain_end(child), envs_of, tells_all=True)

    def _deliver(self) -> None:
        """Wait until all workers have been sent what the loop, which sleeps, would send on one pipe a second."""
        while self._caller.failure is None and not self._supervisor.flush() and time.monotonic() < self._deadline_s:
            self._take_reports()  # a worker that waits for room there reads nothing
            self._supervisor.beat()
            time.sleep(_POLL_S)

    def _beat(self) -> None:
        self._supervisor.beat()
        if self._releasing.error is not None:
            raise self._releasing.error
        if time.monotonic() >= self._deadline_s:
            self._loop.stop()

    def _take_reports(self) -> None:
        for child in self._supervisor.children:
            self._caller.handle_reports(child.reports.receive())
