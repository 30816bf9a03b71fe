"""Owns what an observer may ask of the components of a live run, and what becomes of it once the run has ended."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sample_profiler.errors import RunEndedError
from sample_profiler.run.commands.rollout_captures import ANSWER_S, CapturesRollouts
from sample_profiler.run.commands.sender import CommandSender

__all__ = ["AsksComponents"]

logger = logging.getLogger(__name__)

_ANSWER_S = 30.0


class AsksComponents(CapturesRollouts):
    """Whoever is in command of the components of a run.

    A run may end while an observer asks, and observers are told of its last steps and of its end when nobody answers
    any more. What only changes something is then left undone, with a warning: it is no reason for a run to fail.

    Attributes:
        command_sender: all components.
        reason: why the run ended, in words; empty: it has not.
    """

    command_sender: CommandSender
    reason: str

    def call(
        self,
        method: str,
        arguments: tuple[Any, ...] = (),
        components: Iterable[str] | None = None,
        timeout_s: float = _ANSWER_S,
    ) -> dict[str, Any]:
        """Call a method of components of the running run, and return what each returned.

        For the thread that the Runner's loop runs in, such as an observer's.

        Args:
            method: a command of the components, or one that every process has.
            arguments: of the call.
            components: who is asked; None: all.
            timeout_s: for all answers together.

        Raises:
            CommandError: a component raised, did not answer in time or is not there.
            RunEndedError: the run has ended; that is a CommandError, too. One that leaves an observer is a warning.
            ComponentLostError: the process of one has ended; the same holds for it.
            ValueError: the arguments cannot be sent to another process.
        """
        names = self.command_sender.names() if components is None else components
        return self.command_sender.call(method, dict.fromkeys(names, arguments), timeout_s)

    def set_profiling_enabled(self, is_enabled: bool) -> None:
        """Turn named ranges on or off in every process; the errors are those of `call`, but for the run's end."""
        self._call_all("set_profiling_enabled", is_enabled)

    def set_recording_enabled(self, is_enabled: bool) -> None:
        """Turn recording on or off in every process; the errors are those of `call`, but for the run's end."""
        self._call_all("set_recording_enabled", is_enabled)

    def disable_profile(self) -> list[Path]:
        """End all captures that are on, and return the traces that this has written; without any, do nothing.

        A run that has ended has ended its captures, too.

        Raises:
            CommandError: a trace cannot be written.
            SampleProfilerError: a worker has failed, or does not answer.
        """
        return [] if self.reason else super().disable_profile()

    def _call_all(self, method: str, *arguments: Any) -> None:
        try:
            self.call(method, arguments)
        except RunEndedError as error:
            _tell_of_end(method, error)

    def _call_components(self, method: str, arguments: dict[str, tuple[Any, ...]]) -> list[Any]:
        try:
            return list(self.command_sender.call(method, arguments, ANSWER_S).values())
        except RunEndedError as error:
            _tell_of_end(method, error)
            return []


def _tell_of_end(method: str, error: RunEndedError) -> None:
    logger.warning("%s() does nothing, the run has ended: %s", method, error)
