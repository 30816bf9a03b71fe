"""Owns how components of one's own reach environments: through the Runner, and all RolloutWorkers.

Nobody waits for an answer. While workers have not answered a call of a method, the newest other call of it waits, in
the place of earlier ones: what is set often is set to what counts now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sample_profiler.component_id import ROLLOUT_WORKER
from sample_profiler.run.commands.sender import CommandSender, CommandTarget
from sample_profiler.runtime.processes.failure import Failure

__all__ = ["CallEnvs", "EnvCalls"]

_COMMAND = "call_envs"


@dataclass(frozen=True)
class CallEnvs:
    """A component wants a method of all environments called.

    Attributes:
        component: who wants it.
        method: of the environments.
        arguments: of the call.
    """

    component: str
    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class _Posted:
    call: CallEnvs
    number: int
    pids: dict[str, int]


class EnvCalls:
    """Calls of methods of environments that are under way.

    Args:
        fail: told where one could not be done; ends the run.
    """

    def __init__(self, fail: Callable[[Failure], None]) -> None:
        self._fail = fail
        self._latest: dict[str, CallEnvs] = {}
        self._posted: dict[str, _Posted] = {}
        self._repeated: list[_Posted] = []
        self._waiting: dict[str, CallEnvs] = {}

    def take(self, call: CallEnvs, sender: CommandSender) -> None:
        """Ask the workers, or let the call wait."""
        self._latest[call.method] = call
        if call.method in self._posted:
            self._waiting[call.method] = call
            return
        workers = {each.name: each.pid for each in sender.members if each.name.startswith(ROLLOUT_WORKER)}
        number = sender.post(_COMMAND, dict.fromkeys(workers, (call.method, call.arguments)))
        self._posted[call.method] = _Posted(call, number, workers)

    def look(self, sender: CommandSender) -> None:
        """Take in answers, and go on with calls that wait for them."""
        for method, posted in list(self._posted.items()):
            if self._is_over(posted, sender):
                del self._posted[method]
                if (call := self._waiting.pop(method, None)) is not None:
                    self.take(call, sender)
        self._repeated = [posted for posted in self._repeated if not self._is_over(posted, sender)]

    def repeat(self, successor: CommandTarget, sender: CommandSender) -> None:
        """Tell a worker that has taken the place of a lost one what environments have been told last."""
        for method, call in self._latest.items():
            number = sender.post(_COMMAND, {successor.name: (method, call.arguments)})
            self._repeated.append(_Posted(call, number, {successor.name: successor.pid}))

    def _is_over(self, posted: _Posted, sender: CommandSender) -> bool:
        """Tell whether all have answered that are still there, and fail the run where one could not do it."""
        answers = sender.answers(posted.number)
        for worker, answer in answers.items():
            if answer.error is not None:
                last_line = answer.error.strip().splitlines()[-1]
                message = f"its call_envs({posted.call.method!r}) failed: {worker}: {last_line}"
                self._fail(Failure(posted.call.component, message, answer.error))
        pids = {each.name: each.pid for each in sender.members}  # a successor has not been asked
        if not all(worker in answers or pids.get(worker) != pid for worker, pid in posted.pids.items()):
            return False
        sender.forget(posted.number)
        return True
