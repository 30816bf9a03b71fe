"""The `train` command, with a stand-in for the run itself: flags, folders, files, exit status."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import signal
import threading
from functools import partial
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.cli.train import train
from sample_profiler.cli.training import folder_taking as folder_taking_module
from sample_profiler.cli.training import training as training_module
from sample_profiler.cli.training import training_run as training_run_module
from sample_profiler.config import load_config
from sample_profiler.envs import register_env, registry
from sample_profiler.errors import CheckpointError
from sample_profiler.model import registry as model_registry
from sample_profiler.profiling import Session, Timing
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.records.goals import GoalsReport
from sample_profiler.run.run import RunResult
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.processes.failure import Failure
from sample_profiler.runtime.surroundings.folder_lock import folder_locked


class Still(gymnasium.Env):
    """Is looked at, and reset and stepped once where an earlier run may be lost; nothing runs here."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    reset_result = np.zeros(2, np.float32), {}
    step_result = np.zeros(2, np.float32), 0.0, False, False, {}

    def __init__(self):
        self.calls = []

    def reset(self, *, seed=None, options=None):
        self.calls.append("reset")
        return self.reset_result

    def step(self, action):
        self.calls.append("step")
        return self.step_result


@pytest.fixture(autouse=True)
def still(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})
    still = Still()
    register_env("still", lambda *_, **__: still)
    return still


def make_result(**changes):
    values = {
        "failure": None,
        "reason": "all policies have been trained for as many frames as asked",
        "interrupted_by": None,
        "frames": {0: 5120},
        "fps": 512.34,
        "steady_fps": 600.0,
        "elapsed_s": 10.0,
        "session": Session(created_s=0.0),
        "steady": Session(created_s=0.0),
        "processes": {"Learner_0": {"threads": 2, "cores": None}},
        "unrecorded": {
            "Batcher_0": Timing("Batcher 0 profile").to_dict(),
            "Runner": Timing("Runner profile").to_dict(),
        },
    }
    return RunResult(**(values | changes))


@pytest.fixture
def runs(monkeypatch):
    """Stand in for the run: collect its arguments, and end as `runs.result` says."""

    class Runs(list):
        result = make_result()
        saves = False

    runs = Runs()

    def execute(config, env_spec, device, folder, observers, *_):
        runs.append((config, env_spec, device, folder, observers))
        for observer in observers:
            observer.on_stop(None)
        if runs.saves:
            (folder / "checkpoint_p0").mkdir()
            (folder / "checkpoint_p0" / "checkpoint_000000007_70.pth").touch()
        if isinstance(runs.result, BaseException):
            raise runs.result
        return runs.result

    monkeypatch.setattr(training_run_module, "execute_run", execute)
    return runs


@pytest.fixture
def start(tmp_path, runs):
    def start(*flags):
        own = ["--env=still", f"--train_dir={tmp_path}", "--experiment=mine", "--device=cpu"]
        # Quicker: the environment is tried here.
        serial = [] if any(flag.startswith("--serial_mode") for flag in flags) else ["--serial_mode=True"]
        return train([*own, *serial, *flags])

    return start


FAILURE = Failure("Learner_0", "ValueError: x", "Traceback")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"failure": FAILURE}, 1),
        ({"interrupted_by": 2}, 130),
        ({"interrupted_by": 15}, 143),
        ({"interrupted_by": 2, "failure": FAILURE}, 1),
    ],
)
def test_the_exit_status_says_how_the_run_ended(start, runs, changes, status):
    runs.result = make_result(**changes)
    assert start() == status


def test_a_run_gets_its_configuration_folder_and_observers(start, runs, tmp_path):
    assert start("--rollout=16") == 0
    ((config, env_spec, device, folder, observers),) = runs
    assert config.sampling.rollout == 16
    assert env_spec.num_agents == 1
    assert device == "cpu"
    assert folder == tmp_path / "mine"
    assert len(observers) == 4, "watch of the folder, progress, summaries, trackers"


def test_a_program_that_meets_the_run_of_another_one_under_the_same_name_says_how_to_go_on(
    start, runs, tmp_path, monkeypatch, caplog
):
    assert start() == 0
    monkeypatch.setattr(registry, "_makers", {})
    register_env("other", lambda *_, **__: Still())
    flags = [f"--train_dir={tmp_path}", "--experiment=mine", "--device=cpu"]
    assert train(flags, defaults={"env": "other"}) == 2
    assert "no environment is registered as 'still'" in caplog.text
    assert f"The run in {tmp_path / 'mine'} was made with it: give this one an --experiment of its own" in caplog.text
    assert len(runs) == 1


