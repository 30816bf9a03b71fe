"""Exit statuses as shells have them."""

from __future__ import annotations

import signal

from sample_profiler.cli.common.statuses import status_of_interrupt, status_of_signal
from sample_profiler.runtime.signals.ending_signals import EndedBySignal


def test_a_command_that_a_signal_has_ended_says_which():
    assert status_of_signal(signal.SIGTERM) == 143
    assert status_of_interrupt(KeyboardInterrupt()) == 130
    assert status_of_interrupt(EndedBySignal(signal.SIGHUP)) == 129
