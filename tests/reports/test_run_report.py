"""What a report says of runs, by the part of them that it is about."""

from __future__ import annotations

import pytest

from sample_profiler.profiling import Timing
from sample_profiler.profiling.record_file import RecordFile
from sample_profiler.profiling.session import Session, live_folder, read_live
from sample_profiler.reports.html_report import format_html
from sample_profiler.reports.run_report import make_report


@pytest.fixture
def session(tmp_path):
    live_folder(tmp_path).mkdir(parents=True)
    for name in ("Runner", "Learner_0", "RolloutWorker_w0"):
        timing = Timing(f"{name} profile")
        file = RecordFile(live_folder(tmp_path) / f"{name}.1.rec", process_name=name, ring_bytes=0)
        file.attach(timing, name)
        with timing.add_time("start_up"):
            pass
        file.close()
    return read_live(tmp_path, with_events=False)


def test_a_run_that_was_over_before_it_was_steady_is_told_so_and_shows_its_workers(session):
    report = make_report("short", session, Session(0.0))
    assert report.verdict.headline.startswith("The run was over before it was steady: its start took ")
    assert "Workers side by side" in format_html(report)


def test_a_run_without_records_has_a_report_that_says_so():
    report = make_report("empty", Session(0.0), Session(0.0))
    assert report.verdict.headline == "There are no records of a training run's components"