def test_a_run_leaves_its_configuration_and_a_log_with_trees_and_accounts_behind(start, tmp_path, capsys):
    assert start() == 0
    folder = tmp_path / "mine"
    assert json.loads((folder / "config.json").read_text())
    log = (folder / "log.txt").read_text()
    assert "The run has ended: all policies" in log
    assert "Batcher 0 profile" in log
    *_, collected, told = log.splitlines()
    assert collected.endswith("Collected {0: 5120}, FPS: 512.3")
    assert f"Next: {folder}/report.html shows what limited it; the same command goes on from here; " in told
    assert f"sample-profiler export {folder} writes" in told
    assert "Where the time went:" in (folder / "log.txt").read_text()
    assert "Collected {0: 5120}, FPS: 512.3" in capsys.readouterr().out
    assert not (folder / "benchmark.json").exists()


def test_what_can_be_done_next_follows_from_how_the_run_has_ended(start, tmp_path):
    assert start("--train_for_env_steps=5000", "--restart_behavior=overwrite") == 0
    told = (tmp_path / "mine" / "log.txt").read_text().splitlines()[-1]
    assert "the same command with --restart_behavior=resume and more --train_for_env_steps goes on from here" in told


def test_the_log_file_can_be_switched_off(start, tmp_path):
    assert start("--log_to_file=False") == 0
    assert not (tmp_path / "mine" / "log.txt").exists()


REACHED = {"threshold": "reward>=3", "policy": 0, "run_s": 2.5, "process_s": 4.0, "frames": 640}


def test_when_thresholds_were_reached_is_at_the_end_of_the_log_and_in_benchmark_json(start, runs, tmp_path, caplog):
    line = "Threshold reward>=3: after 2.5 s"
    runs.result = make_result(process_s=11.5, goals=GoalsReport({"thresholds": [REACHED]}, (line,)))
    with caplog.at_level("INFO"):
        assert start("--thresholds=3") == 0
    told = [record.getMessage() for record in caplog.records]
    assert told[-3:-1] == [line, "Collected {0: 5120}, FPS: 512.3"]
    benchmark = json.loads((tmp_path / "mine" / "benchmark.json").read_text())
    assert benchmark["thresholds"] == [REACHED]
    assert (benchmark["elapsed_s"], benchmark["process_s"]) == (10.0, 11.5)


def test_a_run_that_was_good_enough_before_says_how_to_go_on(start, runs, caplog):
    before = GoalsReport(reached_before="--stop_at was reached before, after 640 frames")
    runs.result = make_result(fps=0.0, keeps_earlier=True, goals=before)
    assert start("--stop_at=3") == 0
    assert caplog.records[-1].getMessage() == (
        "Nothing to train: --stop_at was reached before, after 640 frames; give another --stop_at, or none (--stop_at=)"
    )
    assert "Verdict" not in caplog.text


def test_a_benchmark_writes_its_figures_and_the_machine(start, tmp_path):
    assert start("--benchmark=True", "--num_workers=2") == 0
    benchmark = json.loads((tmp_path / "mine" / "benchmark.json").read_text())
    assert (benchmark["fps"], benchmark["steady_fps"], benchmark["frames"]) == (512.34, 600.0, {"0": 5120})
    assert benchmark["machine"]["num_cpus"] >= 1
    log = (tmp_path / "mine" / "log.txt").read_text()
    assert "Machine: processor" in log
    assert "num_workers" not in log.partition("Chosen automatically: ")[2].splitlines()[0]


def test_help_is_printed_and_nothing_else_happens(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert train(["--help"]) == 0
    assert "--train_for_env_steps" in capsys.readouterr().out
    assert (runs, list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--env=still", "--rollout=0", "--batch_size=-1"], "2 problems"),
        (["--env=still", "--rolout=32"], "--rollout"),
        (["--env=nothing_of_that_name"], "nothing_of_that_name"),
        ([], "--env"),
    ],
)
def test_flags_that_cannot_be_used_are_status_2_and_leave_nothing_behind(
    runs, tmp_path, monkeypatch, caplog, flags, message
):
    monkeypatch.chdir(tmp_path)
    assert train(flags) == 2
    assert message in caplog.text
    assert (runs, list(tmp_path.iterdir())) == ([], [])


