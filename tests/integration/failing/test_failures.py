"""However a run fails, it ends soon, says what failed, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.runs import (
    CARTPOLE,
    COLLECTED,
    DOOM,
    SMALL,
    LiveRun,
    command,
    left_shared_memory,
    live_run,
    load_latest_checkpoint,
    run,
    unused_shared_memory,
)
from tests.isolation.shared_names import make_shared_name

SCRIPT = Path(__file__).with_name("broken_runs.py")
WORKERS = ("RolloutWorker_w0", "RolloutWorker_w1")
FLAGS = ("--env=broken", "--num_workers=2", "--num_envs_per_worker=2", *SMALL, "--use_rnn=False")
SIMULATED = ("broken_runs", *FLAGS[:3], "--use_rnn=False")
MAX_SECONDS = 10  # between the failure and the end of the run


def run_broken(what: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *FLAGS, f"--train_dir={folder}", "--train_for_seconds=60", *flags],
        env={**os.environ, "BREAK": what},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=50,
        check=False,
    )


def final_timers(folder: Path) -> dict[str, Any]:
    """Return the timers of all components from the document that a run has left, which is that of its end."""
    document = json.loads((folder / "summary" / f"{folder.name}_timers.json").read_text())
    workers: dict[str, Any] = document["children"]["workers"]["children"]
    assert workers["Runner"]["children"]["stop_components"]["count"] == 1
    return workers


@pytest.mark.parametrize("serial", [False, True], ids=["parallel", "serial"])
@pytest.mark.parametrize(
    ("what", "component", "place"),
    [
        ("constructor", "RolloutWorker_w1", "environment 3 (broken) raised in its constructor"),
        ("reset", "RolloutWorker_w1", "environment 3 (broken) raised in reset"),
        ("step", "RolloutWorker_w1", "environment 3 (broken) raised in step"),
        ("learner", "Learner_0", "broken learner"),
        ("inference", "InferenceWorker_p0-w0", "broken inference"),
    ],
)
def test_exception_ends_the_run_and_is_told(
    what: str, component: str, place: str, serial: bool, tmp_path: Path
) -> None:
    result = run_broken(what, tmp_path, f"--serial_mode={serial}", f"--async_rl={not serial}")
    assert result.returncode == 1, result.stdout
    if what == "inference":
        # The Learner runs the same network for what follows the last step; whoever comes first fails.
        assert f"{component} failed" in result.stdout or "Learner_0 failed" in result.stdout
    else:
        assert f"{component} failed" in result.stdout
    assert place in result.stdout
    assert f"ValueError: broken {what}" in result.stdout
    assert "Traceback" in result.stdout
    assert "Runner profile tree view:" in result.stdout
    assert "another observer was told of the end" in result.stdout
    assert "Runner failed" not in result.stdout
    log = (tmp_path / "default_experiment" / "log.txt").read_text()
    assert place in log
    assert "Traceback" in log


@pytest.mark.parametrize("serial", [False, True], ids=["parallel", "serial"])
def test_ml15_a_run_that_fails_leaves_the_timers_of_every_component(serial: bool, tmp_path: Path) -> None:
    result = run_broken("step", tmp_path, f"--serial_mode={serial}", f"--async_rl={not serial}")
    assert result.returncode == 1, result.stdout
    workers = final_timers(tmp_path / "default_experiment")
    assert set(workers) == {"Runner", "Learner_0", "Batcher_0", "InferenceWorker_p0-w0", *WORKERS}
    assert workers["RolloutWorker_w1"]["children"]["env_step"]["count"] > 0


@pytest.mark.parametrize("serial", [False, True], ids=["parallel", "serial"])
@pytest.mark.parametrize("event", ["on_init", "on_training_step", "extra_summaries", "on_stop"])
def test_an_observer_that_raises_fails_the_run_which_ends_in_order(event: str, serial: bool, tmp_path: Path) -> None:
    flags = (f"--serial_mode={serial}", f"--async_rl={not serial}", "--train_for_env_steps=2000")
    result = run_broken(event, tmp_path, *flags)
    assert result.returncode == 1, result.stdout
    assert re.search(rf"Runner failed: Observer \w+, {event}: ValueError: broken {event}", result.stdout)
    assert result.stdout.count("Runner failed: ") == 1
    assert "another observer was told of the end" in result.stdout
    assert "and was killed" not in result.stdout
    if event == "on_init" and not serial:  # nobody waits for who still imports
        assert "Ended before they had begun: " in result.stdout
    assert "Runner profile tree view:" in result.stdout
    assert "Collected {0: " in result.stdout
    assert (tmp_path / "default_experiment" / "report.html").exists()
    for pid in re.findall(r"Started \S+ as process (\d+)", result.stdout):
        assert not Path(f"/proc/{pid}").exists()


def test_components_wait_for_a_runner_that_waits_for_a_file_system(tmp_path: Path) -> None:
    flags = ("--hang_timeout=2.5", "--experiment_summaries_interval=2", "--train_for_env_steps=100000000")
    result = run_broken("file_system", tmp_path, *flags)
    assert result.returncode == 0, result.stdout
    assert "the file system has stalled" in result.stdout
    assert "no sign of life" not in result.stdout


def test_shared_memory_that_a_worker_has_told_of_is_removed_when_it_is_killed(tmp_path: Path) -> None:
    name = make_shared_name()
    try:
        result = run_broken(name, tmp_path, "--on_worker_failure=stop")
        assert "RolloutWorker_w1 failed: its process was killed by signal 9" in result.stdout
        assert not Path(name).exists()
        assert f"Removed the shared memory of ended processes: {name}" in result.stdout
    finally:
        Path(name).unlink(missing_ok=True)


def test_env_that_cannot_even_be_looked_at(tmp_path: Path) -> None:
    result = run_broken("probe", tmp_path)
    assert result.returncode != 0
    assert "the environment broken raised in its constructor: ValueError: broken constructor" in result.stdout
    assert "Traceback" in result.stdout
    assert "Started" not in result.stdout


def test_env_whose_observation_is_not_of_its_space_is_told_by_name(tmp_path: Path) -> None:
    result = run_broken("shape", tmp_path)
    assert result.returncode == 1
    assert "environment broken: reset()" in result.stdout
    assert "EnvContractError" in result.stdout


@pytest.mark.parametrize(
    "victim", ["RolloutWorker_w0", "game", "InferenceWorker_p0-w0", "Batcher_0", "Learner_0", "Runner"]
)
def test_kill_ends_the_run_and_leaves_nothing(victim: str, tmp_path: Path) -> None:
    before = unused_shared_memory()
    with live_run(*DOOM, "--save_every_sec=1", "--on_worker_failure=stop", folder=tmp_path) as live:
        live.wait_until_training()
        live.find(victim).kill()
        killed_s = time.monotonic()
        status = live.wait(timeout_s=MAX_SECONDS)
        left = live.left_over(patience_s=MAX_SECONDS - (time.monotonic() - killed_s))
        output = live.output
    assert status != 0
    assert left == []
    assert left_shared_memory(before) == set()
    assert load_latest_checkpoint(tmp_path / "run")["optimizer_steps"] > 0
    if victim == "game":
        # Step or reset, wherever it was; or, if the game took a lock to its grave, the watch over it.
        assert re.search(r"environment \d \(doom_basic\)(: its game .* died| raised in (step|reset))", output), output
    elif victim != "Runner":
        assert f"{victim} failed: its process was killed by signal 9 (SIGKILL)" in output
        assert "Runner profile tree view:" in output
        tree = output.partition(f"{victim.replace('_0', ' 0')} profile tree view:\n")[2]
        assert re.match(r"\w+: \d", tree), "what it had done until then"


def test_a_learner_that_dies_while_the_run_ends_fails_it(tmp_path: Path) -> None:
    result = run_broken("end", tmp_path, "--train_for_env_steps=2000")
    assert result.returncode == 1, result.stdout
    assert (
        "Learner_0 failed: its process was killed by signal 9 (SIGKILL) before it had finished; what it had learned "
        "since its last checkpoint is lost"
    ) in result.stdout
    assert "The run has ended: all policies have been trained for as many frames as asked" in result.stdout


@pytest.fixture
def hang_up(request: pytest.FixtureRequest) -> Iterator[None]:
    """What runs that are started now do at SIGHUP, whoever runs the tests."""
    previous = signal.signal(signal.SIGHUP, getattr(request, "param", signal.SIG_DFL))
    yield
    signal.signal(signal.SIGHUP, previous)


def assert_all_is_saved(live: LiveRun) -> None:
    """Look whether the newest checkpoint has all frames that the run says it has trained on."""
    (collected,) = COLLECTED.findall(live.output)
    assert collected[0] == f"{{0: {load_latest_checkpoint(live.folder)['frames']}}}"


@pytest.mark.parametrize("order", ["Runner first", "Runner last"])
@pytest.mark.parametrize("training", [CARTPOLE, SIMULATED], ids=["environments", "environments with processes"])
def test_a_signal_to_all_processes_ends_the_run_in_order(
    training: tuple[str, ...], order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BREAK", "simulator")
    monkeypatch.setenv("PYTHONPATH", f"{SCRIPT.parent}:{SCRIPT.parents[3]}")
    with live_run(*training, *SMALL, "--save_every_sec=3", folder=tmp_path) as live:
        live.wait_until_training()
        time.sleep(0.5)  # learn something that is not saved yet
        processes = [psutil.Process(live.process.pid), *live.everybody()]
        for process in processes if order == "Runner first" else reversed(processes):
            with contextlib.suppress(psutil.NoSuchProcess):  # its parent was faster
                process.send_signal(signal.SIGTERM)
        assert live.wait(timeout_s=MAX_SECONDS) == 143, live.output
        assert live.left_over() == []
        assert " failed: " not in live.output
        assert_all_is_saved(live)


def test_a_signal_to_the_learner_alone_ends_the_run_which_loses_nothing(tmp_path: Path) -> None:
    with live_run(*CARTPOLE, *SMALL, "--save_every_sec=3", folder=tmp_path) as live:
        live.wait_until_training()
        time.sleep(0.5)  # learn something that is not saved yet
        live.find("Learner_0").send_signal(signal.SIGTERM)
        assert live.wait(timeout_s=MAX_SECONDS) == 1
        assert "Learner_0 failed: its process was killed by signal 15 (SIGTERM)" in live.output
        assert_all_is_saved(live)


@pytest.mark.parametrize("hang_up", [signal.SIG_IGN], indirect=True)
def test_a_run_that_is_not_to_hang_up_goes_on(hang_up: None, tmp_path: Path) -> None:
    with live_run(*CARTPOLE, *SMALL, "--save_every_sec=1", folder=tmp_path) as live:
        live.wait_until_training()
        for process in (psutil.Process(live.process.pid), *live.everybody()):
            process.send_signal(signal.SIGHUP)
        time.sleep(2)
        live.process.send_signal(signal.SIGINT)
        assert live.wait(timeout_s=MAX_SECONDS) == 130
        assert " failed: " not in live.output


def test_a_run_whose_terminal_is_closed_ends_in_order(hang_up: None, tmp_path: Path) -> None:
    """As when ssh is cut off: the kernel sends SIGHUP, and whatever is written to the terminal fails."""
    terminal, its_end = pty.openpty()
    take_terminal = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, "
    training = command(*CARTPOLE, *SMALL, "--save_every_sec=1", folder=tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", f"{take_terminal}{training!r})"],
        **dict.fromkeys(("stdin", "stdout", "stderr"), its_end),
        start_new_session=True,
    )
    os.close(its_end)
    live = LiveRun(process, tmp_path / "run" / "log.txt", tmp_path / "run")
    is_over = threading.Event()
    reader = threading.Thread(target=read_until, args=(terminal, is_over))
    reader.start()
    try:
        live.wait_until_training()
    finally:
        is_over.set()
        reader.join()
        os.close(terminal)
    try:
        assert live.wait(timeout_s=MAX_SECONDS) == 129, live.output
    finally:
        process.kill()
    assert live.left_over() == []
    assert "The run has ended: interrupted by SIGHUP" in live.output
    assert_all_is_saved(live)


def read_until(descriptor: int, is_over: threading.Event) -> None:
    """Take what comes, so that nobody has to wait with writing."""
    while not is_over.is_set():
        if select.select([descriptor], [], [], 0.1)[0]:
            os.read(descriptor, 1 << 16)


def test_a_runner_that_was_suspended_says_why_nobody_is_there_any_more(tmp_path: Path) -> None:
    with live_run(*CARTPOLE, *SMALL, "--save_every_sec=1", "--hang_timeout=4", folder=tmp_path) as live:
        live.wait_until_training()
        live.process.send_signal(signal.SIGSTOP)
        deadline_s = time.monotonic() + 30
        while live.find("Learner_0").status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline_s:
            time.sleep(0.1)
        live.process.send_signal(signal.SIGCONT)
        assert live.wait(timeout_s=4 * MAX_SECONDS) == 1
        assert live.left_over() == []
        assert "Learner_0 finishes and ends: the Runner has shown no sign of life for" in live.output


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("serial", [False, True], ids=["parallel", "serial"])
def test_interrupt_saves_and_prints_all_trees(
    number: signal.Signals, status: int, serial: bool, hang_up: None, tmp_path: Path
) -> None:
    flags = (*SMALL, "--save_every_sec=1", f"--serial_mode={serial}")
    with live_run(*CARTPOLE, *flags, folder=tmp_path) as live:
        live.wait_until_training()
        live.process.send_signal(number)
        assert live.wait(timeout_s=MAX_SECONDS) == status
        assert live.left_over() == []
        output = live.output
    for name in ("Batcher 0", "InferenceWorker_p0-w0", "Learner 0", "RolloutWorker_w0", "RolloutWorker_w1", "Runner"):
        assert f"{name} profile tree view:" in output
    workers = final_timers(live.folder)  # ML15
    assert set(workers) == {"Runner", "Learner_0", "Batcher_0", "InferenceWorker_p0-w0", *WORKERS}
    assert all(workers[name]["children"]["env_step"]["count"] > 0 for name in WORKERS)
    assert workers["Learner_0"]["children"]["train"]["count"] > 0
    assert "Collected {0: " in output
    assert load_latest_checkpoint(tmp_path / "run")["optimizer_steps"] > 0


def test_bad_flags_are_one_error_before_anything_starts(tmp_path: Path) -> None:
    result = run(
        *CARTPOLE,
        "--rolout=3",
        "--batch_size=0",
        "--gamma=2",
        "--device=tpu",
        "--seed=x",
        folder=tmp_path,
        timeout_s=30,
    )
    assert result.returncode == 2
    for flag in ("--rolout", "--batch_size", "--gamma", "--device", "--seed"):
        assert flag in result.stdout
    assert "--rollout" in result.stdout  # the nearest name
    assert "Traceback" not in result.stdout
    assert "Started" not in result.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("hard", "status"), [(4096, 0), (100, 2)])
def test_a_limit_of_open_files_is_raised_or_told_before_an_earlier_run_is_overwritten(
    hard: int, status: int, tmp_path: Path
) -> None:
    """Else the fourth worker could not be started."""
    config = tmp_path / "run" / "config.json"
    config.parent.mkdir()
    config.write_text("{}")
    flags = (*CARTPOLE, "--num_workers=4", *SMALL, "--train_for_env_steps=500", "--restart_behavior=overwrite")
    result = subprocess.run(
        ["bash", "-c", f'ulimit -Sn 64 && ulimit -Hn {hard} && exec "$@"', "run", *command(*flags, folder=tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == status, result.stdout
    assert "Traceback" not in result.stdout
    if status:
        assert "a run of 7 processes cannot begin: it takes about 1" in result.stdout
        assert "and this process may have 100" in result.stdout
        assert config.read_text() == "{}"


def test_unknown_env_names_the_nearest(tmp_path: Path) -> None:
    result = run("sf_examples.vizdoom.train_vizdoom", "--env=doom_basik", folder=tmp_path, timeout_s=30)
    assert result.returncode == 2
    assert "doom_basic" in result.stdout
    assert "Traceback" not in result.stdout


def test_gpu_without_one_is_a_clear_error(tmp_path: Path) -> None:
    result = run(*CARTPOLE, "--device=gpu", folder=tmp_path, timeout_s=30, CUDA_VISIBLE_DEVICES="")
    assert result.returncode == 2
    assert "--device=gpu" in result.stdout
    assert "Traceback" not in result.stdout


def test_numbers_that_are_not_finite_end_the_run_before_they_reach_a_checkpoint(tmp_path: Path) -> None:
    result = run_broken("nan", tmp_path, "--on_bad_numbers=stop")
    assert result.returncode == 1
    assert "RolloutWorker_w1 failed: EnvContractError: environment 3 (broken), agent 0, returned NaN" in result.stdout
    assert "--on_bad_numbers=skip" in result.stdout
    weights = load_latest_checkpoint(tmp_path / "default_experiment")["model"]
    assert all(bool(tensor.isfinite().all()) for tensor in weights.values())


def test_numbers_that_are_not_finite_are_told_and_left_out_of_training(tmp_path: Path) -> None:
    result = run_broken("nan", tmp_path, "--train_for_env_steps=4000")
    assert result.returncode == 0, result.stdout
    assert "environment 3 (broken), agent 0, returned NaN in 3 of 3 numbers of observation 'obs'" in result.stdout
    weights = load_latest_checkpoint(tmp_path / "default_experiment")["model"]
    assert all(bool(tensor.isfinite().all()) for tensor in weights.values())


def test_an_env_that_breaks_again_and_again_is_replaced_once_and_then_ends_the_run(tmp_path: Path) -> None:
    result = run_broken("step", tmp_path)
    assert result.returncode == 1
    assert result.stdout.count("takes its place") == 1
    assert "it is not replaced: the worker that it had replaced failed in the same way" in result.stdout
    assert result.stdout.count("Traceback (most recent call last)") == 2, "the error and its cause, once"
    assert "ERROR: The run failed: RolloutWorker_w1: EnvError" in result.stdout.splitlines()[-1]


def test_two_runs_of_one_experiment_do_not_mix(tmp_path: Path) -> None:
    with live_run(*CARTPOLE, *SMALL, "--save_every_sec=1", folder=tmp_path) as live:
        live.wait_until_training()
        result = run(*CARTPOLE, *SMALL, "--restart_behavior=overwrite", folder=tmp_path, timeout_s=30)
        assert result.returncode == 2
        assert "another run is writing to" in result.stdout
        assert live.process.poll() is None
    assert load_latest_checkpoint(tmp_path / "run")["optimizer_steps"] > 0


def test_who_takes_the_folder_of_a_killed_run_waits_for_its_learner(tmp_path: Path) -> None:
    """It finishes its step, and saves what would otherwise be a checkpoint of another run."""

    def wait_for(text: str, live: LiveRun) -> None:
        deadline_s = time.monotonic() + 60
        while text not in live.output and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert text in live.output, live.output

    with live_run(*CARTPOLE, *SMALL, "--save_every_sec=1", folder=tmp_path) as live:
        live.wait_until_training()
        learner = live.find("Learner_0")
        learner.suspend()  # a long step
        live.find("Runner").kill()
        live.wait(MAX_SECONDS)
        flags = (*CARTPOLE, *SMALL, "--restart_behavior=overwrite")
        with live_run(*flags, folder=tmp_path, log_name="successor.txt") as successor:
            wait_for("finishes its step", successor)
            assert list((tmp_path / "run" / "checkpoint_p0").iterdir()), "nothing is deleted before"
            learner.resume()
            wait_for("Started Learner_0", successor)
            assert not learner.is_running() or learner.status() == psutil.STATUS_ZOMBIE
