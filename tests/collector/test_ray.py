"""A Collector over actors of Ray: rules TR7 and TR17 there, batches, commands, weights, and actors that are lost.

Each program has a cluster of its own, on loopback, and ends with it; the tests read what it found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sample_profiler.collector.collector import Collector
from sample_profiler.errors import ConfigError
from sample_profiler.runtime.machine.ray_cluster import as_remote
from sample_profiler.switches import RANGES_VARIABLE

pytestmark = pytest.mark.whole_run

ROLLOUT = 8
FLAGS = (
    *("--env=pole", "--backend=ray", "--ray_actors=2", "--ray_actor_cpus=1", "--num_workers=2"),
    *("--num_envs_per_worker=2", "--worker_num_splits=1", f"--rollout={ROLLOUT}", f"--batch_size={4 * ROLLOUT}"),
    *("--use_rnn=False", "--device=cpu", "--encoder_mlp_layers", "8", "--decorrelate_envs_on_one_worker=False"),
)
BEGINNING = """
import json
import os
import sys
import time
from pathlib import Path

import ray
import torch

import sample_profiler

FAIL_AT = int(os.environ.get("FAIL_AT", 0))


def make(name, cfg, placement, *, render_mode=None):
    import gymnasium

    class Pole(gymnasium.Wrapper):
        num_steps = 0

        def step(self, action):
            self.num_steps += 1
            if self.num_steps == FAIL_AT:
                raise RuntimeError("the pole fell on the lamp")
            return self.env.step(action)

    return Pole(gymnasium.make("CartPole-v1"))


sample_profiler.register_env("pole", make)
folder, flags = Path(sys.argv[1]), sys.argv[2:]
results = {}
"""
ENDING = """
(folder / "results.json").write_text(json.dumps(results))
"""
MEASURING = """
class Told:
    def environment(self):
        import os

        import sample_profiler

        return os.environ.get("SAMPLE_PROFILER_PROFILING"), sample_profiler.ARE_RANGES_ARMED


with sample_profiler.Collector([*flags, f"--train_dir={folder}"]) as collector:
    results["num_workers"] = collector.num_workers
    results["told"] = ray.get(sample_profiler.as_remote(Told, num_cpus=0).remote().environment.remote())
    collector.enable_profile(workers=[0, 3], num_rollouts=3, warmup_rollouts=1, with_stack=False,
                             save_path=str(folder / "traces" / "worker_{worker_idx}.json"))
    versions, workers, shapes = set(), set(), set()
    end_s = time.monotonic() + 60
    traces = [folder / "traces" / f"worker_{index}.json" for index in (0, 3)]

    def has_seen_all():
        return all(map(Path.exists, traces)) and max(versions) > 2 and len(workers) == 4 and results["num_episodes"]

    results["num_episodes"] = 0
    while time.monotonic() < end_s and not has_seen_all():
        batch = next(collector)
        results["num_episodes"] += len(collector.take_episodes())
        versions |= set(batch["policy_versions"].flatten().tolist())
        workers |= set(batch["workers"].tolist())
        shapes.add((*batch["rewards"].shape, *batch["observations"]["obs"].shape))
        results["is_own_memory"] = bool(batch["rewards"].add_(1).isfinite().all())
        with torch.no_grad():
            next(collector.policy.parameters()).add_(0.01)
        collector.update_policy_weights_()
    results["traces"] = {path.name: path.exists() for path in traces}
    results["versions"], results["workers"], results["shapes"] = sorted(versions), sorted(workers), sorted(shapes)
    results["lag"] = collector.policy_version - max(versions)
    results["toggled"] = collector.map_fn("set_profiling_enabled", [(False,)] * 4)
    try:
        collector.map_fn("nothing_of_that_name", [()] * 4)
    except sample_profiler.errors.CommandError as error:
        results["error"] = str(error)
    capture = {"num_rollouts": 100_000, "warmup_rollouts": 0, "with_stack": False}

    def collect_of(worker):  # more than its actor may have had ready before
        for _ in range(8):
            while worker not in next(collector)["workers"].tolist():
                pass

    collector.enable_profile(workers=[1], save_path=folder / "early.json", **capture)
    collect_of(1)
    results["early"] = [str(path) for path in collector.disable_profile()]
    collector.enable_profile(workers=[2], save_path=folder / "last.json", **capture)
    collect_of(2)
