"""The command `launch`: ranks on the nodes of a cluster of Ray."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.runs import CARTPOLE, SMALL, load_latest_checkpoint
from sample_profiler.cli.main import main

PROGRAM = """
import sys

import ray
from ray.cluster_utils import Cluster

from sample_profiler.cli.main import main

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()

status = main(["launch", f"--ray={cluster.address}", "--nodes=2", "--max-restarts=0", "--", *sys.argv[1:]])
cluster.shutdown()
sys.exit(status)
"""


@pytest.mark.whole_run
def test_a_rank_on_each_node_trains_the_policy(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    module, *flags = *CARTPOLE, *SMALL, "--num_workers=1", "--batch_size=128", "--train_for_env_steps=3000"
    command = [sys.executable, "-c", PROGRAM, module, *flags, f"--train_dir={tmp_path}", "--experiment=run"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200, env=dict(os.environ), check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert load_latest_checkpoint(tmp_path / "run")["frames"] >= 3000  # type: ignore[operator]
    assert (tmp_path / "run.rank1" / "log.txt").exists()


def test_without_ray_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["launch", "--ray=auto", "--nodes=2", "--", "sf_examples.gym.train_gym"]) == 2
    assert "pip install 'sample_profiler[ray]'" in capsys.readouterr().err
