"""Rules TR7 and TR8 on real runs: the ranges of the framework's hot paths, read back from a trace."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sample_profiler
from harness.runs import CARTPOLE, SMALL, run
from sample_profiler.model.kernels.built import KERNELS
from sample_profiler.profiling import ranges

VARIABLE = sample_profiler.RANGES_VARIABLE
NUM_STEPS = 1024

# What a run in one process on vectors shows, each range within the one that it is under.
NESTING = {
    "RolloutWorker.rollout": None,
    "RolloutWorker.request_actions": None,
    "SteppingGroup.step": "RolloutWorker.rollout",
    "SteppingGroup.reset": None,
    "SteppingGroup.begin_rollout": None,
    "SteppingGroup.end_episode": "SteppingGroup.step",
    "SteppingGroup.write_observation": None,
    "AgentsEnv.step": "SteppingGroup.step",
    "AgentsEnv.reset": None,
    "FrameStack.step": "AgentsEnv.step",
    "FrameStack.reset": "AgentsEnv.reset",
    "FrameSkip.step": "FrameStack.step",
    "InferenceWorker.handle_policy_step": None,
    "InferenceWorker.update_model": None,
    "InferenceWorker.gather": "InferenceWorker.handle_policy_step",
    "InferenceWorker.write_outputs": "InferenceWorker.handle_policy_step",
    "ActorCritic.forward_core": None,
    "ActorCritic.forward_core_sequence": "Learner.train",  # for the loss, and to measure how far that moves the policy
    "ActorCritic.normalize": None,
    "ActorCritic.forward_head": None,
    "ActorCritic.forward_tail": None,
    "Batcher.batch": None,
    "Batcher.release": None,
    "Learner.train": None,
    "Learner.prepare": "Learner.train",
    "Learner.estimate_advantages": "Learner.prepare",
    "Learner.publish": None,
    "Learner.try_out": None,
    "Dataset.copy_steps": "Learner.train",
    "Dataset.copy_states": "Learner.train",
    "Dataset.copy_observations": "Learner.train",
    "gae": "Learner.estimate_advantages",
    "Trainer.train_minibatch": "Learner.train",
    "Trainer.encode": "Trainer.train_minibatch",
    "Trainer.calculate_loss": "Trainer.train_minibatch",
    "Trainer.backward": "Trainer.train_minibatch",
    "Trainer.step_optimizer": "Trainer.train_minibatch",
    "policy_loss": "Trainer.calculate_loss",
    "value_loss": "Trainer.calculate_loss",
    "exploration_loss": "Trainer.calculate_loss",
    "kl_loss": "Trainer.calculate_loss",
    "PolicyWeights.publish": "Learner.publish",
    "PolicyWeights.load_into": "InferenceWorker.update_model",
    "LocalWaiter.wait": None,
    "LocalChannel.send": None,
    "LocalChannel.receive": None,
}
if KERNELS == "compiled":  # a small network goes all the way at once, and has its losses with their gradient
    NESTING |= {
        "ActorCritic.forward_at_once": "Trainer.encode",
        "Objective.add_up_at_once": "Trainer.calculate_loss",
    }

PROGRAM = """
import sys
from torch.profiler import ProfilerActivity, profile
from sf_examples.gym.train_gym import main
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    status = main(sys.argv[2:])
profiler.export_chrome_trace(sys.argv[1])
sys.exit(status)
"""

# Every environment that is made says whether ranges are armed where it lives.
WITNESS = """
import os
import gymnasium
from sample_profiler import profile_range, register_env, train

def make(name, cfg, placement, render_mode=None):
    if placement is not None:
        line = f"worker {placement.worker_index} has {type(profile_range('step')).__name__}\\n"
        os.write(1, line.encode())  # as one piece: another worker writes too
    return gymnasium.make("CartPole-v1")

register_env("witness", make)

if __name__ == "__main__":
    raise SystemExit(train())
