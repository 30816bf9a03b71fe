"""Files of results: what an interrupted benchmark goes on with, and what it does not."""

from __future__ import annotations

import json
import subprocess

import pytest

from benchmarks.measuring import kept_runs
from benchmarks.measuring.kept_runs import KeptRuns, describe_commit


def test_results_are_in_the_file_at_once_and_read_back(tmp_path):
    path = tmp_path / "folder" / "runs.jsonl"
    kept = KeptRuns(path, {"seconds": 9.0, "order": ("a", "b")})
    kept.add({"case": "a"})
    setting, first = map(json.loads, path.read_text().splitlines())
    assert setting["seconds"] == 9.0 and setting["commit"] and setting["machine"]["num_cpus"]
    assert first == {"case": "a"}
    assert KeptRuns(path, {"seconds": 9.0, "order": ("a", "b")}).results == [{"case": "a"}]


def test_a_line_that_was_cut_off_is_no_result(tmp_path):
    path = tmp_path / "runs.jsonl"
    KeptRuns(path, {}).add({"case": "a"})
    path.write_text(path.read_text() + '{"case": ')
    kept = KeptRuns(path, {})
    assert kept.results == [{"case": "a"}]
    kept.add({"case": "b"})
    assert KeptRuns(path, {}).results == [{"case": "a"}, {"case": "b"}]


def test_runs_of_another_setting_are_not_gone_on_with(tmp_path, monkeypatch):
    path = tmp_path / "runs.jsonl"
    KeptRuns(path, {"seconds": 9.0})
    with pytest.raises(SystemExit, match="has runs of another seconds: give another --output"):
        KeptRuns(path, {"seconds": 8.0})
    monkeypatch.setattr(kept_runs, "describe_commit", lambda: "another")
    with pytest.raises(SystemExit, match="has runs of another commit: give another --output"):
        KeptRuns(path, {"seconds": 9.0})


@pytest.fixture
def repository(monkeypatch, tmp_path):
    """A repository with one commit."""

    def git(*arguments):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)

    git("init")
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "benchmarks" / "code.py").write_text("1\n")
    (tmp_path / "benchmarks" / "results" / "runs.jsonl").write_text("1\n")
    git("add", ".")
    git("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-m", "first")
    monkeypatch.setattr(kept_runs, "_ROOT", tmp_path)
    return tmp_path / "benchmarks"


def test_changes_of_the_code_are_told_from_the_commit_and_from_each_other_and_results_are_none(repository):
    committed = describe_commit()
    assert len(committed) == 12
    (repository / "results" / "runs.jsonl").write_text("2\n")
    assert describe_commit() == committed
    described = set()
    for text in ("2\n", "3\n"):
        (repository / "code.py").write_text(text)
        assert describe_commit().startswith(f"{committed} and changes ")
        described.add(describe_commit())
    assert len(described) == 2


def test_without_a_repository_the_commit_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(kept_runs, "_ROOT", tmp_path)
    assert describe_commit() == "unknown"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert describe_commit() == "unknown"
