"""What is read of runs: each again only when it has changed, and little is kept of those that nobody has opened."""

from __future__ import annotations

import os
import shutil

import pytest

from sample_profiler.cli.serving import watched_runs as module
from sample_profiler.cli.serving.watched_runs import WatchedRuns
from sample_profiler.reports import live_page
from sample_profiler.run_folder import RunFolder
from tests.cli.serving.made_runs import live_run, make_ended_run


@pytest.fixture
def read(monkeypatch):
    """The runs that were read, in order."""
    read = []
    load = module.load_report
    monkeypatch.setattr(module, "load_report", lambda path, **choice: read.append(path.name) or load(path, **choice))
    return read


def test_a_run_that_has_ended_is_read_once_and_again_when_it_has_changed(tmp_path, read):
    runs = WatchedRuns(tmp_path)
    folder = make_ended_run(tmp_path / "first")
    for _ in range(3):
        assert set(runs.look(()).summaries) == {"first"}
    assert read == ["first"]
    session = RunFolder(folder).session
    os.utime(session, ns=(1, session.stat().st_mtime_ns + 1))
    runs.look(())
    assert read == ["first", "first"]


def test_a_run_that_goes_on_is_read_with_every_look_and_no_more_once_it_has_ended(tmp_path, read):
    runs = WatchedRuns(tmp_path)
    with live_run(tmp_path / "live") as (_, file):
        file.flush()
        assert runs.look(()).summaries["live"].is_live
        runs.look(())
        assert read == ["live", "live"]
    runs.look(())
    assert not runs.look(()).summaries["live"].is_live
    assert read.count("live") <= 4


def test_pages_are_made_of_runs_that_are_opened_alone(tmp_path, read):
    runs = WatchedRuns(tmp_path)
    for name in ("first", "second"):
        make_ended_run(tmp_path / name, history={"lag": [[time_s, 1.0] for time_s in range(600)]})
    looked = runs.look({"first", "nothing"})
    assert set(looked.pages) == {"first"} and "verdict" in looked.pages["first"]
    assert read == ["first", "second"], "who is opened comes first"
    assert looked.summaries["second"].history == {}, "only what the list shows is kept"
    assert "verdict" in runs.look({"second"}).pages["second"]


def test_curves_of_the_list_are_thinned_out_with_their_ends(tmp_path):
    points = [[time_s, float(time_s)] for time_s in range(600)]
    make_ended_run(tmp_path / "first", history={"episode_return_policy_0": points})
    (summary,) = WatchedRuns(tmp_path).look(()).summaries.values()
    kept = summary.history["episode_return_policy_0"]
    assert len(kept) <= 121 and kept[0] == (0, 0) and kept[-1] == (599, 599)
    assert summary.episode_return == 599


def test_many_runs_are_read_bit_by_bit_the_latest_first(tmp_path, read, monkeypatch):
    for number in range(5):
        folder = make_ended_run(tmp_path / f"run_{number}")
        for path in (RunFolder(folder).session, *RunFolder(folder).live().records()):
            os.utime(path, (number, number))
    for path in (*tmp_path.rglob("profile"), *tmp_path.rglob("live")):
        os.utime(path, (0, 0))
    monkeypatch.setattr(module, "_READING_S", -1.0)
    runs = WatchedRuns(tmp_path)
    looked = runs.look({"run_1"})
    assert read == ["run_1"] and looked.num_unread == 4
    monkeypatch.setattr(module, "_READING_S", 100.0)
    assert runs.look({"run_1"}).num_unread == 0
    assert read == ["run_1", "run_4", "run_3", "run_2", "run_0"]


def test_pages_that_were_closed_long_ago_are_forgotten(tmp_path):
    for number in range(10):
        make_ended_run(tmp_path / f"run_{number}")
    runs = WatchedRuns(tmp_path)
    for number in range(10):
        runs.look({f"run_{number}"})
    assert sum(bool(known.page) for known in runs._known.values()) == 8
    assert runs.look({"run_0"}).pages["run_0"], "and made again for who comes back"


def test_a_run_that_makes_the_reader_stumble_takes_no_other_with_it(tmp_path, monkeypatch, caplog):
    make_ended_run(tmp_path / "bad")
    make_ended_run(tmp_path / "good")
    load = module.load_report
    monkeypatch.setattr(
        module, "load_report", lambda path, **choice: 1 / 0 if path.name == "bad" else load(path, **choice)
    )
    looked = WatchedRuns(tmp_path).look({"bad"})
    assert looked.summaries["good"].verdict and looked.summaries["bad"].problem == "ZeroDivisionError: division by zero"
    assert "division by zero" in looked.pages["bad"]["head"]


@pytest.mark.parametrize(
    ("noted", "share", "left_s"),
    [
        ([], None, None),
        ([(10.0, 0.25)], 0.25, None),
        ([(10.0, 0.25), (20.0, 0.5)], 0.5, 20.0),
        ([(10.0, 0.25), (20.0, 0.25)], 0.25, None),
        ([(10.0, 0.9), (20.0, 1.0)], 1.0, 0.0),
    ],
)
def test_the_time_left_is_that_of_the_pace_of_the_last_minute(noted, share, left_s):
    course = module._course(noted)
    assert (course.share, course.left_s) == (share, left_s)


def test_runs_that_are_removed_are_gone(tmp_path):
    folder = make_ended_run(tmp_path / "first")
    runs = WatchedRuns(tmp_path)
    runs.look({"first"})
    folder.rename(tmp_path.parent / "elsewhere")
    assert runs.look({"first"}).summaries == {} and runs.paths == {}


def test_the_line_of_a_run_is_made_when_the_run_has_changed(tmp_path, monkeypatch):
    made, make = [], live_page._list_row
    monkeypatch.setattr(live_page, "_list_row", lambda summary: made.append(summary.name) or make(summary))
    runs = WatchedRuns(tmp_path)
    for name in ("first", "second"):
        make_ended_run(tmp_path / name)
    for _ in range(3):
        assert runs.look(()).list_html.count("run?name=") == 2
    assert sorted(made) == ["first", "second"]
    make_ended_run(tmp_path / "second", fps=77.0)
    assert "77" in runs.look(()).list_html and made[2:] == ["second"]


def test_a_run_that_was_started_again_begins_another_course(tmp_path):
    runs = WatchedRuns(tmp_path)
    for started_ns, progress in ((1, 0.25), (2, 0.5)):
        with live_run(tmp_path / "live", process_started_ns=started_ns) as (_, file):
            courses = []
            for share in (progress, progress + 0.25):
                file.set_gauge("Runner/progress", share)
                file.flush()
                courses.append(runs.look(()).summaries["live"].course)
            assert [course.share for course in courses] == [progress, progress + 0.25]
            assert courses[0].left_s is None and courses[1].left_s < 60
        shutil.rmtree(tmp_path / "live")
