"""What is in the way of a run in its folder is told at the door, before anything is started or changed."""

from __future__ import annotations

import os
import shutil
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.cli.train import train
from sample_profiler.cli.training import training as training_module
from sample_profiler.cli.training import training_run as training_run_module
from sample_profiler.envs import register_env, registry
from sample_profiler.profiling import Session
from sample_profiler.run.env_probe import begin_local_probe
from sample_profiler.run.records.goals import GoalsReport
from tests.isolation.unprivileged import as_nobody, folder_of_nobody

INNER = ("profile", "profile/live", "profile/captures", "summary", "summary/0", "checkpoint_p0",
         "checkpoint_p0/milestones")  # fmt: skip


class Still(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


@pytest.fixture
def runs(monkeypatch):
    """Runs that were begun, without any process."""
    begun = []

    def execute(*arguments):
        begun.append(arguments)
        return SimpleNamespace(
            failure=None, reason="done", interrupted_by=None, frames={0: 1}, fps=1.0, steady_fps=1.0, elapsed_s=1.0,
            unrecorded={}, session=Session(created_s=0.0), steady=Session(created_s=0.0), processes={},
            keeps_earlier=False, process_s=1.5, goals=GoalsReport(),
        )  # fmt: skip

    monkeypatch.setattr(registry, "_makers", {})
    register_env("still", lambda *_, **__: Still())
    monkeypatch.setattr(training_run_module, "execute_run", execute)
    monkeypatch.setattr(training_module, "begin_probe", begin_local_probe)
    return begun


@pytest.fixture
def train_dir(runs, tmp_path):
    assert start(tmp_path) == 0  # imports what only root may be allowed to read
    runs.clear()
    with folder_of_nobody() as folder, as_nobody():
        yield folder


def start(train_dir, *flags):
    return train(["--env=still", f"--train_dir={train_dir}", "--experiment=mine", "--device=cpu", *flags])


@pytest.fixture
def earlier(train_dir):
    """The folder of an earlier run, with all folders in it."""
    assert start(train_dir) == 0
    for name in INNER:
        (train_dir / "mine" / name).mkdir(parents=True, exist_ok=True)
        (train_dir / "mine" / name / "content").touch()
    return train_dir / "mine"


def contents(folder):
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize("behavior", ["resume", "overwrite"])
@pytest.mark.parametrize("mode", [0o500, 0o300, 0o600, 0o000])
@pytest.mark.parametrize("name", INNER)
def test_folders_that_may_not_be_used_are_told_before_anything_is_changed(
    train_dir, earlier, runs, caplog, behavior, name, mode
):
    before = contents(earlier)
    (earlier / name).chmod(mode)
    runs.clear()
    assert start(train_dir, f"--restart_behavior={behavior}") == 2
    assert f"{earlier / name} (d" in caplog.text
    assert f"chmod u+rwx {earlier / name}" in caplog.text
    assert "Traceback" not in caplog.text
    assert runs == []
    (earlier / name).chmod(0o700)
    assert contents(earlier) == before
    assert start(train_dir, f"--restart_behavior={behavior}") == 0


@pytest.mark.parametrize("behavior", ["resume", "overwrite", "restart"])
@pytest.mark.parametrize("mode", [0o300, 0o600, 0o000])
def test_so_is_the_folder_of_the_run(train_dir, earlier, runs, caplog, behavior, mode):
    earlier.chmod(mode)
    runs.clear()
    assert start(train_dir, f"--restart_behavior={behavior}") == 2
    assert runs == []
    assert f"{earlier} (d" in caplog.text
    assert "chmod u+r" in caplog.text or "chmod u+x" in caplog.text
    assert "Traceback" not in caplog.text


def test_all_that_is_in_the_way_is_told_at_once(train_dir, earlier, caplog):
    for name in ("summary", "checkpoint_p0"):
        (earlier / name).chmod(0o500)
    (earlier / "log.txt").chmod(0o400)
    assert start(train_dir) == 2
    assert "3 problems with the options" in caplog.text
    assert f"chmod u+w {earlier / 'log.txt'}" in caplog.text


def test_what_a_restart_moves_away_as_a_whole_need_not_be_usable(train_dir, earlier):
    for name, mode in (("summary", 0o000), ("profile", 0o000), ("checkpoint_p0", 0o400)):
        (earlier / name).chmod(mode)
    assert start(train_dir, "--restart_behavior=restart") == 0
    assert len(list(train_dir.glob("mine_old_*"))) == 1


@pytest.mark.parametrize("mode", [0o500, 0o600, 0o000])
@pytest.mark.parametrize("experiment", ["mine", "a/b"])
def test_a_folder_that_cannot_be_made_is_told_with_what_it_would_be_in(train_dir, runs, caplog, mode, experiment):
    train_dir.chmod(mode)
    assert start(train_dir, f"--experiment={experiment}") == 2
    assert f"{train_dir} (d" in caplog.text
    assert "chmod u+" in caplog.text
    assert "Traceback" not in caplog.text
    assert runs == []


@pytest.mark.parametrize("name", ["summary", "summary/0", "checkpoint_p0", "checkpoint_p0/milestones", "profile"])
def test_a_file_in_the_place_of_a_folder_is_told(train_dir, runs, caplog, name):
    assert start(train_dir) == 0
    path = train_dir / "mine" / name
    path.parent.mkdir(exist_ok=True)
    shutil.rmtree(path, ignore_errors=True)
    path.touch()
    assert start(train_dir) == 2
    assert f"{path} is no folder but a file: move it away" in caplog.text
    assert len(runs) == 1
    assert start(train_dir, "--restart_behavior=overwrite") == 0


def test_a_file_system_for_reading_alone_is_told_as_such(train_dir, earlier, runs, caplog, monkeypatch):
    status = os.statvfs_result([*os.statvfs(earlier)[:8], os.ST_RDONLY, *os.statvfs(earlier)[9:]])
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)
    monkeypatch.setattr(os, "statvfs", lambda path: status)
    assert start(train_dir) == 2
    assert f"{earlier} is on a file system that is mounted for reading alone" in caplog.text
    assert len(runs) == 1


def test_folders_of_policies_that_a_run_does_not_have_are_none_of_its_business(train_dir, earlier):
    (earlier / "checkpoint_p1").mkdir()
    (earlier / "checkpoint_p1").chmod(0o500)
    assert start(train_dir) == 0


def test_a_relative_train_dir_is_overwritten_like_any_other(train_dir, earlier, monkeypatch):
    monkeypatch.chdir(train_dir.parent)
    inner = earlier / INNER[0] / "content"
    assert inner.exists()
    assert start(train_dir.name, "--restart_behavior=overwrite") == 0
    assert not inner.exists()