results["late"] = (folder / "last.json").exists()
results["is_ray_left"] = not ray.is_initialized()
"""
LOSING = """
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
other = cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
ray.init(address=cluster.address, logging_level="ERROR")
with sample_profiler.Collector([*flags, f"--train_dir={folder}", "--hang_timeout=10"]) as collector:
    groups = collector._backend._groups._groups

    def collect_of_both():
        seen, end_s = set(), time.monotonic() + 90
        while len(seen) < 2 and time.monotonic() < end_s:
            seen |= {worker // 2 for worker in next(collector)["workers"].tolist()}
        return sorted(seen)

    results["before"] = collect_of_both()
    ray.kill(groups[0].actor)
    results["after_kill"] = collect_of_both()
    results["num_lost"] = sorted(group.num_lost for group in groups)
    third = cluster.add_node(num_cpus=1)
    cluster.remove_node(other, allow_graceful=False)
    end_s = time.monotonic() + 60  # what the node had made before may still come
    while sum(group.num_lost for group in groups) < 2 and time.monotonic() < end_s:
        next(collector)
    results["after_node"] = collect_of_both()
    results["num_lost_then"] = sum(group.num_lost for group in groups)
ray.shutdown()
cluster.shutdown()
"""
SYNCHRONOUS = """
with sample_profiler.Collector([*flags, "--async_rl=False", f"--train_dir={folder}"]) as collector:
    for number in range(3):
        batch = next(collector)
        results[number] = [sorted(batch["workers"].tolist()), sorted(set(batch["policy_versions"].flatten().tolist()))]
        collector.update_policy_weights_()
"""
FAILING = """
try:
    with sample_profiler.Collector([*flags, f"--train_dir={folder}"]) as collector:
        for batch in collector:
            pass
except sample_profiler.errors.SampleProfilerError as error:
    results["error"] = str(error)
"""


def execute(program: str, folder: Path, *flags: str, **environment: str) -> dict[str, Any]:
    pytest.importorskip("ray")
    script = folder / "program.py"
    body = "\n".join(f"    {line}" for line in (program + ENDING).splitlines())
    script.write_text(f"{BEGINNING}\n\nif __name__ == '__main__':\n    import sample_profiler.errors\n{body}\n")
    result = subprocess.run(
        [sys.executable, str(script), str(folder), *FLAGS, *flags],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", **environment},
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], Path]]:
    folder = tmp_path_factory.mktemp("ray")
    yield execute(MEASURING, folder, **{RANGES_VARIABLE: "1"}), folder


def test_batches_come_from_all_actors_with_the_weights_that_were_published(measured) -> None:
    found, _ = measured
    assert found["num_workers"] == 4
    assert found["workers"] == [0, 1, 2, 3]
    assert found["shapes"] == [[4, ROLLOUT, 4, ROLLOUT, 4]]
    assert max(found["versions"]) > 2
    assert found["is_own_memory"]
    assert found["num_episodes"] > 0


def test_tr7_the_variable_reaches_actors_of_ones_own_and_the_workers_of_a_collector(measured) -> None:
    found, folder = measured
    assert found["told"] == ["1", True]
    names = {
        event.get("name") for event in json.loads((folder / "traces" / "worker_3.json").read_text())["traceEvents"]
    }
    assert {"RolloutWorker.rollout", "AgentsEnv.step"} <= names, "its workers are armed, and ranges are in their traces"


def test_tr17_captures_in_actors_are_asked_for_as_elsewhere_and_come_to_the_caller(measured) -> None:
    found, folder = measured
    assert found["traces"] == {"worker_0.json": True, "worker_3.json": True}
    rollouts = [
        event
        for event in json.loads((folder / "traces" / "worker_0.json").read_text())["traceEvents"]
        if event.get("name") == "RolloutWorker.rollout" and event.get("ph") == "X"
    ]
    assert rollouts
    assert found["early"] == [str(folder / "early.json")]
    assert (folder / "early.json").exists() and found["late"]


def test_tr6_ranges_are_switched_in_all_actors_and_what_a_worker_raises_is_raised_here(measured) -> None:
    found, _ = measured
    assert len(found["toggled"]) == 4
    assert "RolloutWorker_w0: " in found["error"] and "nothing_of_that_name" in found["error"]
    assert found["is_ray_left"], "a cluster of one's own ends with the Collector"


def test_lost_actors_and_nodes_are_replaced_and_the_others_go_on_meanwhile(tmp_path: Path) -> None:
    found = execute(LOSING, tmp_path)
    assert found["before"] == found["after_kill"] == found["after_node"] == [0, 1]
    assert found["num_lost"] == [0, 1]
    assert found["num_lost_then"] >= 2


def test_a_synchronous_batch_is_of_all_actors_and_of_the_weights_before_it(tmp_path: Path) -> None:
    found = execute(SYNCHRONOUS, tmp_path, "--num_envs_per_worker=1")  # as many agents as its part has trajectories
    for number in range(3):
        workers, versions = found[str(number)]
        assert versions == [number]
        assert {worker // 2 for worker in workers} == {0, 1}


def test_what_an_environment_raises_on_another_node_is_raised_here(tmp_path: Path) -> None:
    assert "the pole fell on the lamp" in execute(FAILING, tmp_path, FAIL_AT="20")["error"]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--ray_address=127.0.0.1:1"], "there is no cluster of Ray to join"),
        (["--async_rl=False", "--ray_actors=3"], "--batch_size=32 cannot be divided among --ray_actors=3"),
    ],
)
def test_what_cannot_be_is_said_with_its_cure(tmp_path: Path, flags: list[str], problem: str) -> None:
    assert problem in execute(FAILING, tmp_path, *flags)["error"]


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'sample_profiler\[ray\]'"):
        Collector(["--env=CartPole-v1", "--backend=ray"])
    with pytest.raises(ConfigError, match=r"pip install 'sample_profiler\[ray\]'"):
        as_remote(Collector)
