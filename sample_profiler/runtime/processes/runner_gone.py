"""Owns how a child process notices that its Runner is gone or hangs, also while its own main thread is stuck."""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from typing import TYPE_CHECKING, NoReturn

from sample_profiler.runtime.commands.commands import Patience
from sample_profiler.runtime.processes.orphans import end_descendants
from sample_profiler.runtime.signals.suspension import LOOK_INTERVAL_S, StandstillWatch
from sample_profiler.runtime.surroundings.own_pipes import FILES_CLOSED, OwnPipes

if TYPE_CHECKING:
    from sample_profiler.runtime.messages.channels import PipeEnd
    from sample_profiler.runtime.processes.child import ChildLinks, ChildSettings

__all__ = ["is_closed", "watch_runner"]

logger = logging.getLogger(__name__)


def is_closed(lifeline: PipeEnd, patience_s: float = 0.0) -> bool:
    """Tell whether the Runner, the only holder of a lifeline's write end, is gone; wait for that for so long."""
    poll = select.poll()  # not select.select, which knows the first 1024 descriptors
    poll.register(lifeline.fileno(), select.POLLIN)
    return bool(poll.poll(patience_s * 1000))


def watch_runner(
    settings: ChildSettings,
    links: ChildLinks,
    is_silent: threading.Event,
    existed: frozenset[str],
    patience: Patience,
    pipes: OwnPipes | None,
) -> None:
    """End this process when the Runner is gone or hangs; until then, tell it when this process stood still.

    Also end it when its pipes lead to somebody else, so that nobody can be told anything. In a thread of its own: the
    main thread may be stuck, as in a report that nobody takes.

    Args:
        settings: of this process.
        links: to the Runner.
        is_silent: is set when it is gone or hangs: then there is the patience to finish.
        existed: shared memory that belongs to others.
        patience: what there is to finish.
        pipes: of this process, as they were before it made environments; None: it makes none.
    """
    has_been_silent = links.runner_pulse.make_watch(settings.hang_timeout_s)
    standstills = StandstillWatch(settings.name)
    while not (is_gone := is_closed(links.lifeline, LOOK_INTERVAL_S)) and not has_been_silent():
        if pipes is not None and pipes.are_replaced():
            _end(existed, FILES_CLOSED)
        if (stood_still := standstills.look()) is not None:
            links.reports.send_if_possible(stood_still)
    if not is_gone:
        _tell_of_silence(settings.name, links)
    is_silent.set()
    time.sleep(patience.seconds)
    _end(existed, 1)


def _end(existed: frozenset[str], status: int) -> NoReturn:
    try:
        end_descendants(existed)
    finally:  # whatever there was: nobody else would end this process
        os._exit(status)


def _tell_of_silence(name: str, links: ChildLinks) -> None:
    """Leave word for a Runner that goes on one day; waits for nothing, not even for room in the pipe."""
    message = (
        f"{name} finishes and ends: the Runner has shown no sign of life for {links.runner_pulse.silent_s():.0f} s, as "
        "when it is suspended (Ctrl+Z) for longer than --hang_timeout"
    )
    record = logger.makeRecord(logger.name, logging.WARNING, __file__, 0, message, (), None)
    if logger.isEnabledFor(record.levelno):
        links.reports.send_if_possible(record)
