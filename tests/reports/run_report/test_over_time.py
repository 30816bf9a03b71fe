"""What a report shows of a run's time: changes, memory, trajectories, and what keeps policies from learning."""

from __future__ import annotations

import json

import pytest

from sample_profiler.cli.main import main
from sample_profiler.reports.run_report.page import format_html
from sample_profiler.reports.run_report.report import make_report, report_to_dict
from sample_profiler.reports.run_report.text import format_text, format_verdicts
from sample_profiler.run_folder import RunFolder
from tests.analysis.learning.test_verdict import session_of
from tests.analysis.test_lives import make_session
from tests.analysis.trends.made_readings import MadeRun


@pytest.fixture
def report():
    """Of a run with everything that there is to tell."""
    run = MadeRun(
        step_s=lambda time_s, _: 0.03 if time_s >= 70 else 0.01,
        frame_s=lambda _: 0.0002,
        memory_mib=lambda time_s, worker: 100 + (0.2 * time_s if worker == 1 else 0.0),
    )
    session = run.session()
    learning = session_of({"gamma": 0.5}, unchanged_observations=0.0)
    session.run["history"] = learning.run["history"]
    lives = make_session()
    session.config |= learning.config | lives.config
    session.processes = lives.processes
    for gauges in session.run["readings"]["gauges"].values():
        if "private_memory_mib" in gauges:
            gauges["memory_mib"] = [value + 50.0 for value in gauges["private_memory_mib"]]
    session.run["readings"]["gauges"]["Learner_0"] |= {
        name: [300.0] * run.seconds for name in ("private_memory_mib", "memory_mib", "gpu_memory_mib")
    }
    return make_report("mine", session, None)


TOLD = (
    "steps of the environments of all workers take 3.0 times as long",
    "The memory of RolloutWorker_w1 grows steadily",
    "The policy does not look ahead as far as its episodes go",
    "Of 1 trajectories of the latest seconds",
)


def test_the_text_tells_all_of_it(report):
    text = format_text(report)
    assert [sentence for sentence in TOLD if sentence not in text] == []
    assert "RolloutWorker_w0           100          100              50" in text, "memory: own, then shared"
    verdicts = format_verdicts(report)
    assert [sentence in verdicts for sentence in TOLD] == [True, True, True, False]


def test_the_page_tells_all_of_it_with_a_picture_of_each_process_memory(report):
    page = format_html(report)
    assert [sentence for sentence in TOLD if sentence not in page] == []
    section = page.partition("Memory of each process")[2].partition("</section>")[0]
    assert section.count("<svg") == 6, "four workers, the Learner, and its part of a GPU"
    assert "own 124 MiB, shared 50 MiB at last" in section


def test_the_data_tell_all_of_it(report):
    data = json.loads(json.dumps(report_to_dict(report)))
    assert [trend["cause"] for trend in data["trends"]] == ["environments", "memory leak"]
    assert [problem["cause"] for problem in data["learning"]] == ["short horizon"]
    assert (data["memory"][0]["process"], data["memory"][0]["gpu_mib"][-1]) == ("Learner_0", [120.0, 300.0])
    assert data["trajectories"]["num_trajectories"] == 1
    assert "readings" not in data["facts"]


def test_the_verdicts_of_a_run_are_a_command(report, tmp_path, capsys):
    folder = RunFolder(tmp_path)
    folder.profile.mkdir()
    report.session.processes = []
    report.session.save(folder.session)
    assert main(["verdict", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert [sentence in told for sentence in TOLD] == [True, True, True, False]
