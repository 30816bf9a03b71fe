"""What a tracker gets of a run that is over, and how it has ended."""

from __future__ import annotations

import json

import pytest

from sample_profiler.profiling import Session
from sample_profiler.trackers.results import write_results


def results_of(folder, into):
    into.mkdir()
    paths, outcome = write_results(folder, into)
    return {path.name: path.read_bytes().decode() for path in paths}, outcome


@pytest.mark.parametrize(("failure", "outcome"), [(None, "finished"), ("no memory", "failed")])
def test_a_run_has_its_flags_verdict_accounts_page_and_videos(make_run, tmp_path, failure, outcome):
    folder = make_run("doom", "--alert_webhook=https://a/b/SECRET")
    folder.profile.mkdir()
    session = Session(5.0, run={"failure": failure, "frames": {"0": 100}}, config=folder.flag_values())
    session.save(folder.session)
    folder.replay.with_suffix(".gif").write_bytes(b"GIF8")
    results, how = results_of(folder, tmp_path / "files")
    assert how == outcome
    assert list(results) == ["config.json", "verdict.md", "accounts.txt", "report.html", "replay.gif"]
    assert json.loads(results["config.json"])["env"] == "CartPole-v1"
    assert results["report.html"].startswith("<!DOCTYPE html>")
    assert results["verdict.md"].startswith("**")
    assert "SECRET" not in "".join(results.values())


def test_a_run_that_was_killed_at_once_has_its_flags(make_run, tmp_path):
    results, how = results_of(make_run(), tmp_path / "files")
    assert (list(results), how) == (["config.json"], "killed")


def test_a_video_somewhere_else_is_not_given_away(make_run, tmp_path):
    folder, elsewhere = make_run(), tmp_path / "private"
    elsewhere.write_text("mine")
    folder.replay.with_suffix(".mp4").symlink_to(elsewhere)
    assert list(results_of(folder, tmp_path / "files")[0]) == ["config.json"]
