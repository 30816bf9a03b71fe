"""The large session of the benchmark, made small: what it has is what a run's would have."""

from __future__ import annotations

import json

from benchmarks.profiler.large_session import GAUGES, NUM_POINTS, NUM_WORKERS, make_session, save_session
from sample_profiler.cli.main import main
from sample_profiler.run_folder import RunFolder


def test_it_has_as_many_events_as_asked_and_all_of_them_are_in_its_trace(tmp_path):
    run_dir, output = tmp_path / "run", tmp_path / "trace.json"
    num_events = make_session(run_dir, 5_000)
    assert 5_000 <= num_events <= 5_050
    save_session(run_dir)
    assert list(RunFolder(run_dir).live().records()) == []
    assert main(["trace", str(run_dir), "-o", str(output)]) == 0
    events = json.loads(output.read_text())["traceEvents"]
    phases = [event["ph"] for event in events]
    points = {(event["ph"], event["id"], event["ts"], event["pid"]) for event in events if event["ph"] in "stf"}
    assert phases.count("X") + len(points) >= 0.99 * num_events, "a flow may have lost its end"
    counted = [event["name"] for event in events if event["ph"] == "C" and event["pid"] == 1]
    assert [counted.count(name) for name in GAUGES] == [NUM_POINTS] * len(GAUGES)
    assert sum(event["name"] == "process_name" for event in events) == NUM_WORKERS + 3
