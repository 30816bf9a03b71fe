"""Stores of trackers have the curve of a run and its resume as one, and a tracker that is lost costs a run nothing."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from harness.runs import CARTPOLE, SMALL, command, run, running
from sample_profiler.config import parse_config, save_config
from sample_profiler.reports.tensorboard import SummaryFile
from sample_profiler.run_folder import RunFolder
from sample_profiler.trackers.event_files import read_points
from tests.trackers import fake_trackio
from tests.trackers.stores import ENVIRONMENT, READERS

REWARD = "reward/reward"
OFTEN = ("--experiment_summaries_interval=0.5", "--flush_summaries_interval=1", "--track_timeout=60")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stores are made in a folder of their own, and nobody is asked on any network."""
    monkeypatch.chdir(tmp_path)
    for name, value in {**ENVIRONMENT, "WANDB_MODE": "offline", "PYTHONPATH": str(Path(__file__).parents[3])}.items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.fixture
def fake(here, monkeypatch):
    """Return what has runs find a package in the place of Trackio's, and returns what that is told."""

    def install(hangs_in=""):
        packages, told = here / "packages", here / "told"
        packages.mkdir()
        fake_trackio.install(packages, told, hangs_in)
        monkeypatch.setenv("PYTHONPATH", f"{packages}{os.pathsep}{os.environ['PYTHONPATH']}")
        return lambda: fake_trackio.told_to(told)

    return install


def curve_of(folder):
    """Return what TensorBoard's files have."""
    points = [point for path in folder.event_files_of(0) for point in read_points(path, 0)[0]]
    return [(point.step, point.values[REWARD]) for point in points if REWARD in point.values]


@pytest.mark.parametrize("serial_mode", [False, True])
@pytest.mark.parametrize("tracker", READERS)
def test_the_store_of_each_tracker_has_the_curve_of_a_run_and_its_resume_as_one(here, tracker, serial_mode):
    pytest.importorskip(tracker)
    flags = [f"--track={tracker}", "--wandb_tags", "a", "b", f"--serial_mode={serial_mode}"]
    first = run(*CARTPOLE, *SMALL, *OFTEN, *flags, "--train_for_env_steps=10000", folder=here)
    assert first.returncode == 0, first.stdout
    folder = RunFolder(here / "run")
    run_id = json.loads(folder.tracking_state(tracker).read_text())["run_id"]
    begun = curve_of(folder)
    # Not even the flag has to be given again.
    second = run(CARTPOLE[0], "--train_for_env_steps=20000", folder=here)
    assert second.returncode == 0, second.stdout
    assert f"Tracker {tracker}: " in second.stdout and "WARNING: Tracker" not in first.stdout + second.stdout
    assert json.loads(folder.tracking_state(tracker).read_text())["run_id"] == run_id
    curve, files = READERS[tracker](here, run_id, REWARD)
    assert sorted(curve) == sorted(curve_of(folder))
    assert curve[-1][0] >= 20_000 and begun and set(begun) < set(curve)
    assert {"config.json", "verdict.md", "accounts.txt", "report.html"} <= set(files)


@pytest.mark.parametrize("tracker", READERS)
def test_whatever_a_run_has_to_say_is_taken(here, tracker):
    pytest.importorskip(tracker)
    folder = RunFolder(here / "odd run")
    folder.path.mkdir()
    save_config(parse_config(["--env=CartPole-v1", "--experiment=odd run", "--wandb_tags", "a", "b"]), folder.config)
    file = SummaryFile(folder.summary_of(0), 1)
    names = (REWARD, "policy_stats/avg_a+b (%)", "../up", "x//y", "ü/…", "/", "step", "n" * 400)
    file.write(dict.fromkeys(names, 1.5), 100)
    file.write({REWARD: float("nan"), "len/len": float("inf")}, 200)
    file.add_text("mine/../text", "**<b>**", 300)
    file.add_image("mine/still", np.zeros((4, 4, 3), np.uint8), 300, "HWC")
    file.add_video("mine/film", np.zeros((1, 2, 3, 4, 4), np.uint8), 300)
    file.close()
    words = [sys.executable, "-m", "sample_profiler", "track", "odd run", tracker]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "None" not in ended.stderr and ended.stderr.count("\n") < 4
    assert json.loads(folder.tracking_state(tracker).read_text())["num_points"] == 5


