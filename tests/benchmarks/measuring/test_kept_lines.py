"""Results that are kept line by line: what a kill cuts off costs one line, and each tells where it comes from."""

from __future__ import annotations

import subprocess

from harness.kept_lines import append_line, describe_origin, read_commit, read_lines, tell_origins


def git(folder, *arguments):
    names = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)


def test_a_line_that_was_cut_off_costs_itself_alone(tmp_path):
    path = tmp_path / "new" / "lines.jsonl"
    assert read_lines(path) == []
    for number in range(2):
        append_line(path, {"number": number})
    with path.open("a") as file:
        file.write('{"number": 2, "prob')
    append_line(path, {"number": 3})
    assert [line["number"] for line in read_lines(path)] == [0, 1, 3]
    assert path.read_text().count("\n") == 4


def test_the_commit_tells_whether_files_differ_from_it_but_not_of_results(tmp_path):
    assert read_commit(tmp_path) == "unknown"
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    for path in (tmp_path / "code.py", results / "kept.jsonl"):
        path.write_text("a")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "a")
    commit = read_commit(tmp_path)
    assert len(commit) == 12
    (results / "kept.jsonl").write_text("b")
    assert read_commit(tmp_path) == commit
    (tmp_path / "code.py").write_text("b")
    assert read_commit(tmp_path) == f"{commit}+"


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_commit(tmp_path) == "unknown"
    assert describe_origin()["machine"]


def test_each_origin_is_told_once():
    lines = [{"machine": "a", "commit": "1"}, {"machine": "a", "commit": "1"}, {"machine": "b", "commit": "2"}]
    assert tell_origins(lines) == "a, commit 1; b, commit 2"
