"""Training with sampling groups in actors of Ray beside the Learner's own workers: losses, nodes that join, the end.

Each run has a cluster of its own, on loopback, and ends with it.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.remote_runs import count_brought, find_actors, is_alive
from harness.runs import CARTPOLE, SMALL, LiveRun, running

pytestmark = [pytest.mark.whole_run, pytest.mark.alone]

REMOTE = ("--backend=ray", "--ray_actors=1", "--ray_actor_cpus=1", "--device=cpu")


def command(folder: Path, *flags: str) -> list[str]:
    words = [sys.executable, "-m", *CARTPOLE, *SMALL, "--num_workers=1", *REMOTE, *flags]
    return [*words, f"--train_dir={folder}", "--experiment=run"]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveRun]:
    pytest.importorskip("ray")
    words = command(tmp_path, "--train_for_env_steps=100000000", "--save_every_sec=1", "--hang_timeout=60")
    with running(words, tmp_path / "log", tmp_path / "run") as run:
        wait_until(run, lambda: count_brought(run) > 0)
        yield run


def wait_until(run: LiveRun, condition: Callable[[], object], patience_s: float = 120.0) -> None:
    deadline_s = time.monotonic() + patience_s
    while not condition():
        assert run.process.poll() is None, run.output
        assert time.monotonic() < deadline_s, run.output
        run.everybody()
        time.sleep(0.1)


def actors(run: LiveRun) -> list[psutil.Process]:
    return find_actors(run.everybody())


def end(run: LiveRun) -> None:
    run.everybody()
    run.process.send_signal(signal.SIGINT)
    run.wait(90)
    assert run.left_over(20) == []


def test_what_actors_sample_is_trained_on_and_nothing_is_left_of_them(live: LiveRun) -> None:
    wait_until(live, lambda: count_brought(live) >= 3)
    end(live)
    flags = json.loads((live.folder / "config.json").read_text())["flags"]
    assert flags["backend"]["value"] == "ray"
    assert "RemoteSampler" in live.output, "its tree is in the log"


def test_a_killed_actor_is_replaced_while_the_run_goes_on(live: LiveRun) -> None:
    (actor,) = actors(live)
    workers = actor.children(recursive=True)
    before = count_brought(live)
    actor.send_signal(signal.SIGKILL)
    wait_until(live, lambda: "Actor 0 is lost" in live.output)
    assert workers
    wait_until(live, lambda: not [worker for worker in workers if is_alive(worker)], 30)
    wait_until(live, lambda: count_brought(live) > before + 2)
    end(live)


def test_whoever_brings_what_actors_sample_is_replaced_and_begins_with_others(live: LiveRun) -> None:
    before = count_brought(live)
    live.find("RemoteSampler").send_signal(signal.SIGKILL)
    wait_until(live, lambda: "RemoteSampler is lost" in live.output)
    wait_until(live, lambda: count_brought(live) > before + 2)
    assert len(actors(live)) == 1
    end(live)


def test_a_killed_runner_takes_all_with_it(live: LiveRun) -> None:
    live.everybody()
    live.process.kill()
    assert live.left_over(40) == []


JOINING = """
import subprocess
import sys
import time
from pathlib import Path

from ray.cluster_utils import Cluster

log, *words = sys.argv[1:]
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
training = subprocess.Popen([*words, f"--ray_address={cluster.address}", "--max_nodes=2"])
try:
    deadline_s = time.monotonic() + 150
    while "actor 1" not in Path(log).read_text():
        assert time.monotonic() < deadline_s and training.poll() is None
        if len(cluster.list_all_nodes()) == 2 and "Started RemoteSampler" in Path(log).read_text():
            cluster.add_node(num_cpus=1)
        time.sleep(0.2)
    time.sleep(15)
finally:
    training.send_signal(2)
    training.wait(90)
    cluster.shutdown()
"""


def test_a_node_that_joins_gets_a_group_as_far_as_more_are_wanted(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    script, log = tmp_path / "joining.py", tmp_path / "log"
    script.write_text(JOINING)
    words = command(tmp_path, "--train_for_env_steps=100000000")
    with running([sys.executable, str(script), str(log), *words], log, tmp_path / "run") as live:
        live.process.wait(300)
    output = live.output
    assert "Another node of the cluster samples from now on: actor 1" in output, output
    assert "actor 2" not in output