def test_a_tracker_that_is_killed_leaves_the_run_going_and_its_resume_tells_the_rest(here, fake):
    told = fake()
    words = command(*CARTPOLE, *SMALL, *OFTEN, "--track=trackio", "--train_for_env_steps=10000000000", folder=here)
    with running(words, here / "output.txt", here / "run") as live:
        pid = int(str(wait_for(lambda: [each for each in told() if each[0] == "log"])[0][-1]))
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: "its process has ended; the run goes on without it" in live.output)
        frames = len(curve_of(RunFolder(live.folder)))
        wait_for(lambda: len(curve_of(RunFolder(live.folder))) > frames + 2)
        live.process.send_signal(signal.SIGTERM)
        assert live.process.wait(60) == 128 + signal.SIGTERM
    num_told = len(told())
    assert run(CARTPOLE[0], "--train_for_seconds=1", folder=here).returncode == 0
    rest = told()[num_told:]
    assert rest[0][:2] == told()[0][:2], "the same run"
    assert [each[0] for each in rest[-2:]] == ["files", "finish"]
    steps = [each[1] for each in told() if each[0] == "log"]
    assert {step for step, _ in curve_of(RunFolder(here / "run"))} <= set(steps)


def test_a_run_that_is_killed_is_told_of_to_its_end(here, fake):
    told = fake()
    words = command(*CARTPOLE, *SMALL, *OFTEN, "--track=trackio", "--train_for_env_steps=10000000000", folder=here)
    with running(words, here / "output.txt", here / "run") as live:
        wait_for(lambda: [each for each in told() if each[0] == "log"])
        live.process.kill()
        wait_for(lambda: told()[-1][0] == "finish")
    assert [each[0] for each in told()[-2:]] == ["files", "finish"]


@pytest.mark.parametrize("serial_mode", [False, True])
def test_a_tracker_that_hangs_keeps_the_run_for_as_long_as_was_said(here, fake, serial_mode):
    fake("init")
    flags = ["--track=trackio", "--track_timeout=1", f"--serial_mode={serial_mode}"]
    ended = run(*CARTPOLE, *SMALL, *flags, "--train_for_env_steps=4000", folder=here)
    assert ended.returncode == 0
    assert "WARNING: Tracker trackio: it has not taken all within 1.0 s, and is not waited for" in ended.stdout
    assert "left processes" not in ended.stdout


def test_a_server_that_never_answers_keeps_the_run_for_as_long_as_was_said(here, monkeypatch):
    pytest.importorskip("mlflow")
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.getsockname()[1]}")
        flags = ["--track=mlflow", "--track_timeout=1", "--train_for_env_steps=4000"]
        ended = run(*CARTPOLE, *SMALL, *flags, folder=here)
    assert ended.returncode == 0
    assert "WARNING: Tracker mlflow: it has not taken all within 1.0 s, and is not waited for" in ended.stdout
    # What it lacks is sent afterwards, to wherever that is now.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", ENVIRONMENT["MLFLOW_TRACKING_URI"])
    words = [sys.executable, "-m", "sample_profiler", "track", "run", "mlflow"]
    assert subprocess.run(words, check=False).returncode == 0
    with closing(sqlite3.connect(here / "mlflow.db")) as store:
        assert store.execute("SELECT count(*) FROM metrics").fetchall() != [(0,)]


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="Weights & Biases is installed")
def test_what_is_not_installed_is_said_before_anything_is_begun(here):
    ended = run(*CARTPOLE, "--with_wandb=True", folder=here)
    assert ended.returncode == 2
    last = ended.stdout.strip().splitlines()[-1]
    assert last.endswith(
        "--with_wandb=True: wandb is not installed: pip install 'sample_profiler[wandb]', or leave it out"
    )
    assert not (here / "run").exists()


def wait_for(find):
    """Return what is found, as soon as it is."""
    deadline_s = time.monotonic() + 60
    while not (found := find()):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    return found