def test_an_environment_that_cannot_be_made_is_status_2_with_the_traceback_of_the_cause(runs, tmp_path, caplog):
    def fail(*_, **__):
        raise FileNotFoundError("no game here")

    register_env("broken", fail)
    assert train(["--env=broken", f"--train_dir={tmp_path}"]) == 2
    assert "the environment broken raised in its constructor: FileNotFoundError: no game here" in caplog.text
    assert "in fail" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_train_dir_that_is_a_file_is_status_2(start, tmp_path, caplog):
    path = tmp_path / "file"
    path.touch()
    assert start(f"--train_dir={path}") == 2
    assert "use another --train_dir" in caplog.text


@pytest.mark.parametrize("name", ["~nobody_here/x", "~nobody_here", "~a\udcffb/x"])
@pytest.mark.parametrize("flag", ["train_dir", "profile_dir"])
def test_a_home_directory_that_is_not_there_is_status_2(start, runs, tmp_path, monkeypatch, caplog, flag, name):
    monkeypatch.chdir(tmp_path)
    assert start(f"--{flag}={name}") == 2
    assert f"--{flag}={name}" in caplog.text or f"--{flag}={name!r}" in caplog.text
    assert "Traceback" not in caplog.text
    assert (runs, list(tmp_path.iterdir())) == ([], [])


def test_an_error_of_the_package_within_the_run_is_told_without_a_traceback(start, runs, caplog):
    runs.result = CheckpointError("the checkpoint is of another network")
    assert start() == 2
    assert caplog.records[-1].getMessage() == "the checkpoint is of another network"
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("number", "path", "cure"),
    [
        (errno.EAGAIN, None, "Resource temporarily unavailable: raise the limit of processes (ulimit -u"),
        (errno.ENOMEM, None, "Cannot allocate memory: free memory, or use a smaller --num_workers"),
        (errno.EMFILE, None, "Too many open files: raise the limit of open files (ulimit -n)"),
        (errno.ENOSPC, "/x", "No space left on device: '/x': free space, or use another --train_dir"),
        (errno.EROFS, "/x", "Read-only file system: '/x': use another --train_dir"),
        (errno.EPROTO, None, "Protocol error\nTraceback"),
    ],
)
def test_what_the_system_refuses_is_told_with_its_own_cure(start, runs, caplog, number, path, cure):
    runs.result = OSError(number, os.strerror(number), path)
    assert start() == 2
    assert cure in caplog.text


def test_a_thread_that_cannot_begin_is_told_with_its_limit_and_other_errors_are_nobodys(start, runs, caplog):
    runs.result = RuntimeError("can't start new thread")
    assert start() == 2
    assert "the limit of processes and threads is reached (ulimit -u" in caplog.messages[-1]
    runs.result = RuntimeError("something else")
    with pytest.raises(RuntimeError, match="something else"):
        start()


@pytest.mark.parametrize("message", ["", "Interrupted again: everything was ended at once"])
def test_only_a_second_interruption_of_the_run_is_called_one(start, runs, caplog, message):
    runs.result = KeyboardInterrupt(message) if message else KeyboardInterrupt()
    assert start() == 130
    assert caplog.messages[-1] == (message or "Interrupted")


def fill(folder):
    folder.mkdir()
    (folder / "old.txt").write_text("old")


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("behavior", ["overwrite", "restart", "resume"])
@pytest.mark.parametrize(
    ("result", "value", "message"),
    [
        ("reset_result", (np.zeros(3, np.float32), {}), "environment still: reset() returned observation"),
        ("step_result", (np.zeros(2, np.int64), "1", 0, 0, {}), "environment still: step() returned reward '1'"),
        ("step_result", None, "environment still: step() returned None"),
    ],
)
def test_an_environment_that_breaks_its_contract_costs_nothing_of_an_earlier_run(
    start, runs, still, tmp_path, caplog, behavior, result, value, message
):
    assert start() == 0
    fill(tmp_path / "mine" / "checkpoint_p0")
    before = contents(tmp_path)
    setattr(still, result, value)
    assert start(f"--restart_behavior={behavior}") == 2
    assert message in caplog.text
    assert contents(tmp_path) == before
    assert len(runs) == 1


