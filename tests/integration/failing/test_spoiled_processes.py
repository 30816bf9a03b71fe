"""Whatever an environment does to its process, the run goes on, or says at once what is wrong; and the command ends."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.runs import running

SCRIPT = Path(__file__).with_name("spoiling_runs.py")
MODES = ("parallel", "serial")
FLAGS = (
    *("--env=spoiling", "--experiment=mine", "--use_rnn=False", "--num_workers=2", "--num_envs_per_worker=2"),
    *("--rollout=8", "--batch_size=64", "--num_epochs=1", "--encoder_mlp_layers", "16", "--device=cpu"),
    "--train_for_env_steps=1000",
)
# What hangs is noticed soon; what does not has time enough to import PyTorch on a machine that is busy.
HANG_TIMEOUT_S = 3
PATIENCE_S = 60


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        status: its exit status.
        output: both streams.
        folder: in which it was started.
    """

    status: int
    output: str
    folder: Path

    @property
    def has_trained(self) -> bool:
        run = self.folder / "train_dir" / "mine"
        return any(path.name > "checkpoint_000000001" for path in run.glob("checkpoint_p0/checkpoint_*.pth"))

    @property
    def log(self) -> str:
        return (self.folder / "train_dir" / "mine" / "log.txt").read_text()


def train_spoiled(spoil: str, mode: str, folder: Path, *flags: str) -> Ended:
    hang_timeout_s = HANG_TIMEOUT_S if re.search(r"\bhang|_hang", spoil) else PATIENCE_S
    process = subprocess.run(
        [
            *(sys.executable, str(SCRIPT), *FLAGS),
            *(f"--serial_mode={mode == 'serial'}", f"--hang_timeout={hang_timeout_s}", *flags),
        ],
        cwd=folder,
        env={**os.environ, "SPOIL": spoil},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
        start_new_session=True,
    )
    return Ended(process.returncode, process.stdout, folder)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["constructor", "reset"])
def test_what_is_changed_of_the_process_is_noticed_and_the_run_goes_on(where, mode, tmp_path):
    ended = train_spoiled(f"{where}:change_settings", mode, tmp_path)
    assert (ended.status, ended.has_trained) == (0, True), ended.output
    assert f"run folder {tmp_path / 'train_dir' / 'mine'}" in ended.output
    assert [path for path in tmp_path.glob("tmp*/*") if path.name != "MUJOCO_LOG.TXT"] == []
    for words in (
        *("the current folder", "umask", "what SIGTERM does", "what SIGHUP does", "signals that are blocked"),
        *("OMP_NUM_THREADS", "the level of the log", "logging is switched off", "this package's loggers"),
        *("sys.stdout", "warnings that are errors", "floating-point errors", "the recursion limit", "take turns"),
        *("garbage collection", "niceness", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "clocks", "standard input"),
        *("the time zone",),
    ):
        assert ended.output.count(words) == 1, words


# What gets on with each other is done by one run: what fails is then told by its traceback, or found one at a time.
HARMLESS = (
    "constructor:leave_thread constructor:leave_process constructor:leave_simulator constructor:start_session "
    "constructor:fork_and_exit constructor:fork_and_return close:leave_thread close:end_own_process",
    "constructor:remove_folder reset:fork_and_exit reset:fork_and_return reset:fail_in_del reset:end_own_process "
    "step:change_torch step:spoil_precision step:reap_children step:alarm close:fork_and_raise",
    "constructor:close_streams close:cancel",
    "step:redirect_output step:kill_group close:panic",
    "constructor:hang_at_exit",
    "reset:lower_limits",
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("spoil", HARMLESS)
def test_the_run_goes_on_and_the_command_ends(spoil, mode, tmp_path):
    ended = train_spoiled(spoil, mode, tmp_path)
    assert (ended.status, ended.has_trained) == (0, True), ended.output
    assert "The run has ended: all policies have been trained" in ended.log
    if mode == "serial" and "leave" in spoil:
        assert "was left" in ended.output or "has left" in ended.output
    if mode == "serial" and "hang_at_exit" in spoil:
        assert f"The exit hangs, and is cut off after {HANG_TIMEOUT_S} s" in ended.output


@pytest.mark.parametrize(
    ("how", "mode"),
    [*(("close_all_files", mode) for mode in MODES), ("close_all_files_and_open_others", "parallel")],
)
def test_who_closes_the_files_of_the_run_is_told_so(how, mode, tmp_path):
    ended = train_spoiled(f"step:{how}", mode, tmp_path, "--max_worker_restarts=1")
    assert ended.status != 0, ended.output
    assert "the environment, or what it uses, has closed" in ended.output or "closes some" in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.parametrize("mode", MODES)
def test_a_close_that_hangs_is_named_and_the_run_goes_on(mode, tmp_path):
    ended = train_spoiled("close:hang", mode, tmp_path)
    assert (ended.status, ended.has_trained) == (0, True), ended.output
    assert "close() of the environment spoiling hangs" in ended.output
    assert "in _spoil" in ended.output, "where it is"
    assert "RolloutWorker_w0" in ended.output.partition("Ending all components")[2].partition("profile tree view")[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["hang", "hang_and_catch_everything", "hang_without_letting_go"])
def test_a_constructor_that_hangs_is_named_and_nothing_is_made(how, mode, tmp_path):
    if (how, mode) == ("hang_without_letting_go", "serial"):
        return  # only its stacks can be told, which tests/runtime/processes/test_main_thread_watch.py looks at
    ended = train_spoiled(f"constructor:{how}", mode, tmp_path)
    assert ended.status == 2, ended.output
    assert "the constructor of the environment spoiling hangs" in ended.output
    assert f"in {how}" in ended.output, "where it is"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["worker_constructor", "worker_reset", "step"])
