"""`sample-profiler track` tells trackers of runs that are over, and of those that go on until they are."""

from __future__ import annotations

import threading
import time

import pytest

from sample_profiler.cli.main import main
from sample_profiler.cli.tracking import track as track_module
from sample_profiler.runtime.surroundings.folder_lock import folder_locked


def test_a_run_that_is_over_is_told_of_at_once(make_run, fake, capsys):
    told, folder = fake(), make_run("doom", "--track=trackio", steps=[[100, 200]])
    assert main(["track", str(folder.path)]) == 0
    assert [what for what, *_ in told()] == ["init", "log", "log", "files", "finish"]
    assert "Tracker trackio: run doom_" in capsys.readouterr().err
    assert main(["track", str(folder.path), "trackio"]) == 0
    assert [what for what, *_ in told()][5:] == ["init", "files", "finish"], "the points are there"


def test_a_run_that_goes_on_is_followed_to_its_end(make_run, fake, monkeypatch):
    monkeypatch.setattr(track_module, "_LOOK_INTERVAL_S", 0.05)
    told, folder = fake(), make_run(steps=[[100]])
    statuses = []
    with folder_locked(folder.path):
        thread = threading.Thread(target=lambda: statuses.append(main(["track", str(folder.path), "trackio"])))
        thread.start()
        while not any(what == "log" for what, *_ in told()):
            time.sleep(0.05)
        assert all(what != "finish" for what, *_ in told())
    thread.join()
    assert statuses == [0]
    assert told()[-1][0] == "finish"


def test_a_tracker_that_cannot_be_told_is_said_and_what_to_look_at(make_run, fake, capsys):
    fake()
    folder = make_run(steps=[[100]])
    state = folder.tracking_state("trackio")
    state.parent.mkdir(parents=True)
    state.write_text("no state")
    assert main(["track", str(folder.path), "trackio"]) == 1
    told = capsys.readouterr().err
    assert "Tracker trackio: it has not taken all: " in told and str(folder.tracking_log("trackio")) in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tensorboard"], "there is no tracker 'tensorboard': there are wandb, trackio, mlflow"),
        ([], "the run was told of no tracker: say which, wandb, trackio, mlflow"),
    ],
)
def test_what_cannot_be_told_is_said(make_run, capsys, words, message):
    assert main(["track", str(make_run().path), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_tracker_that_is_not_installed_is_said(make_run, capsys, monkeypatch):
    monkeypatch.setattr(track_module, "describe_missing", lambda name: f"{name} is not installed: pip")
    assert main(["track", str(make_run().path), "mlflow"]) == 2
    assert "mlflow is not installed: pip" in capsys.readouterr().err


def test_a_folder_without_a_run_is_said(tmp_path, capsys):
    assert main(["track", str(tmp_path), "mlflow"]) == 2
    assert "is not the folder of a run" in capsys.readouterr().err