def test_an_environment_that_raises_costs_nothing_of_an_earlier_run(start, runs, still, tmp_path, caplog):
    fill(tmp_path / "mine")
    (tmp_path / "mine" / "config.json").write_text("{}")
    still.reset = lambda **_: 1 / 0
    assert start("--restart_behavior=overwrite") == 2
    assert "environment 0 (still) raised in reset: ZeroDivisionError" in caplog.text
    assert (tmp_path / "mine" / "old.txt").exists()
    assert runs == []


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--normalize_input_keys=imgg", "--normalize_input_keys names 'imgg'"),
        ("--obs_scale=255", "concern the observation 'obs', and the environment has ['picture']"),
        ("--num_workers=1", "the observation 'action_mask' is Box(0, 1, (7,), int8)"),
        (
            "--encoder_conv_architecture=convnet_simple",
            "observation 'screen' of shape (72, 128, 3) would be an image of 72 channels and 128x3 pixels",
        ),
    ],
)
def test_flags_that_do_not_fit_the_spaces_cost_nothing_of_an_earlier_run(
    start, runs, still, tmp_path, caplog, flag, message
):
    assert start() == 0
    before = contents(tmp_path)
    entries = {"picture": spaces.Box(-1.0, 1.0, (2,), np.float32)}
    if "num_workers" in flag:
        entries["action_mask"] = spaces.Box(0, 1, (7,), np.int8)
    if "conv" in flag:
        entries["screen"] = spaces.Box(0, 255, (72, 128, 3), np.uint8)
    still.observation_space = spaces.Dict(entries)
    still.reset_result = ({key: space.sample() for key, space in entries.items()}, {})
    still.step_result = (still.reset_result[0], 0.0, False, False, {})
    assert start("--restart_behavior=overwrite", flag) == 2
    assert message in caplog.text
    assert contents(tmp_path) == before
    assert len(runs) == 1


def test_an_encoder_that_cannot_be_used_costs_nothing_of_an_earlier_run(start, runs, tmp_path, caplog, monkeypatch):
    assert start() == 0
    before = contents(tmp_path)
    monkeypatch.setattr(model_registry, "_makers", {"encoder": lambda *_: torch.nn.Identity()})
    assert start("--restart_behavior=overwrite") == 2
    assert "the registered encoder is Identity() with output_size None" in caplog.text
    assert contents(tmp_path) == before
    assert len(runs) == 1


def test_an_environment_is_tried_only_where_there_is_something_to_lose(start, still):
    assert start() == 0
    assert still.calls == []
    assert start() == 0
    assert still.calls == ["reset", "step"]


def test_what_a_killed_run_had_begun_to_write_is_removed(start, tmp_path):
    assert start() == 0
    begun = [tmp_path / "mine" / name for name in ("profile/.partial_7_session.json", "summary/.partial_7_timers.json")]
    begun.append(tmp_path / "mine" / ".partial_7_config.json")
    for path in begun:
        path.parent.mkdir(exist_ok=True)
        path.write_text("half of it")
    assert start() == 0
    assert not any(path.exists() for path in begun)


def test_resuming_keeps_what_is_there(start, tmp_path):
    fill(tmp_path / "mine")
    assert start("--restart_behavior=resume") == 0
    assert (tmp_path / "mine" / "old.txt").exists()


def test_overwriting_removes_what_is_there(start, tmp_path):
    fill(tmp_path / "mine")
    (tmp_path / "mine" / "config.json").write_text("{}")
    assert start("--restart_behavior=overwrite") == 0
    assert not (tmp_path / "mine" / "old.txt").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"mine"}


def test_overwriting_removes_the_configuration_last_by_which_the_folder_is_known_as_one_of_a_run(
    start, tmp_path, monkeypatch
):
    folder = tmp_path / "mine"
    fill(folder)
    for name in ("config.json", "checkpoint_p0/newest.pth", "summary/events", "z.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    removed = []
    for name in ("unlink", "rmdir"):
        remove = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda path, *, dir_fd=None, remove=remove: removed.append(remove(path, dir_fd=dir_fd) or path)
        )
    assert start("--restart_behavior=overwrite") == 0
    names = [os.path.basename(path) for path in removed]
    assert set(names) == {"old.txt", "z.txt", "checkpoint_p0", "newest.pth", "summary", "events", "config.json"}
    assert names[-1] == "config.json"


