"""Records of processes as timelines take them, and what becomes of them."""

from __future__ import annotations

from sample_profiler.profiling.record.events import Event
from sample_profiler.profiling.record.process_record import Anchor, ProcessRecord
from sample_profiler.profiling.tree.tree import TreeNode

US = 1000
PATHS = [("RolloutWorker_w0",), ("RolloutWorker_w0", "env_step"), ("RolloutWorker_w0", "env_step", "physics")]


def make_record(name="RolloutWorker_w0", events=(), paths=tuple(PATHS), **changes):
    values = {
        "name": name,
        "pid": 7,
        "host": "here",
        "is_compiled": True,
        "is_closed": True,
        "state": "ended",
        "process_started_ns": 0,
        "read_ns": 1000 * US,
        "start_anchor": Anchor(0, 0, 0),
        "end_anchor": None,
        "trees": {path[0]: TreeNode() for path in paths},
        "paths": list(paths),
        "events": [Event(*event) for event in events],
        "thread_names": {1: "MainThread"},
    }
    return ProcessRecord(**(values | changes))


def of_phase(events, phase):
    return [event for event in events if event["ph"] == phase]
