"""`sample-profiler status`: what it prints of runs that live, hang and have ended, and of folders that are none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sample_profiler.cli import status as status_module
from sample_profiler.cli.main import main
from sample_profiler.profiling.record.process_record import Anchor, ProcessRecord
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.run_folder import RunFolder


def make_session(state="ended"):
    root = TreeNode()
    root.statistics.add([10**9])
    record = ProcessRecord(
        name="Learner_0",
        pid=1,
        host="",
        is_compiled=True,
        is_closed=state == "ended",
        state=state,
        process_started_ns=0,
        read_ns=10**9,
        start_anchor=Anchor(0, 0, 0),
        end_anchor=None,
        trees={"Learner_0": root},
    )
    return Session(2e9, run={"reason": "enough frames"}, processes=[record])


def test_a_run_that_has_ended_is_shown_from_its_session(tmp_path, capsys):
    (tmp_path / "profile").mkdir()
    make_session().save(RunFolder(tmp_path).session)
    assert main(["status", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "The run has ended (enough frames)" in printed
    assert "Learner_0" in printed


def test_watching_goes_on_until_the_run_is_over(tmp_path, capsys, monkeypatch):
    sessions = [make_session("alive"), make_session("stopped"), make_session("ended")]
    naps = []
    monkeypatch.setattr(status_module, "read_all_ranks", lambda folder, **_: sessions.pop(0))
    monkeypatch.setattr(status_module.time, "sleep", naps.append)
    assert main(["status", str(tmp_path), "--watch"]) == 0
    printed = capsys.readouterr().out
    assert [word for word in ("is running", "is stopped", "has ended") if f"The run {word}" in printed] == [
        *("is running", "is stopped", "has ended"),
    ]
    assert len(naps) == 2
    assert "\033" not in printed  # no terminal, no tricks


def test_ctrl_c_ends_watching_in_order(tmp_path, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(status_module, "read_all_ranks", lambda folder, **_: make_session("alive"))
    monkeypatch.setattr(status_module.time, "sleep", interrupt)
    assert main(["status", str(tmp_path), "--watch"]) == 0


@pytest.mark.parametrize("name", ["", "none"])
def test_a_folder_that_is_no_run_is_bad_usage(tmp_path, capsys, name):
    assert main(["status", str(tmp_path / name)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("sample-profiler status: ")
    assert "{train_dir}/{experiment}" in captured.err


def test_where_nothing_can_be_written_it_is_one_error(tmp_path):
    (tmp_path / "profile").mkdir()
    make_session().save(RunFolder(tmp_path).session)
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "sample_profiler", "status", str(tmp_path)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    problem = "cannot write what there is to say: [Errno 28] No space left on device\n"
    assert done.stderr == f"sample-profiler status: {problem}"