def test_what_hangs_in_a_run_is_named_and_ends_it(where, mode, tmp_path):
    ended = train_spoiled(f"{where}:hang", mode, tmp_path)
    assert ended.status == 1, ended.output
    assert "RolloutWorker_w" in ended.output
    assert "no sign of life for" in ended.output
    assert "in hang" in ended.output, "where it is"


@pytest.mark.parametrize("mode", MODES)
def test_a_reset_that_hangs_is_found_before_an_earlier_run_is_touched(mode, tmp_path):
    assert train_spoiled("", mode, tmp_path).status == 0
    ended = train_spoiled("reset:hang", mode, tmp_path, "--restart_behavior=overwrite")
    assert ended.status == 2
    assert "reset() of the environment spoiling hangs" in ended.output
    assert ended.has_trained, "the earlier run is still there"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("crash", "ended its process, which was killed by signal 11 (SIGSEGV)"),
        ("exit_at_once", "ended its process, which exited with status 3"),
        ("exit_in_order", "raised in its constructor: SystemExit: 4"),
        ("interrupt", "KeyboardInterrupt: by the environment"),
        ("ask", "raised in its constructor: EOFError"),
    ],
)
def test_a_constructor_that_ends_its_process_is_named(how, words, tmp_path):
    ended = train_spoiled(f"constructor:{how}", "parallel", tmp_path)
    assert ended.status == 2, ended.output
    assert "the environment spoiling" in ended.output
    assert words in ended.output
    assert (how != "crash") or "in crash" in ended.output, "where it is"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", MODES)
def test_the_line_in_which_native_code_crashes_is_told(mode, tmp_path):
    ended = train_spoiled("step:crash", mode, tmp_path, "--max_worker_restarts=1")
    assert ended.status == (1 if mode == "parallel" else -signal.SIGSEGV), ended.output
    assert "spoiling_runs.py" in ended.output and "in crash" in ended.output
    if mode == "parallel":
        assert "was killed by signal 11 (SIGSEGV)" in ended.log and "in crash" in ended.log
        assert ended.log.count("in crash") == 1, "all workers crash there"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("cancel", "raised in step: CancelledError: by a loop of the environment's own"),
        ("panic", "raised in step: PanicError: of a simulator"),
        ("say_too_much", "raised in step: ValueError: xxx"),
    ],
)
def test_whatever_an_environment_raises_names_it(how, words, mode, tmp_path):
    ended = train_spoiled(f"step:{how}", mode, tmp_path, "--max_worker_restarts=1")
    assert ended.status == 1, ended.output[:9_000]
    assert words in ended.output
    assert "failed: " in ended.log
    assert len(ended.output) < 1_000_000


@pytest.mark.parametrize("where", ["worker_constructor", "worker_reset"])
def test_what_the_environment_of_an_evaluation_changes_is_put_back(where, tmp_path):
    flags = ("--eval_every_steps=500", "--eval_num_episodes=2", "--num_policies=2")
    ended = train_spoiled(f"{where}:change_torch", "serial", tmp_path, *flags)
    assert (ended.status, ended.has_trained) == (0, True), ended.output
    assert "whether PyTorch keeps gradients" in ended.output


def test_nothing_is_told_of_a_run_whose_environment_changes_nothing(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1000), hard))
    try:
        ended = train_spoiled("", "serial", tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (ended.status, ended.has_trained) == (0, True), ended.output
    assert "belongs to the whole process" not in ended.output


@pytest.mark.parametrize("where", ["constructor", "worker_reset"])
def test_what_an_environment_changes_beside_a_network_is_put_back(where, tmp_path):
    flags = ("--inference=worker", "--eval_every_steps=500", "--eval_num_episodes=2", "--use_rnn=True", "--rnn_size=8")
    ended = train_spoiled(f"{where}:change_torch", "parallel", tmp_path, *flags)
    assert (ended.status, ended.has_trained) == (0, True), ended.output
    assert "Evaluation of policy 0 after" in ended.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_ends_the_simulator_first_fails_no_serial_run(number, tmp_path):
    """In a parallel one the simulator is in another session, which a terminal's signals do not reach."""
    flags = (*FLAGS, "--serial_mode=True", "--train_for_env_steps=9999999", "--save_every_sec=1")
    words, run = [sys.executable, str(SCRIPT), *flags, f"--train_dir={tmp_path}"], tmp_path / "mine"
    with running(words, tmp_path / "output", run, SPOIL="step:ask_simulator") as live:
        live.wait_until_training()
        (simulator,) = (process for process in live.everybody() if process.name() == "cat")
        simulator.kill()
        time.sleep(0.1)
        live.process.send_signal(number)
        assert live.wait(30) == 128 + number, live.output
    assert re.search(
        r"could not go on until the run ended: EnvError: .* raised in step: (Runtime|BrokenPipe)Error", live.output
    )
    assert " failed: " not in live.output
    assert f"interrupted by {number.name}" in live.output
