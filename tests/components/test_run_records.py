"""What the Runner does about record files while the run goes on."""

from __future__ import annotations

from sample_profiler.components.run_records import RunRecords
from sample_profiler.config import parse_config


def test_a_timeline_whose_window_never_began_is_missed_aloud(tmp_path, caplog):
    records = RunRecords(tmp_path, parse_config(["--env=e", "--timeline_seconds=100:5"]).profiling)
    records.follow_timeline()
    assert not caplog.messages
    records.end_timeline()
    assert "the run ended before second 100" in caplog.text
