"""A run that is looked at from a program: its figures are those of the report, its pictures those of the page."""

from __future__ import annotations

import builtins
import json

import pytest

import sample_profiler
from sample_profiler import Run
from sample_profiler.errors import SessionError, UsageError
from sample_profiler.profiling.session.session import profile_session
from sample_profiler.reports.run_report.loading import load_report
from sample_profiler.run_folder import RunFolder


@pytest.fixture
def run_dir(tmp_path):
    folder = tmp_path / "run"
    with profile_session(folder) as timing, timing.add_time("<work>"):
        pass
    path = RunFolder(folder).session
    session = json.loads(path.read_text())
    session["run"] |= {"fps": 12.5, "frames": {"0": 100}, "history": {"fps": [[0, 10], [5, 20.5]], "lag": [[5, 1]]}}
    session["config"] = {"env": "mine"}
    path.write_text(json.dumps(session))
    return folder


def test_a_run_says_what_its_report_says(run_dir):
    run, report = Run(str(run_dir)), load_report(run_dir)
    assert run.name == "run" and not run.is_running
    assert run.facts["fps"] == 12.5 and "history" not in run.facts
    assert run.config == {"env": "mine"}
    assert report.verdict.headline in run.verdict
    assert str(run).startswith("run has ended\n") and report.verdict.headline in str(run)
    assert repr(run) == f"<run run, which has ended: {report.verdict.headline}>"
    assert run.query("SELECT path, count FROM blocks") == [{"path": "<work>", "count": 1}]


def test_figures_are_data_frames(run_dir):
    pandas = pytest.importorskip("pandas")
    run = Run(run_dir)
    assert run.history["fps"].tolist() == [10, 20.5] and run.history.index.tolist() == [0, 5]
    assert pandas.isna(run.history.loc[0, "lag"])
    account = load_report(run_dir).accounts[0]
    work = run.accounts[run.accounts.kind == "work"]
    assert dict(zip(work.part, work.seconds, strict=True)) == account.work
    assert list(run.blocks.block) == ["<work>"]
    assert {"memory_mib"} <= set(run.gauges.gauge)
    assert len(run.table("events")) == 1
    assert run.table("SELECT 1 AS one").one.tolist() == [1]


def test_without_pandas_it_says_what_to_install_or_use(run_dir, monkeypatch):
    imported = builtins.__import__
    monkeypatch.setattr(
        builtins,
        "__import__",
        lambda name, *rest: (_ for _ in ()).throw(ImportError(name)) if name == "pandas" else imported(name, *rest),
    )
    with pytest.raises(UsageError, match=r"pip install pandas, or use query\(\)"):
        _ = Run(run_dir).history


@pytest.mark.parametrize("name", ["curves", "accounts", "tree", "verdict", "page"])
def test_pictures_are_pages_of_their_own(run_dir, tmp_path, name):
    picture = Run(run_dir).picture(name)
    picture.save(tmp_path / "picture.html")
    html = (tmp_path / "picture.html").read_text()
    assert html.startswith("<!DOCTYPE html>") and "<style>" in html and "<work>" not in html
    assert {"curves": "<svg", "accounts": "class=bar", "tree": "class=icicle"}.get(name, "class=verdict") in html
    shown = picture._repr_html_()
    assert shown.startswith("<iframe sandbox srcdoc=") and shown.count("<") == 2, "its style is not the notebook's"
    assert picture.title in repr(picture)


def test_there_are_no_other_pictures(run_dir):
    with pytest.raises(UsageError, match="there are curves, accounts, tree, verdict and page"):
        Run(run_dir).picture("nothing")


def test_looking_again_sees_what_is_new(run_dir):
    run = Run(run_dir)
    path = RunFolder(run_dir).session
    session = json.loads(path.read_text())
    session["run"]["fps"] = 99.0
    path.write_text(json.dumps(session))
    assert run.facts["fps"] == 12.5
    assert run.refresh() is run and run.facts["fps"] == 99.0


def test_a_folder_that_is_no_runs_is_told(tmp_path):
    with pytest.raises(SessionError):
        Run(tmp_path)
    assert sample_profiler.Run is Run
