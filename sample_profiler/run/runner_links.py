"""What the wiring of a run hands its Runner: the ways to everybody else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sample_profiler.run.extensions.extensions import Extensions
from sample_profiler.run.processes import Processes
from sample_profiler.run.records.run_records import RunRecords
from sample_profiler.runtime.loop.event_loop import LoopControl
from sample_profiler.runtime.messages.channels import LocalReports

__all__ = ["RunnerLinks"]


@dataclass(frozen=True)
class RunnerLinks:
    """What connects the Runner with everybody else.

    Attributes:
        reports: queues of the components of this process.
        processes: that the run has started.
        records: what all processes have recorded.
        update_recording: brings the record file of this process up to date.
        loop: ends the loop that the Runner runs in, or has it ask anew what the Runner listens to.
        extensions: signals, and components of the user's own.
        clock: returns seconds that never go back.
    """

    reports: Sequence[LocalReports]
    processes: Processes
    records: RunRecords
    update_recording: Callable[[], None]
    loop: LoopControl
    extensions: Extensions = field(default_factory=Extensions)
    clock: Callable[[], float] = time.monotonic
