"""What is known of a process that has ended."""

from __future__ import annotations

import os
import sys

from sample_profiler.runtime.machine.measured_process import UNKNOWN_STATUS, MeasuredProcess


def test_a_process_has_ended_when_somebody_else_has_waited_for_it():
    process = MeasuredProcess(target=sys.exit, args=(3,))
    process.start()
    os.waitpid(process.pid, 0)  # as a handler of SIGCHLD does that waits for whichever child ends
    assert not process.is_alive()
    assert process.exitcode == UNKNOWN_STATUS
    process.join(timeout=5)


def test_a_process_whose_end_nobody_else_takes_tells_its_status():
    process = MeasuredProcess(target=sys.exit, args=(3,))
    process.start()
    process.join(timeout=30)
    assert process.exitcode == 3
