"""What is told of a process that gives no sign of life."""

from __future__ import annotations

from sample_profiler.profiling.record.format import FLOW_POINT
from sample_profiler.profiling.record.process_record import Anchor, Event, OpenBlock, ProcessRecord
from sample_profiler.reports.sections.hang import describe_hang, describe_place

S = 10**9


def test_open_blocks_and_the_latest_passes_are_told_with_their_times():
    record = ProcessRecord(
        name="RolloutWorker_w1", pid=1, host="here", is_compiled=True, is_closed=False, state="alive",
        process_started_ns=0, read_ns=100 * S, start_anchor=Anchor(0, 0, 0), end_anchor=None,
        paths=[("RolloutWorker_w1",), ("RolloutWorker_w1", "main_loop"), ("RolloutWorker_w1", "main_loop", "env_step")],
        open_blocks=[
            OpenBlock("RolloutWorker_w1", ("main_loop",), 10 * S, 1),
            OpenBlock("RolloutWorker_w1", ("main_loop", "env_step"), 40 * S, 1),
            OpenBlock("RolloutWorker_w1", ("warm_up",), 5 * S, 2),
        ],
        events=[Event(20 * S, 23 * S, 2, 1, 0), Event(21 * S, FLOW_POINT, 2, 1, 7)],
    )  # fmt: skip
    text = describe_hang(record, now_ns=100 * S)
    assert "  main_loop for 90 s" in text.replace("1 min 30 s", "90 s").replace("90.0 s", "90 s")
    assert "main_loop/env_step took" in text
    assert describe_place(record, now_ns=100 * S) == "main_loop/env_step for 1 min 00 s"
    assert text.count("took") == 1, "points of flows are no passes"
    record.open_blocks, record.events = [], []
    assert describe_hang(record, now_ns=100 * S).splitlines() == ["open blocks, outer ones first:", "  none"]
    assert describe_place(record, now_ns=100 * S) == ""
