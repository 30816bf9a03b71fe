"""Decides what follows when a component fails, dies or falls silent: another takes its place, or the run ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from sample_profiler.config import Config
from sample_profiler.profiling.process.usable_cores import num_usable_cores
from sample_profiler.run.lost_components.rescue import Rescue
from sample_profiler.runtime.messages.heartbeats import Heartbeat, Silences
from sample_profiler.runtime.processes.child_process import Child
from sample_profiler.runtime.processes.failure import Failure, FailureLog

__all__ = ["Guard"]

logger = logging.getLogger(__name__)

_LOOK_INTERVAL_S = 1.0
_LAST_WORDS_S = 4.0
_DYING_S = 6.0  # a process that waits for a device, such as a file system of another machine, may never end


@dataclass(frozen=True)
class _Doomed:
    """Why a component fails whose process has not ended yet, and until when that may take."""

    failure: Failure
    until_s: float


class Guard:
    """What the Runner does about components that are in trouble.

    Args:
        config: of the run.
        fail: ends the run because of a failure.
        replace_child: puts a process in the place of one that is lost.
        failure_log: for failures that do not end the run, or not yet.
        rescue: says who may be replaced, and looks into components that hang; None: all are in this process, so that
            nobody ends or hangs but with it.
        clock: returns seconds that never go back.

    Attributes:
        latest_loss: why a component was lost last; None: none was.
    """

    def __init__(
        self,
        config: Config,
        fail: Callable[[Failure], None],
        replace_child: Callable[[Child, Failure, Rescue], None],
        failure_log: FailureLog,
        rescue: Rescue | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.latest_loss: Failure | None = None
        self._rescue_if_any = rescue
        self._fail = fail
        self._replace_child = replace_child
        self._failure_log = failure_log
        self._may_be_lost: Collection[str] = ()
        self._let_go: Callable[[Child, Rescue], None] = lambda *_: None
        self._given_up: set[str] = set()
        self._doomed: dict[str, _Doomed] = {}
        self._next_look_s = 0.0
        self._clock = clock
        # All make and reset their first environments at the same time, and share the cores.
        start_s = config.faults.hang_timeout * max(1.0, config.sampling.num_workers / num_usable_cores())
        machine, faults = config.machine, config.faults
        self._silences = Silences(machine.heartbeat_reporting_interval, faults.hang_timeout, start_s, clock)

    def go_on_without(self, components: Collection[str], let_go: Callable[[Child, Rescue], None]) -> None:
        """Have the run go on when it loses one of these.

        Args:
            components: by name.
            let_go: ends the process of one, which may have ended, and listens to it no more.
        """
        self._may_be_lost, self._let_go = components, let_go

    def expect(self, component: str) -> None:
        """Watch for signs of life of a component from now on."""
        self._silences.expect(component)

    def forget(self, component: str) -> None:
        """Watch for no more signs of life of a component."""
        self._silences.forget(component)

    def hear(self, heartbeat: Heartbeat) -> None:
        """Take in a sign of life."""
        self._silences.hear(heartbeat)

    def has_begun(self, component: str) -> bool:
        """Tell whether a component has begun to work, so that it may have something to finish."""
        return component not in self._silences.starting

    def take_failure(self, failure: Failure) -> None:
        """Wait for the end of a process that can be replaced; any other failure is that of the run."""
        if failure.component in self._may_be_lost:
            self._give_up_component(failure)
            return
        if self._rescue_if_any is None:
            self._fail(failure)
            return
        failure = self._rescue.explain(failure)
        if not self._covers(failure.component):
            self._fail(failure)
        elif failure.component not in self._doomed:
            self._failure_log.write(failure)
            self._doom(failure)

    def await_ends(self, processes: Sequence[Child]) -> Sequence[Child]:
        """Return these processes that have ended, and those that end in the same moment: that is one event.

        Those come first that nobody can take the place of.
        """
        return sorted(self._rescue.await_ends(processes), key=lambda process: self._covers(process.name))

    def take_exits(self, processes: Sequence[Child]) -> None:
        """Replace processes that have ended in one moment, or fail; what they had reported has been taken in.

        If nobody can take the place of the first, that is the failure of the run, and tells of the others.
        """
        for process in processes:
            if process.name in self._may_be_lost:
                self._give_up_component(self._find_failure(process, tells_all=True))
                self._let_go(process, self._rescue)
        processes = [process for process in processes if process.name not in self._may_be_lost]
        if not processes:
            return
        failures = [self._find_failure(process, tells_all=process is processes[0]) for process in processes]
        if not self._covers(processes[0].name):
            self._fail(_tell_together(failures))
            return
        for process, failure in zip(processes, failures, strict=True):
            if not self._take_loss(process, failure):
                return

    def find_essential(self, lost: Failure) -> Failure | None:
        """Return why a component fails that nobody can take the place of, if it has ended or is to end.

        Args:
            lost: why another one is lost, whose place was to be taken.
        """
        # One that hung has been looked into: that tells most.
        found = [doomed.failure for name, doomed in self._doomed.items() if self._is_essential(name)]
        ended = [process for process in self._rescue.find_ended() if self._is_essential(process.name)]
        found += [self._find_failure(process, tells_all=process is ended[0]) for process in ended]
        return _tell_together([*found, lost]) if found else None

    @property
    def _rescue(self) -> Rescue:
        assert self._rescue_if_any is not None, "there are processes"
        return self._rescue_if_any

    def _covers(self, component: str) -> bool:
        return self._rescue.replacements.covers(component)

    def _is_essential(self, component: str) -> bool:
        return not self._covers(component) and component not in self._may_be_lost

    def _give_up_component(self, failure: Failure) -> None:
        """Say, once, that a component is lost and the run goes on."""
        self._silences.forget(failure.component)
        if failure.component not in self._given_up:
            self._given_up.add(failure.component)
            self._failure_log.write(failure)
            logger.warning("%s is lost: the run goes on without it, since it may be lost", failure.component)

    def _find_failure(self, process: Child, *, tells_all: bool) -> Failure:
        """Return why a process has ended: as it has said, or as can be seen from outside."""
        if doomed := self._doomed.pop(process.name, None):
            return doomed.failure
        return self._rescue.explain_end(process, tells_all=tells_all)

    def _take_loss(self, process: Child, failure: Failure) -> bool:
        """Have a process replaced; tell whether that may be."""
        if objection := self._rescue.replacements.find_objection(failure):
            self._fail(replace(failure, message=f"{failure.message} (it is not replaced: {objection})"))
            return False
        if failure.is_crash:  # else it has been written, or there is no more to it
            self._failure_log.write(failure)
        self.latest_loss = failure
        self._rescue.replacements.note(failure)
        self._silences.forget(process.name)
        self._replace_child(process, failure, self._rescue)
        return True

    def look_now_and_then(self) -> None:
        """Do what `look` does, at most once a second; for whoever waits for components and has no other turn."""
        if self._clock() >= self._next_look_s:
            self.look()

    def look(self) -> None:
        """Tell of components that are silent, and end those that have been so for too long."""
        self._next_look_s = self._clock() + _LOOK_INTERVAL_S
        if self._rescue_if_any is not None:
            self._rescue.release_locks()
        late, lost = self._silences.look()
        for component, silent_s in late:
            place = self._rescue.locate(component)
            where = f": it is in {place}" if place else ""
            logger.warning("%s has shown no sign of life for %.0f s%s", component, silent_s, where)
        for component, silent_s in lost:
            if (child := self._rescue.find(component)) is not None:
                failure = self._rescue.examine(child, silent_s)
                if component not in self._may_be_lost:  # of which it is written when it is given up
                    self._failure_log.write(failure)
                self._doom(failure)
                child.kill()
        for component, doomed in list(self._doomed.items()):
            if self._clock() >= doomed.until_s and (child := self._rescue.find(component)) is not None:
                child.kill()
                self._give_up(child, doomed)

    def _give_up(self, child: Child, doomed: _Doomed) -> None:
        """Fail if a component has not ended long after it was killed: nothing would follow from it, ever."""
        if self._clock() >= doomed.until_s + _DYING_S and child.is_alive():
            del self._doomed[child.name]
            self._fail(replace(doomed.failure, message=f"{doomed.failure.message} (it cannot even be killed)"))

    def _doom(self, failure: Failure) -> None:
        if failure.component not in self._may_be_lost:
            self.latest_loss = failure
        self._silences.forget(failure.component)
        self._doomed[failure.component] = _Doomed(failure, self._clock() + _LAST_WORDS_S)


def _tell_together(failures: Sequence[Failure]) -> Failure:
    """Return the first failure; it tells of the others, which are of the same moment."""
    first, *others = failures
    if not others:
        return first
    told = "; ".join(f"{other.component}: {other.message}" for other in others)
    return replace(first, message=f"{first.message} (lost in the same moment: {told})")