def test_overwriting_takes_the_folder_of_a_run_that_came_no_further_than_its_log(start, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "log.txt").write_text("an earlier run\n")
    assert start("--restart_behavior=overwrite") == 0
    assert "an earlier run" not in (tmp_path / "mine" / "log.txt").read_text()


def test_overwriting_removes_nothing_through_a_link(start, tmp_path, caplog):
    fill(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "config.json").write_text("{}")
    (tmp_path / "mine").symlink_to(tmp_path / "elsewhere")
    assert start("--restart_behavior=overwrite") == 2
    assert (tmp_path / "elsewhere" / "old.txt").read_text() == "old"
    assert "mine is a link: nothing is deleted" in caplog.text


def test_a_link_that_leads_nowhere_on_the_way_to_the_folder_is_no_other_run(start, tmp_path, caplog):
    (tmp_path / "disk").symlink_to(tmp_path / "not_mounted")
    assert start(f"--train_dir={tmp_path / 'disk'}") == 2
    assert "a link on the way to it leads nowhere: use another --train_dir" in caplog.text


def test_overwriting_removes_no_folder_that_no_run_has_made(start, runs, tmp_path, caplog):
    fill(tmp_path / "mine")
    assert start("--restart_behavior=overwrite") == 2
    assert (tmp_path / "mine" / "old.txt").read_text() == "old"
    assert "is not the folder of a run, it has no config.json: nothing is deleted" in caplog.text
    assert runs == []


@pytest.mark.parametrize("behavior", ["overwrite", "restart"])
def test_a_folder_that_another_run_is_in_stays_as_it_is(start, runs, tmp_path, caplog, behavior):
    fill(tmp_path / "mine")
    (tmp_path / "mine" / "config.json").write_text("{}")
    (tmp_path / "mine" / "group").mkdir()
    other = tmp_path / "mine" / "group" / "other"
    fill(other)
    (other / "config.json").write_text("{}")
    (other / "log.txt").touch()
    assert start(f"--restart_behavior={behavior}") == 2
    assert f"--restart_behavior={behavior}: another run is in {other}: nothing is changed" in caplog.text
    assert (other / "old.txt").read_text() == (tmp_path / "mine" / "old.txt").read_text() == "old"
    assert runs == []


def test_overwriting_takes_an_empty_folder(start, tmp_path):
    (tmp_path / "mine").mkdir()
    assert start("--restart_behavior=overwrite") == 0


