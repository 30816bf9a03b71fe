"""Owns the Runner's way to ask components for something while they run, in both wirings."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Protocol

from sample_profiler.errors import CommandError, ComponentLostError, RunEndedError
from sample_profiler.profiling import Timing
from sample_profiler.runtime.commands.commands import CAPTURE_COMMANDS, Command, Commanded, CommandResult, run_command
from sample_profiler.runtime.messages.channels import LocalReports
from sample_profiler.runtime.messages.heartbeats import CAPTURE_S
from sample_profiler.vocabulary import FOR_COMPONENTS, WAIT

__all__ = ["CommandSender", "CommandTarget", "LocalTarget"]

_POLL_S = 0.002
_LASTING = frozenset({"set_post_collect_hook", "set_profiling_enabled", "set_recording_enabled"})
"""Commands whose effect a component keeps, and whoever takes its place has to have, too."""


class CommandTarget(Protocol):
    """A component that can be asked."""

    @property
    def name(self) -> str:
        """The component's name."""

    @property
    def pid(self) -> int:
        """Its process."""

    def send_command(self, command: Command) -> None:
        """Ask; the answer is a report."""

    def is_alive(self) -> bool:
        """Tell whether its process runs."""


class LocalTarget:
    """A component of this process: asked and answered in place.

    Args:
        component: who is asked.
        reports: where the answer goes.
        beat: gives a sign of life, with the patience that is to be had until the next one, in seconds.
    """

    def __init__(
        self, component: Commanded, reports: LocalReports, beat: Callable[[float], None] = lambda _: None
    ) -> None:
        self.name = component.name
        self.pid = os.getpid()
        self._component = component
        self._reports = reports
        self._beat = beat

    def send_command(self, command: Command) -> None:
        """Run the command, and report the answer."""
        if command.method in CAPTURE_COMMANDS:
            self._beat(CAPTURE_S)
        self._reports.send(run_command(self._component, command))
        self._beat(0.0)

    def is_alive(self) -> bool:
        """Tell that its process, this one, runs."""
        return True


