"""What the timers of this process have recorded by now, as metadata of a record file that begins."""

from __future__ import annotations

import json
from typing import Any

from sample_profiler.profiling.record.earlier_timers import EARLIER_TIMERS
from sample_profiler.profiling.timers.stacks import get_thread_stacks

__all__ = ["describe_earlier_timers"]


def describe_earlier_timers() -> dict[str, str]:
    """Return, for the metadata of a record file that begins now, what the timers of all living threads have by now.

    Each tree is known by the time when it began, on the clock of blocks: after a reset it is another one.
    """
    trees = dict[int, dict[str, Any]]()
    for stack in get_thread_stacks().living():
        timing = stack.recording.timing
        if timing is not None and (tree := timing.snapshot()).children:
            trees[timing._recorder.start_ns or 0] = tree.to_dict()
    return {EARLIER_TIMERS: json.dumps(trees)} if trees else {}