def test_restarting_keeps_the_earlier_run_under_another_name(start, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    fill(tmp_path / "mine")
    assert start("--restart_behavior=restart") == 0
    (kept,) = (path for path in tmp_path.iterdir() if path.name != "mine")
    assert kept.name.startswith("mine_old_")
    assert (kept / "old.txt").exists()
    assert not (tmp_path / "mine" / "old.txt").exists()
    assert str(kept) in caplog.text


@pytest.mark.parametrize("behavior", ["overwrite", "restart", "resume"])
@pytest.mark.parametrize("is_writing", [True, False])
def test_a_run_that_begins_while_another_start_tries_the_environment_loses_nothing(
    start, runs, tmp_path, monkeypatch, behavior, is_writing
):
    begin_probe, folder = training_module.begin_probe, tmp_path / "mine"
    with contextlib.ExitStack() as other_run:

        def probe_meanwhile(*args, **options):
            fill(folder)
            (folder / "config.json").write_text("{}")
            fill(folder / "checkpoint_p0")
            if is_writing:
                other_run.enter_context(folder_locked(folder))
            return begin_probe(*args, **options)

        monkeypatch.setattr(training_module, "begin_probe", probe_meanwhile)
        assert start(f"--restart_behavior={behavior}") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert {path.name for path in contents(folder)} == {"old.txt", "config.json"}
    assert (folder / "checkpoint_p0" / "old.txt").exists()
    assert runs == []


@pytest.mark.parametrize("behavior", ["overwrite", "restart", "resume"])
def test_a_run_that_goes_on_loses_nothing_to_another_start(start, runs, tmp_path, caplog, behavior):
    assert start() == 0
    before = contents(tmp_path)
    with folder_locked(tmp_path / "mine"):
        assert start(f"--restart_behavior={behavior}") == 2
    assert "another run is writing to" in caplog.text
    assert contents(tmp_path) == before
    assert len(runs) == 1


@pytest.mark.parametrize("behavior", ["overwrite", "restart", "resume"])
def test_a_learner_that_has_outlived_its_run_is_waited_for(start, runs, tmp_path, monkeypatch, caplog, behavior):
    caplog.set_level(logging.INFO)
    assert start() == 0
    checkpoints = tmp_path / "mine" / "checkpoint_p0"
    fill(checkpoints)
    before = contents(tmp_path)
    with contextlib.ExitStack() as learner:
        learner.enter_context(folder_locked(checkpoints))
        monkeypatch.setattr(folder_taking_module, "_LEARNER_S", 0.2)
        assert start(f"--restart_behavior={behavior}") == 2
        assert f"the Learner of an earlier run still writes to {checkpoints}" in caplog.text
        assert contents(tmp_path) == before and (checkpoints / "old.txt").exists()
        monkeypatch.setattr(folder_taking_module, "_LEARNER_S", 60.0)
        threading.Timer(0.3, learner.pop_all().close).start()
        assert start(f"--restart_behavior={behavior}") == 0
    assert "finishes its step" in caplog.text
    assert len(runs) == 2


def test_restarting_twice_within_a_second_loses_nothing(start, tmp_path, monkeypatch):
    monkeypatch.setattr(
        folder_taking_module, "time", SimpleNamespace(strftime=lambda _: "20260131_120000", perf_counter_ns=lambda: 1)
    )
    for number in range(3):
        assert start("--restart_behavior=restart") == 0
        (tmp_path / "mine" / f"run_{number}.txt").touch()
    assert {path.name for path in tmp_path.rglob("run_*.txt")} == {"run_0.txt", "run_1.txt", "run_2.txt"}


def test_a_resumed_run_keeps_the_flags_that_are_not_given_again(start, runs):
    assert start("--rollout=16") == 0
    assert start("--gamma=0.9") == 0
    config = runs[-1][0]
    assert (config.sampling.rollout, config.loss.gamma) == (16, 0.9)
    assert config.origin("rollout") == "saved"


def test_flags_of_a_resumed_run_that_trained_nothing_are_not_kept(start, runs, tmp_path):
    assert start("--gamma=0.9") == 0
    before = (tmp_path / "mine" / "config.json").read_bytes()
    runs.result = make_result(fps=0.0, interrupted_by=15, keeps_earlier=True)
    assert start("--gamma=0.5") == 143
    assert (tmp_path / "mine" / "config.json").read_bytes() == before
    runs.result = make_result(fps=0.0, interrupted_by=15)
    assert start("--gamma=0.5") == 143
    assert (tmp_path / "mine" / "config.json").read_bytes() != before, "there was nothing of the earlier run to keep"


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), 130), (OSError(errno.EAGAIN, "Resource temporarily unavailable"), 2)]
)
def test_flags_of_a_resumed_run_that_was_cut_off_are_kept_only_if_it_has_saved(start, runs, tmp_path, error, status):
    assert start("--gamma=0.9") == 0
    before = (tmp_path / "mine" / "config.json").read_bytes()
    runs.result = error
    assert start("--gamma=0.5") == status
    assert (tmp_path / "mine" / "config.json").read_bytes() == before
    runs.saves = True
    assert start("--gamma=0.5") == status
    assert (tmp_path / "mine" / "config.json").read_bytes() != before


def test_flags_of_resumed_runs_that_were_killed_before_they_trained_are_not_kept(start, runs, tmp_path, monkeypatch):
    assert start("--gamma=0.9") == 0
    end_trial = training_run_module.end_trial
    monkeypatch.setattr(training_run_module, "end_trial", lambda *_, **__: None)  # nobody is left who could
    for gamma in (0.5, 0.6):
        assert start(f"--gamma={gamma}") == 0
    monkeypatch.setattr(training_run_module, "end_trial", end_trial)
    assert start() == 0
    assert runs[-1][0].loss.gamma == 0.9
    assert load_config(tmp_path / "mine" / "config.json").loss.gamma == 0.9
    assert not list(tmp_path.glob("**/*.earlier"))