class CommandSender:
    """Sends commands to the components of a run, and collects their answers.

    Args:
        members: the components.
        take_reports: takes in what they report; called again and again while an answer is waited for.
        end_reason: says why the run is over, or nothing while it goes on.
        timing: of whoever asks; that a component is waited for is a block in it.

    Attributes:
        numbers: for commands.
        members: the components.
    """

    def __init__(
        self,
        members: Sequence[CommandTarget],
        take_reports: Callable[[], None],
        end_reason: Callable[[], str],
        timing: Timing,
    ) -> None:
        self.numbers = itertools.count(1)
        self.members = list(members)
        self._take_reports = take_reports
        self._end_reason = end_reason
        self._timing = timing
        self._answers: dict[int, dict[str, CommandResult]] = {}
        self._settings: dict[str, dict[str, tuple[int, tuple[Any, ...]]]] = {}

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of components that begin with `prefix`."""
        return [member.name for member in self.members if member.name.startswith(prefix)]

    def replace(self, member: CommandTarget) -> None:
        """Ask this component from now on, instead of the one of the same name, of which it gets all settings."""
        self.members = [member if each.name == member.name else each for each in self.members]
        for method, (_, arguments) in self._settings.get(member.name, {}).items():
            member.send_command(Command(next(self.numbers), method, arguments))

    def remove(self, name: str) -> None:
        """Ask a component no more: it is lost, and nobody takes its place."""
        self.members = [member for member in self.members if member.name != name]

    def call(self, method: str, arguments: Mapping[str, tuple[Any, ...]], timeout_s: float) -> dict[str, Any]:
        """Call a method of some components, and wait for what it returns.

        Args:
            method: one of their commands, or of every process.
            arguments: of each call, by component.
            timeout_s: for all of them together; a component answers between two turns.

        Raises:
            CommandError: there is no such component, it raised, or did not answer in time.
            RunEndedError: the run is over.
            ComponentLostError: its process has ended.
        """
        self._check_goes_on(method, arguments)
        unknown = set(arguments) - set(self.names())
        if unknown:
            raise CommandError(f"unknown components {sorted(unknown)}; allowed are {', '.join(self.names())}")
        number = next(self.numbers)
        answers = self._answers[number] = {}
        try:
            # A component of this process answers while it is sent the command: that is waiting for it, too.
            with self._timing.add_time(WAIT + FOR_COMPONENTS):
                self._send(number, method, arguments)
                try:
                    self._wait(answers, arguments, method, timeout_s)
                finally:
                    self._keep_settings(number, method, arguments, answers)
        finally:
            del self._answers[number]
        for component in arguments:
            if answers[component].error is not None:
                raise CommandError(f"{component}: {answers[component].error}")
        return {component: answers[component].value for component in arguments}

    def post(self, method: str, arguments: Mapping[str, tuple[Any, ...]]) -> int:
        """Ask without waiting; returns the number by which `answers` knows the request, until `forget`."""
        number = next(self.numbers)
        self._answers[number] = {}
        self._send(number, method, arguments)
        return number

    def answers(self, number: int) -> Mapping[str, CommandResult]:
        """Return who has answered a posted request so far, and what."""
        return self._answers.get(number, {})

    def forget(self, number: int) -> None:
        """Drop further answers to a posted request."""
        self._answers.pop(number, None)

    def take(self, result: CommandResult) -> None:
        """Take in an answer; of commands that nobody waits for any more it is dropped."""
        if result.number in self._answers:
            self._answers[result.number][result.component] = result

    def _send(self, number: int, method: str, arguments: Mapping[str, tuple[Any, ...]]) -> None:
        for member in self.members:
            if member.name in arguments:
                member.send_command(Command(number, method, arguments[member.name]))

    def _keep_settings(
        self,
        number: int,
        method: str,
        arguments: Mapping[str, tuple[Any, ...]],
        answers: Mapping[str, CommandResult],
    ) -> None:
        """Keep what was asked, for successors; what a component has refused, its successor would refuse, too.

        Whoever is told of messages may ask for something else while answers are waited for: the later one counts.
        """
        if method not in _LASTING:
            return
        for component, given in arguments.items():
            settings = self._settings.setdefault(component, {})
            is_refused = component in answers and answers[component].error is not None
            if not is_refused and settings.get(method, (0, ()))[0] < number:
                settings[method] = number, given

    def _wait(
        self, answers: Mapping[str, CommandResult], arguments: Mapping[str, Any], method: str, timeout_s: float
    ) -> None:
        deadline_s = time.monotonic() + timeout_s
        dead = self._take_and_find_dead(arguments)
        while missing := [component for component in arguments if component not in answers]:
            self._check_goes_on(method, missing)
            if lost := [component for component in missing if component in dead]:
                raise ComponentLostError(f"{', '.join(lost)} cannot answer {method!r} any more: the process has ended")
            if time.monotonic() > deadline_s:
                raise CommandError(
                    f"{', '.join(missing)} did not answer {method!r} within {timeout_s:g} s: a component answers "
                    "between two turns; wait until it has started, or for longer"
                )
            time.sleep(_POLL_S)
            dead = self._take_and_find_dead(arguments)

    def _check_goes_on(self, method: str, asked: Iterable[str]) -> None:
        # Components of this process could be asked after their end, and would take what they can do nothing about.
        if reason := self._end_reason():
            raise RunEndedError(f"{', '.join(asked)} cannot answer {method!r} any more: {reason}")

    def _take_and_find_dead(self, asked: Container[str]) -> set[str]:
        """Take reports, and return whose process had ended before: all that these have reported is taken."""
        dead = {member.name for member in self.members if member.name in asked and not member.is_alive()}
        self._take_reports()
        return dead
