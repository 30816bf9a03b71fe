"""Owns what a script adds to its run, as the Runner has it: slots, components of its own, and what these ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sample_profiler.component_id import RUNNER
from sample_profiler.components.messages import Started, Stopped, Stopping
from sample_profiler.errors import FROM_OUTSIDE
from sample_profiler.run.commands.sender import CommandSender, CommandTarget
from sample_profiler.run.extensions.component import RunComponent, name_of
from sample_profiler.run.extensions.env_calls import CallEnvs, EnvCalls
from sample_profiler.run.extensions.mailboxes import LocalMailbox, Mailbox
from sample_profiler.run.extensions.own_components import plan_own_component
from sample_profiler.run.extensions.signals import HasSignals, Signal, Switchboard
from sample_profiler.run.layout.blueprint import Blueprint
from sample_profiler.run.layout.topology import ComponentPlan
from sample_profiler.runtime.messages.heartbeats import Heartbeat
from sample_profiler.runtime.processes.child import Finished
from sample_profiler.runtime.processes.failure import Failure

__all__ = ["Extensions"]

AddSlot = Callable[[str, Callable[[Any], None]], Callable[[Any], None]]


class Extensions:
    """Signals of a run, and the components of the user's own.

    Args:
        components: the user's own.
        names: of all others but the Runner.
        make_mailbox: for a component, by its name.

    Attributes:
        switchboard: who is connected to which signal.
    """

    def __init__(
        self,
        components: Sequence[RunComponent] = (),
        names: Sequence[str] = (),
        make_mailbox: Callable[[str], Mailbox] = LocalMailbox,
    ) -> None:
        self._own = {name_of(component): component for component in components}
        self._mailboxes = {name: make_mailbox(name) for name in self._own}
        self.switchboard = Switchboard([*names, *self._own], list(self._own), self._make_call)
        self._env_calls = EnvCalls(lambda _: None)
        self._begun: set[str] = set()
        self._stopped: set[str] = set()
        self._failures: dict[str, str] = {}
        self._add_slot: AddSlot = lambda *_: lambda _: None

    @property
    def may_be_lost(self) -> frozenset[str]:
        """Components that the run goes on without."""
        return frozenset(name for name, component in self._own.items() if component.may_be_lost)

    @property
    def told(self) -> frozenset[type]:
        """Messages that somebody wants to be told of."""
        return self.switchboard.told

    def join(self, add_slot: AddSlot, fail: Callable[[Failure], None]) -> None:
        """Belong to a Runner.

        Args:
            add_slot: returns what owes a slot of this process a call.
            fail: ends the run.
        """
        self._add_slot = add_slot
        self._env_calls = EnvCalls(fail)

    def connect(self, runner: HasSignals, fail: Callable[[Failure], None]) -> None:
        """Let components connect their slots; nobody may any more after that."""
        for name, component in self._own.items():
            with _failing(name, fail):
                component.on_connect_components(runner)
        self.switchboard.is_open = False

    def plan(self, blueprint: Blueprint) -> list[ComponentPlan]:
        """Return the components of the user's own as a run needs them."""
        return [
            plan_own_component(blueprint, component, name, index, self._mailboxes[name].mail())
            for index, (name, component) in enumerate(self._own.items())
        ]

    def emit(self, payload: Any) -> None:
        """Tell all who are connected to the signal of this type."""
        self.switchboard.emit(payload)

    def take(self, report: Any, sender: CommandSender) -> None:
        """Take in what a component has reported.

        Args:
            report: of any type.
            sender: asks components.
        """
        match report:
            case Heartbeat():
                if not (report.is_starting or report.component in self._begun or report.component in self._failures):
                    self._begun.add(report.component)
                    self.emit(Started(report.component))
            case Failure():
                self._failures[report.component] = report.message
            case Finished():
                self.note_end(report.component)
            case CallEnvs():
                self._env_calls.take(report, sender)
            case _:
                self.emit(report)

    def note_stopping(self, reason: str) -> None:
        """Tell that the run is about to end, and so all components that have begun."""
        for component in sorted({RUNNER, *self._begun} - self._stopped):
            self.emit(Stopping(component, reason))

    def note_end(self, component: str, failure: str = "") -> None:
        """Tell that a component has ended, once; of one of the user's own that there is nobody to be told any more."""
        if component not in self._stopped:
            self._stopped.add(component)
            self.emit(Stopped(component, self._failures.get(component) or failure))  # what it said itself says more
        if component in self._mailboxes:
            self._mailboxes[component].close()

    def note_successor(self, child: CommandTarget, sender: CommandSender) -> None:
        """Take in that a process has the place of one whose end was noted, and tell it what environments are told."""
        self._begun.discard(child.name)
        self._stopped.discard(child.name)
        self._failures.pop(child.name, None)
        self._env_calls.repeat(child, sender)

    def look(self, sender: CommandSender) -> None:
        """Go on with what has to wait for components; called a few times a second."""
        self.deliver()
        self._env_calls.look(sender)

    def deliver(self) -> None:
        """Hand on to components of the user's own what there is room for by now."""
        for mailbox in self._mailboxes.values():
            mailbox.deliver()

    def _make_call(self, signal: Signal[Any], slot: Callable[[Any], None]) -> Callable[[Any], None]:
        owner = getattr(slot, "__self__", None)
        if not isinstance(owner, RunComponent):
            return self._add_slot(signal.name, slot)
        name = next((name for name, component in self._own.items() if component is owner), None)
        if name is None:
            raise ValueError(
                f"the slot of {signal.name} is of {name_of(owner)}, which the run does not have: hand this very object "
                "to train(components=[…])"
            )
        mailbox, method = self._mailboxes[name], slot.__name__
        if getattr(owner, method, None) != slot:
            raise ValueError(
                f"the slot of {signal.name} is not known by its name in {name_of(owner)}, {method!r}: connect a method "
                "without __ at its beginning, and let decorators use functools.wraps"
            )
        return lambda payload: mailbox.put((signal.name, method, payload))


@contextlib.contextmanager
def _failing(component: str, fail: Callable[[Failure], None]) -> Iterator[None]:
    try:
        yield
    except FROM_OUTSIDE:
        raise
    except BaseException as error:
        fail(Failure.from_exception(component, error))