def test_record_files_are_found_from_any_folder(start, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert start("--profile_dir=records") == 0
    saved = json.loads((tmp_path / "mine" / "config.json").read_text())
    assert str(tmp_path / "records") in json.dumps(saved)
    assert RunFolder(tmp_path / "mine").live().path.parent == tmp_path / "records"
    assert RunFolder(tmp_path / "mine").live().path == RunFolder(tmp_path / "mine" / ".." / "mine").live().path


def test_a_resumed_run_records_elsewhere_only_where_it_has_recorded_before(start, runs, tmp_path, caplog):
    """A folder of a run that came from another machine does not choose where files are made."""
    run, records = tmp_path / "mine", tmp_path / "records"
    assert start(f"--profile_dir={records}") == 0
    RunFolder(run).live().path.mkdir(parents=True)
    assert start() == 0
    assert RunFolder(run).live().path.parent == records
    shutil.rmtree(records)
    assert "give the flag again" not in caplog.text
    assert start() == 0
    assert RunFolder(run).live().path == run / "profile" / "live"
    assert f"none of it in --profile_dir={records}" in caplog.text


def test_a_configuration_that_cannot_be_written_is_status_2(start, tmp_path, monkeypatch, caplog):
    def refuse(config, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folder_taking_module, "save_config", refuse)
    assert start() == 2
    assert "config.json: No space left on device: free space" in caplog.text


def test_a_run_that_trained_nothing_says_so(start, runs, caplog):
    runs.result = make_result(fps=0.0, frames={0: 0})
    assert start() == 0
    assert "Nothing was trained" in caplog.text


def test_a_run_that_had_reached_its_target_before_says_so_and_gives_no_other_advice(start, runs, caplog):
    caplog.set_level(logging.INFO)
    runs.result = make_result(fps=0.0, frames={0: 5120}, keeps_earlier=True)
    assert start("--train_for_env_steps=5000") == 0
    assert "Trained for 5,120 of 5,000 frames already: raise --train_for_env_steps to go on" in caplog.text
    assert "Verdict" not in caplog.text
    assert "first batch" not in caplog.text


@pytest.mark.parametrize("changes", [{"failure": FAILURE}, {"interrupted_by": 2}, {"frames": {0: 5120, 1: 80}}])
def test_a_run_that_trained_nothing_for_another_reason_is_not_said_to_be_at_its_target(start, runs, caplog, changes):
    runs.result = make_result(fps=0.0, **changes)
    start("--train_for_env_steps=5000")
    assert "frames already" not in caplog.text


def test_a_run_that_failed_says_from_where_it_can_go_on(start, runs, caplog):
    caplog.set_level(logging.INFO)
    runs.result = make_result(failure=FAILURE)
    assert start() == 1
    assert "Verdict" in caplog.text
    assert "Saved up to" not in caplog.text, "nothing is"
    runs.saves = True
    assert start() == 1
    assert "Saved up to optimizer step 7: --restart_behavior=resume" in caplog.text


def test_a_run_that_failed_before_its_first_batch_gets_no_other_advice(start, runs, caplog):
    caplog.set_level(logging.INFO)
    runs.result = make_result(failure=FAILURE, fps=0.0)
    runs.saves = True
    assert start() == 1
    assert "Verdict" not in caplog.text
    assert "Saved up to" not in caplog.text, "it may be what is saved that it failed of"


class Mine(RunObserver):
    """Listens to nothing."""


@pytest.mark.parametrize(
    ("observers", "problem"),
    [
        ([Mine], r"the observer Mine is a class: give an instance, Mine\(\)"),
        ([Mine(), object()], "object at .* is no observer: derive its class from RunObserver"),
        (Mine(), "observers are given as a list"),
    ],
)
def test_what_is_no_observer_is_refused_before_anything_else(tmp_path, runs, observers, problem):
    with pytest.raises(TypeError, match=problem):
        train(["--env=still", f"--train_dir={tmp_path}", "--experiment=mine"], observers=observers)
    assert not runs
    assert list(tmp_path.iterdir()) == []


def test_handlers_are_gone_in_the_end_however_it_ends(start, runs):
    before = logging.getLogger().handlers[:]
    start()
    runs.result = CheckpointError("x")
    start()
    start("--rollout=0")
    assert logging.getLogger().handlers == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_while_the_environment_is_looked_at_ends_in_order(start, still, runs, monkeypatch, request, number):
    closed = []
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    request.addfinalizer(partial(signal.signal, number, signal.signal(number, default)))
    monkeypatch.setattr(Still, "close", lambda self: closed.append(self), raising=False)
    monkeypatch.setattr(Still, "num_agents", property(lambda self: signal.raise_signal(number)), raising=False)
    assert start() == 128 + number
    assert closed == [still]
    assert runs == []
