"""Owns the child processes: starts them, notices their ends, stops them, and cleans up what they leave behind."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import psutil

from sample_profiler.runtime.machine.libraries import let_idle_threads_sleep
from sample_profiler.runtime.machine.measured_process import MeasuredProcess
from sample_profiler.runtime.machine.memory_watch import LackOfMemory, MemoryWatch
from sample_profiler.runtime.messages.channels import PipeEnd, PipeReports, make_pipe
from sample_profiler.runtime.messages.heartbeats import SAVE_S, RunnerPulse
from sample_profiler.runtime.messages.shared_memory import make_anonymous_file
from sample_profiler.runtime.messages.spawn_payload import SpawnPayload
from sample_profiler.runtime.processes.child import (
    ChildLinks,
    ChildSettings,
    MakeComponent,
    SharedMemoryNames,
    run_child,
)
from sample_profiler.runtime.processes.child_process import Child
from sample_profiler.runtime.processes.main_module import OWN_PROCESS
from sample_profiler.runtime.processes.orphans import (
    become_subreaper,
    check_processes_shown,
    descendants_of,
    end_sessions,
    is_subreaper,
    list_shared_memory,
    mapped_shared_memory,
    resign_as_subreaper,
    unlink_unused,
)
from sample_profiler.runtime.signals.ending_signals import signals_held, take_notice_of_children

__all__ = ["GRACE_AFTER_FAILURE_S", "Supervisor"]

logger = logging.getLogger(__name__)

GRACE_AFTER_FAILURE_S = 4.0
"""What children have to finish where one has failed: others may wait for it for ever."""

_POLL_S = 0.01
_NOTE_INTERVAL_S = 2.0
_END_S = 3.0
_SAME_MOMENT_S = 0.1  # whoever ends several processes, as a loop in a shell
_KILLING_S = 1.0  # the kernel looks for memory elsewhere before it ends another one, and takes time to end a large one
_THIS_PROCESS = "the main process"


def _run_handed(handed: tuple[ChildSettings, MakeComponent, ChildLinks]) -> None:
    run_child(*handed)


class Supervisor:
    """Starts children and answers for them until none of them, and nothing that they started, is left.

    Creating one makes this process the subreaper of its descendants, until the last one has let go of its children.

    Raises:
        ConfigError: the system shows no processes, so nobody could answer for them.
    """

    _active: ClassVar[set[int]] = set()
    _was_subreaper: ClassVar[bool] = False
    _took_notice: ClassVar[bool] = False  # of children, which the program has ignored

    def __init__(self) -> None:
        check_processes_shown()
        if not self._active:
            type(self)._was_subreaper = is_subreaper()
        self._active.add(id(self))
        become_subreaper()
        type(self)._took_notice |= take_notice_of_children()
        self.children: list[Child] = []
        self._lifeline, self._lifeline_write = make_pipe()
        self._pulse = RunnerPulse()
        self._shared_memory: defaultdict[int, set[str]] = defaultdict(set)
        self._descendants: dict[int, set[psutil.Process]] = {}
        self._existed_before = list_shared_memory()
        self._next_note_s = 0.0
        self._memory = MemoryWatch()
        let_idle_threads_sleep()

    def spawn(self, settings: ChildSettings, make_component: MakeComponent) -> Child:
        """Start a process that builds and runs a component.

        Args:
            settings: what the process is like.
            make_component: a picklable callable; runs in the child.
        """
        stacks = PipeEnd(make_anonymous_file())
        links = ChildLinks(PipeReports(), PipeReports(), self._lifeline, self._pulse, stacks)
        payload = SpawnPayload((settings, make_component, links))
        name = OWN_PROCESS + settings.name
        process = MeasuredProcess(target=_run_handed, args=(payload,), name=name, daemon=False)
        self._pulse.beat()
        with signals_held():  # by the child, too, until it is ready for them
            child = Child(settings, process, links)
            self.children.append(child)
        self._memory.begin(child.pid, child.name)
        return child

    def kill_now(self, children: Sequence[Child]) -> None:
        """Kill some of the children; whoever stops or kills all of them ends what these have started, too."""
        # A game that starts makes named memory, and so does who starts it: nothing shall be new after the last look.
        for child in children:
            child.suspend()
        self.note_belongings(children)
        for child in children:
            for process in self._descendants.get(child.pid, ()):
                with contextlib.suppress(psutil.Error):  # it has ended
                    process.suspend()
        self.note_belongings(children)  # again: somebody in between who ends during one look hides what it had started
        for child in children:
            # A game may end with its worker, and nobody would see any more what it has mapped.
            games = [process.pid for process in self._descendants.get(child.pid, ())]
            self._shared_memory[child.pid] |= mapped_shared_memory(games)
            child.kill()

    def bury(self, child: Child) -> None:
        """End a child that is lost with everything that it has started and left behind; the others go on."""
        self.kill_now([child])
        child._process.join(_END_S)
        self._memory.note_end(child.pid, child.most_memory_bytes)
        self.children.remove(child)
        left = mapped_shared_memory([child.pid]) | end_sessions([child.pid], self._descendants.pop(child.pid, ()))
        left |= self._shared_memory.pop(child.pid, set())
        # What others have used they may open again, although nobody maps it now.
        left = left.difference(*self._shared_memory.values())
        self._unlink(left)
        if still_used := set(filter(os.path.exists, left)):  # by who takes long to die: `kill` tries again
            self._shared_memory[child.pid] = still_used

    def note_belongings(self, children: Iterable[Child]) -> None:
        """Remember what children have started and what named shared memory they use, should they be killed."""
        pids = [child.pid for child in children if child.is_alive()]
        for pid in pids:
            self._shared_memory[pid] |= mapped_shared_memory([pid])
        for pid, found in descendants_of(pids).items():
            # Somebody in between may have ended, and what it had started has another parent now.
            earlier = self._descendants.get(pid, set())
            self._descendants[pid] = found | {process for process in earlier - found if process.is_running()}

    def note_shared_memory(self, told: SharedMemoryNames) -> None:
        """Remember named shared memory that a child has told of: a game may begin and be gone between two looks."""
        self._shared_memory[told.pid] |= told.names

    def beat(self) -> None:
        """Show the children that this process goes on, and look after them from time to time; call it often."""
        self._pulse.beat()
        self.flush()
        if time.monotonic() >= self._next_note_s:
            self._next_note_s = time.monotonic() + _NOTE_INTERVAL_S
            self.note_belongings(self.children)
            self._look_at_memory()

    def await_ends(self, ended: Sequence[Child]) -> list[Child]:
        """Return children that have ended, and those that end in the same moment: what ends several ends them at once.

        Args:
            ended: just now.
        """
        found = list(ended)
        lacked_memory = any(self._memory.has_new_kills(child.pid) for child in found)
        deadline_s = time.monotonic() + (_KILLING_S if lacked_memory else _SAME_MOMENT_S)
        while time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
            self._pulse.beat()
            found += [child for child in self.children if child not in found and not child.is_alive()]
        return found

    def explain_end(self, child: Child) -> LackOfMemory | None:
        """Return what a child lacked that has ended, if want of memory is why; else None."""
        if not (child.was_killed_by_others or child.has_broken_off):
            return None
        self._look_at_memory()
        return self._memory.explain_end(child.pid, was_killed=child.was_killed_by_others)

    def explain_refusal(self, child: Child, *, was_refused: bool) -> LackOfMemory | None:
        """Return what a child lacks that has failed, if want of memory is why; else None.

        Args:
            child: that has failed.
            was_refused: whether it was refused memory; else the kernel may have ended what it had started.
        """
        self._look_at_memory()
        return self._memory.explain_refusal(child.pid, was_refused=was_refused)

    def _look_at_memory(self) -> None:
        names = {child.pid: child.name for child in self.children if child.is_alive()}
        started = {pid: [process.pid for process in self._descendants.get(pid, ())] for pid in names}
        self._memory.look({os.getpid(): _THIS_PROCESS, **names}, started)
        for child in self.children:
            if child.pid not in names:
                self._memory.note_end(child.pid, child.most_memory_bytes)

    def beating(self) -> AbstractContextManager[None]:
        """Show the children meanwhile that this process goes on, although it may have to wait for a file system."""
        return self._pulse.beating(SAVE_S)

    def flush(self) -> bool:
        """Send on what the children were asked and there was no room for; tell whether all are asked that live."""
        return all([child.flush() for child in self.children])

    def stop(
        self,
        grace_s: float,
        while_waiting: Callable[[], None],
        before_kill: Callable[[Child], None] = lambda _: None,
    ) -> list[Child]:
        """Ask all children to finish, kill those that have not after their time, and clean up.

        Args:
            grace_s: at most, whatever the children's own patience is.
            while_waiting: is called again and again until all are gone: takes what the children still report.
            before_kill: is called with each child that is going to be killed.

        Returns:
            The children that had to be killed.
        """
        try:
            self._wait_for_ends(grace_s, while_waiting)
            for child in self.children:
                if child.is_alive():
                    before_kill(child)
        finally:
            killed = self.kill()
        while_waiting()
        return killed

    def _wait_for_ends(self, grace_s: float, while_waiting: Callable[[], None]) -> None:
        self.note_belongings(self.children)
        for child in self.children:
            if child.is_alive():
                child.stop()
        begin_s = time.monotonic()
        while any(
            child.is_alive() and time.monotonic() < begin_s + min(grace_s, child.patience_s) for child in self.children
        ):
            self._pulse.beat()
            self.flush()
            while_waiting()
            time.sleep(_POLL_S)

    def kill(self) -> list[Child]:
        """Kill the children that still live and everything that any child has left behind; return who was killed."""
        killed = [child for child in self.children if child.is_alive()]
        self.kill_now(killed)
        for child in killed:
            child._process.join(_END_S)
            child.let_go_if_alive()
        noted = set().union(*self._descendants.values())
        left = end_sessions((child.pid for child in self.children), noted)
        self._unlink(left.union(*self._shared_memory.values()))
        self._active.discard(id(self))
        if not self._active:
            self._resign()
        return killed

    def _resign(self) -> None:
        """Leave the process as it was before there were children."""
        if not self._was_subreaper:
            resign_as_subreaper()
        if self._took_notice and threading.current_thread() is threading.main_thread():
            type(self)._took_notice = False
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    def _unlink(self, names: set[str]) -> None:
        if unlinked := unlink_unused(names, self._existed_before):
            logger.info("Removed the shared memory of ended processes: %s", ", ".join(sorted(unlinked)))
