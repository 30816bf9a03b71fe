"""Folders of runs that have ended, go on or have strange names, without anything that trains."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager

from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session.session import profile_session
from sample_profiler.run_folder import RunFolder

SCRIPT = "<script>alert(1)</script>"


def make_ended_run(folder, log="", **facts):
    """A run that has ended, with facts as its Runner writes them."""
    with profile_session(folder) as timing, timing.add_time("work"):
        pass
    run = RunFolder(folder)
    session = json.loads(run.session.read_text())
    session["run"] |= facts
    run.session.write_text(json.dumps(session))
    if log:
        run.log.write_text(log)
    return folder


@contextmanager
def live_run(folder, ring_bytes=0, process_started_ns=None):
    """A run that goes on: its Runner's Timing and record file, which the caller updates."""
    live = RunFolder(folder).live()
    live.path.mkdir(parents=True)
    timing = Timing("Runner profile")
    file = RecordFile(
        live.record("Runner", os.getpid()),
        process_name="Runner",
        process_started_ns=process_started_ns,
        ring_bytes=ring_bytes,
    )
    file.attach(timing, "Runner")
    try:
        yield timing, file
    finally:
        file.close()