"""


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Train a little in one armed process under `torch.profiler`; return the ranges of the trace, outermost first."""
    folder = tmp_path_factory.mktemp("ranges")
    trace = folder / "trace.json"
    flags = [
        *CARTPOLE[1:], *SMALL, "--serial_mode=True", "--async_rl=False", f"--train_for_env_steps={NUM_STEPS}",
        "--env_framestack=2", "--env_frameskip=2", "--summaries_use_frameskip=False",
        "--decorrelate_envs_on_one_worker=False", f"--train_dir={folder}",
    ]  # fmt: skip
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(trace), *flags],
        env={**os.environ, VARIABLE: "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    everything = json.loads(trace.read_text())["traceEvents"]
    found = [event for event in everything if event.get("cat") == "user_annotation" and event["ph"] == "X"]
    return sorted(found, key=lambda event: (event["ts"], -event["dur"]))


def parents_of(events: list[dict[str, Any]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each range's name with the names of all ranges that contain it in time, on its thread."""
    open_ranges: dict[int, list[dict[str, Any]]] = {}
    for event in events:
        around = open_ranges.setdefault(event["tid"], [])
        while around and around[-1]["ts"] + around[-1]["dur"] <= event["ts"]:
            around.pop()
        for outer in around:
            assert event["ts"] + event["dur"] <= outer["ts"] + outer["dur"], (event, outer)
        yield event["name"], tuple(outer["name"] for outer in around)
        around.append(event)


def test_tr8_the_hot_paths_are_ranges_that_nest_as_the_code_does(events: list[dict[str, Any]]) -> None:
    found = list(parents_of(events))
    assert set(NESTING) - {name for name, _ in found} == set()
    wrong = {(name, around) for name, around in found if (outer := NESTING.get(name)) and outer not in around}
    assert wrong == set()


PASS_OF_A_SMALL_NETWORK = """
import gymnasium, torch
from torch.profiler import ProfilerActivity, profile
from sample_profiler.config import ModelOptions, ObservationOptions
from sample_profiler.model import make_actor_critic
box = gymnasium.spaces.Box(-1, 1, (4,))
space = gymnasium.spaces.Dict({"obs": box})
network = make_actor_critic(ModelOptions(use_rnn=False), ObservationOptions(), space, gymnasium.spaces.Discrete(2))
network.pack()
with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as profiler:
    network({"obs": torch.zeros(2, 4)}, torch.zeros(2, 1))
print(*(event.key for event in profiler.key_averages()))
"""


def test_tr8_one_pass_through_a_small_network_is_a_range() -> None:
    command, environment = [sys.executable, "-c", PASS_OF_A_SMALL_NETWORK], {**os.environ, VARIABLE: "1"}
    keys = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=100, check=True).stdout
    is_compiled = KERNELS == "compiled"
    assert ("ActorCritic.infer" in keys.split()) == is_compiled
    assert ("ActorCritic.forward_head" in keys.split()) == (not is_compiled)


def test_tr8_counts_are_those_of_the_run(events: list[dict[str, Any]]) -> None:
    counts = Counter(event["name"] for event in events)
    # Sampling runs ahead of training by less than two datasets.
    assert NUM_STEPS <= counts["AgentsEnv.step"] < NUM_STEPS + 2 * 128
    assert counts["FrameStack.step"] == counts["FrameSkip.step"] == counts["AgentsEnv.step"]
    assert counts["SteppingGroup.step"] * 2 == counts["AgentsEnv.step"], "groups of two environments"
    assert counts["AgentsEnv.reset"] == counts["SteppingGroup.end_episode"] + 8
    assert counts["Learner.train"] == counts["gae"] == counts["Trainer.step_optimizer"] == NUM_STEPS // 64
    assert counts["PolicyWeights.publish"] == 1 + NUM_STEPS // 64


def decorated(value: object) -> Iterator[Any]:
    """Yield the functions that a decorated function wraps, itself first."""
    while inspect.isfunction(value):
        yield value
        value = getattr(value, "__wrapped__", None)


def test_tr8_unarmed_the_hot_paths_are_the_very_same_functions() -> None:
    """What is called is what the file defines: no wrapper of the ranges is around anything."""
    seen = set()
    package = Path(ranges.__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        name = ".".join(path.relative_to(package.parent).with_suffix("").parts)
        if "@profile_range" not in path.read_text() or name.startswith("sample_profiler.profiling."):
            continue
        module = importlib.import_module(name)
        classes = [value for value in vars(module).values() if inspect.isclass(value)]
        for owner in (module, *classes):
            for name, value in vars(owner).items():
                if value is ranges.profile_range:
                    continue
                for function in decorated(value):
                    assert function.__code__.co_filename != ranges.__file__, (owner, name)
                    seen.add(function.__qualname__)
    assert {"Trainer.train_minibatch", "RolloutWorker._on_actions", "gae", "AgentsEnv.step"} <= seen


@pytest.mark.parametrize(("value", "kind"), [("1", "_Range"), ("0", "_NoRange")])
def test_tr7_the_variable_reaches_the_workers_of_a_parallel_run(value: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "witness.py").write_text(WITNESS)
    result = run(
        "witness", "--env=witness", "--num_workers=2", "--num_envs_per_worker=1", "--worker_num_splits=1", *SMALL,
        "--train_for_env_steps=64", "--benchmark=True", folder=tmp_path,
        **{VARIABLE: value, "PYTHONPATH": f"{tmp_path}:."},
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    assert {line for line in result.stdout.splitlines() if line.startswith("worker ")} == {
        f"worker 0 has {kind}", f"worker 1 has {kind}"
    }  # fmt: skip
