"""Runs whose messages travel as signals: the trees are those of all others, and so is what follows a loss."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.runs import (
    CARTPOLE,
    COLLECTED,
    SMALL,
    command,
    left_shared_memory,
    live_run,
    run,
    running,
    unused_shared_memory,
)

SCRIPT = Path(__file__).with_name("holding_runs.py")
HOLDING = ("--env=holding", "--num_workers=2", "--num_envs_per_worker=2", *SMALL, "--use_rnn=False", "--transport=fifo")
MODES = {
    "async": (),
    "sync": ("--async_rl=False",),
    "two policies": ("--num_policies=2",),
    "own inference": ("--inference=worker",),
    "two inference workers": ("--policy_workers_per_policy=2",),
}
OF_ALL = {"Runner", "Learner 0", "Batcher 0", "RolloutWorker_w0", "RolloutWorker_w1", "RolloutWorker (all 2)"}
OF_ONE_POLICY = {"InferenceWorker_p0-w0"}
TREES = {
    "two policies": {"InferenceWorker_p0-w0", "InferenceWorker_p1-w0", "Learner 1", "Batcher 1"},
    "own inference": set(),
    "two inference workers": {"InferenceWorker_p0-w0", "InferenceWorker_p0-w1"},
}


def tree_names(output: str) -> set[str]:
    return set(re.findall(r"([\w-]+(?: \d| \(all \d\))?) profile tree view:", output))


@pytest.mark.parametrize(
    ("mode", "transport"),
    [*((mode, "fifo") for mode in MODES), ("own inference", "pipe"), ("two inference workers", "pipe")],
)
def test_a_run_ends_with_the_same_trees_whatever_its_messages_travel_through(
    mode: str, transport: str, tmp_path: Path
) -> None:
    flags = (*CARTPOLE, *SMALL, *MODES[mode], f"--transport={transport}", "--train_for_env_steps=3000")
    result = run(*flags, folder=tmp_path)
    assert result.returncode == 0, result.stdout
    assert COLLECTED.search(result.stdout)
    assert f"transport: {transport}" in result.stdout
    assert json.loads((tmp_path / "run" / "config.json").read_text())["flags"]["transport"]["value"] == transport
    assert tree_names(result.stdout) == {*OF_ALL, *TREES.get(mode, OF_ONE_POLICY)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_every_process_has_queues_mapped_and_a_signal_ends_the_run_with_all_trees(number: int, tmp_path: Path) -> None:
    before = unused_shared_memory()
    flags = (*SMALL, "--num_workers=2", "--num_envs_per_worker=2", "--transport=fifo", "--train_for_seconds=100")
    words = command(
        "tests.integration.extensions.extended_runs",
        *flags,
        "--eval_every_steps=500",
        "--save_every_sec=1",
        folder=tmp_path,
    )
    with running(words, tmp_path / "output.txt", tmp_path / "run", WHICH="reporter") as live:
        live.wait_until_training()
        components = ["Runner", *re.findall(r"Started (\S+) as process", live.output)]
        assert {"Reporter", "Evaluator_0", "InferenceWorker_p0-w0", "RolloutWorker_w1"} < set(components)
        for component in components:
            mapped = {Path(area.path.split(" ")[0]).name for area in live.find(component).memory_maps(grouped=False)}
            assert any(name.startswith("faster_fifo") for name in mapped), component
            assert any(name.startswith("pym-") for name in mapped), component
        live.process.send_signal(number)
        assert live.wait(30) == 128 + number, live.output
        assert live.left_over() == []
    assert left_shared_memory(before) == set()
    assert set(components) <= {name.replace(" ", "_") for name in tree_names(live.output)}, live.output


def test_killed_workers_are_replaced_and_the_run_ends_in_order(tmp_path: Path) -> None:
    before = unused_shared_memory()
    with live_run(
        *CARTPOLE, *SMALL, "--transport=fifo", "--save_every_sec=1", "--train_for_seconds=100", folder=tmp_path
    ) as live:
        live.wait_until_training()
        for number in range(1, 4):
            pids = re.findall(r"Started RolloutWorker_w0 as process (\d+)", live.output)
            psutil.Process(int(pids[-1])).kill()
            while live.output.count("takes its place") < number:
                assert live.process.poll() is None, live.output
        live.everybody()
        live.process.send_signal(signal.SIGINT)
        assert live.wait(20) == 130
        assert live.left_over() == []
    assert left_shared_memory(before) == set()


def run_holding(folder: Path, hold: str, end: int, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *HOLDING, f"--train_dir={folder}", "--experiment=run", *flags],
        env={**os.environ, "HOLD": hold, "END": str(int(end)), "DONE": str(folder / "done")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.parametrize("queue", ["InferenceWorker_p0-w0", "Batcher_0", "RolloutWorker_w1"])
def test_a_worker_that_is_killed_while_it_holds_a_queue_is_replaced_at_once(queue: str, tmp_path: Path) -> None:
    result = run_holding(tmp_path, queue, signal.SIGKILL, "--train_for_env_steps=3000", "--hang_timeout=60")
    assert result.returncode == 0, result.stdout
    assert f"The queue of {queue} was held by a process that has ended; it is open again" in result.stdout
    assert "RolloutWorker_w1 is lost: its process was killed by signal 9" in result.stdout
    assert "no sign of life" not in result.stdout


def test_a_worker_that_stands_still_while_it_holds_a_queue_ends_the_run_within_the_hang_timeout(tmp_path: Path) -> None:
    flags = ("--train_for_seconds=80", "--hang_timeout=5", "--heartbeat_interval=0.5")
    result = run_holding(tmp_path, "InferenceWorker_p0-w0", signal.SIGSTOP, *flags)
    assert result.returncode == 1, result.stdout
    words = r"the queue of InferenceWorker_p0-w0 is held by RolloutWorker_w1 \(process \d+\)"
    assert re.search(rf"has shown no sign of life for \d+ s and was ended.*; {words}", result.stdout), result.stdout
    assert "The run failed: InferenceWorker_p0-w0: " in result.stdout


def test_the_end_of_who_holds_a_queue_and_cannot_be_replaced_ends_the_run_at_once(tmp_path: Path) -> None:
    flags = ("--train_for_seconds=80", "--hang_timeout=60", "--on_worker_failure=stop")
    result = run_holding(tmp_path, "Batcher_0", signal.SIGKILL, *flags)
    assert result.returncode == 1, result.stdout
    assert "The run failed: RolloutWorker_w1: its process was killed by signal 9 (SIGKILL)" in result.stdout
    assert "was killed;" not in result.stdout
