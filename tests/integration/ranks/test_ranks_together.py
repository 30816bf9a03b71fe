"""Several ranks train one policy, started by torchrun; they end together, and go on together after one is lost."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.runs import CARTPOLE, SMALL, LiveRun, load_latest_checkpoint, run, running
from sample_profiler.reports.run_report.loading import load_report
from sample_profiler.reports.run_report.text import format_text

FLAGS = (*CARTPOLE, *SMALL, "--num_workers=1", "--batch_size=128", "--normalize_input=True")


def torchrun(*flags: str, folder: Path, ranks: int = 2, options: tuple[str, ...] = ()) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *options]
    module, *own = FLAGS
    return [*launcher, "-m", module, *own, *flags, f"--train_dir={folder}", "--experiment=run"]


def wait_until(live: LiveRun, condition: object, patience_s: float = 90.0) -> None:
    deadline_s = time.monotonic() + patience_s
    while not condition():  # type: ignore[operator]
        assert live.process.poll() is None, live.output
        assert time.monotonic() < deadline_s, live.output
        time.sleep(0.1)


def rank_processes(live: LiveRun, rank: int) -> psutil.Process:
    """Return the process that torchrun has started as this rank."""
    children = psutil.Process(live.process.pid).children()
    return next(child for child in children if child.environ().get("RANK") == str(rank))


def frames(folder: Path) -> int:
    paths = sorted((folder / "run" / "checkpoint_p0").glob("checkpoint_*.pth"))
    return int(paths[-1].stem.rpartition("_")[2]) if paths else 0


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_train_to_the_frames_of_all_and_the_first_keeps_the_files(tmp_path: Path, ranks: int) -> None:
    words = torchrun("--train_for_env_steps=6000", folder=tmp_path, ranks=ranks)
    with running(words, tmp_path / "log", tmp_path / "run") as live:
        assert live.process.wait(120) == 0, live.output
    output = live.output
    assert len(re.findall("Collected {0: ", output)) == 1, "the second one's output is in its own log"
    assert f"Rank 0 of {ranks}: trains on its part of each minibatch" in output
    checkpoint = load_latest_checkpoint(tmp_path / "run")
    assert 6000 <= checkpoint["frames"] < 6000 + 128 and checkpoint["frames"] == 128 * checkpoint["optimizer_steps"]
    assert len(list(tmp_path.glob("run.rank*"))) == ranks - 1
    flags = [json.loads((tmp_path / name / "config.json").read_text())["flags"] for name in ("run", "run.rank1")]
    assert [each["batch_size"]["value"] for each in flags] == [128, 128]
    assert not list((tmp_path / "run.rank1").glob("checkpoint_*"))
    assert "Collected {0: " in (tmp_path / "run.rank1" / "log.txt").read_text()
    figures = load_report(tmp_path / "run").ranks
    assert [each.rank for each in figures] == list(range(ranks))
    assert all(each.adds_up > 0 and each.waits_for_ranks > 0 and each.trains > 0 for each in figures)
    assert "Ranks side by side" in format_text(load_report(tmp_path / "run"))


def test_a_rank_that_is_killed_ends_the_others_and_all_go_on_from_the_checkpoint(tmp_path: Path) -> None:
    flags = ("--train_for_env_steps=10000000", "--save_every_sec=1")
    command = torchrun(*flags, folder=tmp_path, options=("--max-restarts=1", "--monitor-interval=0.2"))
    with running(command, tmp_path / "log", tmp_path / "run") as live:
        wait_until(live, lambda: frames(tmp_path) > 0)
        lost = rank_processes(live, 1)
        lost.send_signal(signal.SIGKILL)
        wait_until(live, lambda: "Loaded the checkpoint" in live.output)
        reached = frames(tmp_path)
        wait_until(live, lambda: frames(tmp_path) > reached)
        os.kill(live.process.pid, signal.SIGTERM)
        live.process.wait(60)
    output = live.output
    first = output.partition("Loaded the checkpoint")[0]
    assert "rank 1 has failed" in first or "another rank is lost" in first or "SIGTERM" in first, output
    loaded = int(re.findall(r"Loaded the checkpoint \S+_(\d+)\.pth", output)[0])
    assert 0 < loaded <= load_latest_checkpoint(tmp_path / "run")["frames"]


def test_a_killed_launcher_takes_its_ranks_with_it(tmp_path: Path) -> None:
    command = torchrun("--train_for_env_steps=10000000", "--save_every_sec=1", folder=tmp_path)
    with running(command, tmp_path / "log", tmp_path / "run") as live:
        wait_until(live, lambda: frames(tmp_path) > 0)
        reached = frames(tmp_path)
        live.everybody()
        live.process.kill()
        assert live.left_over(30) == []
    assert re.search(r"The run failed: .*(whoever has started this rank|rank 1 has failed)", live.output), live.output
    assert load_latest_checkpoint(tmp_path / "run")["frames"] >= reached  # type: ignore[operator]


def test_an_interrupted_rank_ends_all_in_order(tmp_path: Path) -> None:
    command = torchrun("--train_for_env_steps=10000000", "--save_every_sec=1", folder=tmp_path)
    with running(command, tmp_path / "log", tmp_path / "run") as live:
        wait_until(live, lambda: frames(tmp_path) > 0)
        first, second = (rank_processes(live, rank) for rank in (0, 1))
        second.send_signal(signal.SIGINT)
        psutil.wait_procs([first, second], 60)
    output = live.output
    assert "rank 1 was interrupted" in output
    saved = load_latest_checkpoint(tmp_path / "run")
    told = re.findall(r"Collected \{0: (\d+)\}", output)
    assert told == [str(saved["frames"])], "what was learned is saved to the last step"


@pytest.mark.parametrize(
    ("environment", "flags", "problem"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, (), "MASTER_ADDR and MASTER_PORT are not set"),
        (
            {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"},
            (),
            "--batch_size=128 cannot be divided among 3 ranks",
        ),
        ({}, ("--backend=ray", "--async_rl=False"), "--backend=ray with --async_rl=False"),
        ({}, ("--backend=ray", "--serial_mode=True"), "--backend=ray with --serial_mode=True"),
        ({}, ("--backend=ray", "--num_policies=2"), "--backend=ray with --num_policies=2"),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"},
            ("--backend=ray",),
            "--backend=ray with 2 ranks",
        ),
    ],
)
def test_what_cannot_be_begun_is_said_before_anything_is_made(
    tmp_path: Path, environment: dict[str, str], flags: tuple[str, ...], problem: str
) -> None:
    result = run(*FLAGS, *flags, folder=tmp_path, **environment)
    assert result.returncode == 2
    assert problem in result.stdout
    assert not (tmp_path / "run").exists()
