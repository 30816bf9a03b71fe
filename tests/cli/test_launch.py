"""The command `launch`: ranks on the nodes of a cluster of Ray."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.remote_runs import is_alive
from harness.runs import CARTPOLE, SMALL, LiveRun, load_latest_checkpoint, running
from sample_profiler.cli.main import main

PROGRAM = """
import subprocess
import sys
import time

from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()

words = ["launch", f"--ray={cluster.address}", "--nodes=2", "--max-restarts=0", "--", *sys.argv[1:]]
status = subprocess.run([sys.executable, "-m", "sample_profiler", *words]).returncode
if status < 0:  # it was killed, and the cluster goes on
    time.sleep(600)
cluster.shutdown()
sys.exit(status)
"""


def command(folder: Path, *flags: str) -> list[str]:
    words = [sys.executable, "-c", PROGRAM, *CARTPOLE, *SMALL, "--num_workers=1", "--batch_size=128", *flags]
    return [*words, f"--train_dir={folder}", "--experiment=run"]


def find_processes(live: LiveRun, word: str) -> list[psutil.Process]:
    """Return those of a run that go on and have a word in their command line."""
    found = []
    for each in live.everybody():
        with contextlib.suppress(psutil.Error):  # it has just ended
            if is_alive(each) and word in each.cmdline():
                found.append(each)
    return found


@pytest.mark.whole_run
def test_a_rank_on_each_node_trains_the_policy(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    words = command(tmp_path, "--train_for_env_steps=3000")
    result = subprocess.run(words, capture_output=True, text=True, timeout=200, env=dict(os.environ), check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert load_latest_checkpoint(tmp_path / "run")["frames"] >= 3000  # type: ignore[operator]
    assert (tmp_path / "run.rank1" / "log.txt").exists()


@pytest.mark.whole_run
def test_ranks_end_when_the_command_is_killed_that_has_started_them(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    words = command(tmp_path, "--train_for_env_steps=100000000", "--save_every_sec=1")
    with running(words, tmp_path / "log", tmp_path / "run") as live:
        live.wait_until_training(120)
        (launching,) = find_processes(live, "launch")
        ranks = [each for each in find_processes(live, CARTPOLE[0]) if each != launching]
        below = [process for rank in ranks for process in rank.children(recursive=True)]
        assert len(ranks) == 2 and below
        launching.kill()
        deadline_s = time.monotonic() + 60
        while (left := [each for each in (*ranks, *below) if is_alive(each)]) and time.monotonic() < deadline_s:
            time.sleep(0.1)
        assert not left, live.output
        assert live.process.poll() is None, "the cluster was there all the time"


def test_without_ray_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["launch", "--ray=auto", "--nodes=2", "--", "sf_examples.gym.train_gym"]) == 2
    assert "pip install 'sample_profiler[ray]'" in capsys.readouterr().err
