"""Print how fast a run could be at most on this machine: its parts alone, on all cores, and the limit composed of them.

The parts are the environment with random actions, inference at the run's own batch size (normalization and network, one
thread on each core), and training on the run's own minibatches (normalization, network, losses, optimizer; all cores).
What a step costs in core-seconds adds up; the cores divided by the sum are the frames per second that the hardware
allows for, if nothing else cost anything and no core ever waited. `benchmarks.versus` prints every run's share of it.

    python -m benchmarks.limit --task doom --precision bf16
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.env_alone import measure_alone
from benchmarks.measuring.comparison_tasks import SCENARIO, TASKS, Task
from benchmarks.versus import RESULTS, ROOT, find_scenario, prepare_python
from sample_profiler.components.run import probe_env
from sample_profiler.components.topology import Blueprint, make_blueprint, plan_components
from sample_profiler.config import Config, parse_config
from sample_profiler.envs import export_registration
from sample_profiler.runtime.channels import LocalChannel, LocalReports
from sample_profiler.runtime.machine import tame_numerical_libraries, usable_cpus

_FAMILIES = {
    "doom": ("sf_examples.vizdoom.train_vizdoom", "register_vizdoom_envs"),
    "gym": ("sf_examples.gym.train_gym", "register_gym_envs"),
    "mujoco": ("sf_examples.mujoco.train_mujoco", "register_mujoco_envs"),
}
_NETWORK_BLOCKS = ("obs_to_device_normalize", "forward")


def make_config(task: Task, flags: Sequence[str]) -> Config:
    """Return the configuration of our own runs of a task."""
    from sf_examples.gym.gym_env import GYM_DEFAULTS
    from sf_examples.mujoco.mujoco_env import MUJOCO_DEFAULTS
    from sf_examples.vizdoom.doom_options import VIZDOOM_DEFAULTS, VizdoomOptions

    module, register = _FAMILIES[task.family]
    getattr(importlib.import_module(module), register)()
    defaults: dict[str, Any] = {"doom": VIZDOOM_DEFAULTS, "gym": GYM_DEFAULTS, "mujoco": MUJOCO_DEFAULTS}[task.family]
    return parse_config([*flags, *task.flags], (VizdoomOptions,) if task.family == "doom" else (), defaults=defaults)


def make_parts(task: Task, flags: Sequence[str]) -> Blueprint:
    """Lay a run out in this process, its trajectories filled with random observations of the environment."""
    config = make_config(task, flags)
    folder = Path(tempfile.mkdtemp(prefix="sample_profiler_limit_"))
    payload = export_registration(config.run.env)
    blueprint = make_blueprint(config, 1, payload, probe_env(config), folder, "cpu", LocalChannel)
    random = np.random.default_rng(1)
    for array in blueprint.trajectories.observations.values():
        is_bytes = array.dtype == np.uint8
        array[:] = random.integers(0, 256, array.shape, np.uint8) if is_bytes else random.normal(size=array.shape)
    return blueprint


def build(blueprint: Blueprint, kind: str) -> Any:
    """Build a component of the run."""
    plan = next(plan for plan in plan_components(blueprint) if plan.settings.name.startswith(kind))
    return plan.make(LocalReports())


def measure_inference(task: Task, flags: Sequence[str], seconds: float, barrier: Any, results: Any) -> None:
    """Put the core-seconds that one step takes in inference into `results`; the target of a process."""
    tame_numerical_libraries(1)
    blueprint = make_parts(task, flags)
    worker = build(blueprint, "InferenceWorker")
    learner = build(blueprint, "Learner")
    learner.start()
    rows = [len(group.rows) for group in blueprint.plan.groups]
    num_groups = max(1, round(task.inference_rows / rows[0]))
    first_weights, requests = (entry.handle for entry in worker.inputs())
    first_weights([0])
    for _ in range(3):
        requests(list(range(num_groups)))
    barrier.wait()
    before = _block_seconds(worker)
    end_s = time.perf_counter() + seconds
    num_steps = 0
    while time.perf_counter() < end_s:
        requests(list(range(num_groups)))
        num_steps += sum(rows[:num_groups])
    results.put((_block_seconds(worker) - before) / num_steps)


def _block_seconds(worker: Any) -> float:
    step = worker.timing.to_dict()["children"]["handle_policy_step"]["children"]
    return sum(step[name]["total"] for name in _NETWORK_BLOCKS)


def measure_training(task: Task, flags: Sequence[str], seconds: float, results: Any) -> None:
    """Put the core-seconds that one step takes in training into `results`; the target of a process."""
    num_cores = len(usable_cpus())
    tame_numerical_libraries(num_cores)
    blueprint = make_parts(task, flags)
    learner = build(blueprint, "Learner")
    learner.start()
    slots = list(range(blueprint.plan.dataset_slots))
    train = learner.inputs()[0].handle

    def trained_s() -> float:
        return float(learner.timing.to_dict()["children"]["train"]["total"])

    train(slots)
    before, num_steps, end_s = trained_s(), 0, time.perf_counter() + seconds
    while time.perf_counter() < end_s or not num_steps:
        train(slots)
        num_steps += len(slots) * blueprint.plan.rollout
    results.put((trained_s() - before) / num_steps * num_cores)


def measure(task: Task, flags: Sequence[str], seconds: float) -> dict[str, float]:
    """Return the core-seconds that a step takes in each part, and the composed limit in frames per second."""
    context = multiprocessing.get_context("spawn")
    num_cores = len(usable_cpus())
    config = make_config(task, flags)
    rates = measure_alone(config, seconds, num_cores, num_envs=8)
    barrier, results = context.Barrier(num_cores), context.Queue()
    arguments = (task, flags, seconds)
    processes = [context.Process(target=measure_inference, args=(*arguments, barrier, results)) for _ in usable_cpus()]
    inference = _collect(processes, results)
    training = _collect([context.Process(target=measure_training, args=(*arguments, results))], results)
    parts = {
        "environment": num_cores / sum(rates),
        "inference": sum(inference) / len(inference),
        "training": training[0],
    }
    limit = num_cores / sum(parts.values()) * config.environment.env_frameskip
    return {**parts, "limit": limit}


def _collect(processes: Sequence[Any], results: Any) -> list[float]:
    for process in processes:
        process.start()
    values = []
    for process in processes:
        process.join()
        if process.exitcode:
            raise SystemExit(f"a part could not be measured: exit status {process.exitcode}")
        values.append(float(results.get()))
    return values


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, required=True, help="of benchmarks.versus")
    parser.add_argument("--seconds", type=float, default=15.0, help="for each part")
    parser.add_argument("--venvs", type=Path, default=ROOT / "build" / "versus", help="those of benchmarks.versus")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of limit-TASK.json")
    options = parser.parse_args(argv)
    task = TASKS[options.task]
    document: dict[str, dict[str, float]] = {}
    for arm, setting in task.arms.items():
        if setting.framework == "own":
            # Where actions are drawn changes nothing here: the limit knows no processes.
            flags = [flag for flag in setting.flags if not flag.startswith("--inference")]
            if any(SCENARIO in flag for flag in flags):
                scenario = find_scenario(prepare_python("sample_factory", options.venvs.absolute()))
                flags = [flag.replace(SCENARIO, scenario) for flag in flags]
            document[arm] = parts = measure(task, flags, options.seconds)
            costs = ", ".join(f"{name} {seconds * 1e6:,.1f}" for name, seconds in parts.items() if name != "limit")
            print(f"{arm}: core-µs a step: {costs}; limit {parts['limit']:,.0f} frames/s", flush=True)
    path = options.output / f"limit-{options.task}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
