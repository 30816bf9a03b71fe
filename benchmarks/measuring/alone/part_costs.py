"""What a step of a run takes in inference and in training, alone, with the run's own components on made-up data.

Components are built as in a run, but in processes where nothing else happens: as many for inference as there are
cores, each with one thread and on a core of its own, as small batches want; one for training, with the threads that
a run would give it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring.machine.processes import run_processes
from benchmarks.measuring.runs.families import make_family_config
from sample_profiler.envs import export_registration
from sample_profiler.run.env_probe import probe_env
from sample_profiler.run.layout.blueprint import Blueprint, make_blueprint
from sample_profiler.run.layout.topology import plan_components
from sample_profiler.runtime.loop.transports import LocalTransport
from sample_profiler.runtime.machine.libraries import tame_numerical_libraries
from sample_profiler.runtime.machine.machine import usable_cpus
from sample_profiler.runtime.messages.channels import LocalReports

__all__ = ["Setting", "count_inference_rows", "measure_inference", "measure_training"]

_NETWORK_BLOCKS = ("obs_to_device_normalize", "forward")  # the latter draws the actions, too
_WARM_UPS = 3


@dataclass(frozen=True)
class Setting:
    """Whose parts are measured, and for how long.

    Attributes:
        env: name of the environment.
        flags: of the run.
        seconds: for each part.
        inference_rows: steps that go through the network at once in inference, to the nearest number of groups.
    """

    env: str
    flags: tuple[str, ...]
    seconds: float
    inference_rows: int


def measure_inference(setting: Setting) -> float:
    """Return the core-seconds that one step takes in normalization, network and drawing an action."""
    costs = run_processes(_infer, setting, len(usable_cpus()))
    return sum(costs) / len(costs)


def count_inference_rows(setting: Setting) -> int:
    """Return how many steps go through the network at once in `measure_inference`: whole groups of the run."""
    with _laid_out(setting) as blueprint:
        return _choose_groups(blueprint, setting.inference_rows)[1]


def measure_training(setting: Setting) -> float:
    """Return the core-seconds that one step takes in training: all epochs, losses and the optimizer included."""
    return run_processes(_train, setting, 1)[0]


def _infer(setting: Setting, index: int, barrier: Barrier) -> float:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {usable_cpus()[index]})
    tame_numerical_libraries(1)
    with _laid_out(setting) as blueprint:
        worker = _build(blueprint, "InferenceWorker")
        _build(blueprint, "Learner").start()  # publishes the weights that inference waits for
        groups, num_rows = _choose_groups(blueprint, setting.inference_rows)
        first_weights, requests = (entry.handle for entry in worker.inputs())
        first_weights([0])
        for _ in range(_WARM_UPS):
            requests(groups)

        def spent_s() -> float:
            step = worker.timing.to_dict()["children"]["handle_policy_step"]["children"]
            return float(sum(step[name]["total"] for name in _NETWORK_BLOCKS))

        barrier.wait()
        before_s, num_steps, end_s = spent_s(), 0, time.perf_counter() + setting.seconds
        while time.perf_counter() < end_s:
            requests(groups)
            num_steps += num_rows
        return (spent_s() - before_s) / num_steps


def _choose_groups(blueprint: Blueprint, wanted_rows: int) -> tuple[list[int], int]:
    sizes = [len(group.rows) for group in blueprint.plan.groups]
    num_groups = min(len(sizes), max(1, round(wanted_rows / sizes[0])))
    return list(range(num_groups)), sum(sizes[:num_groups])


def _train(setting: Setting, _: int, barrier: Barrier) -> float:
    import torch  # only now: processes of other parts do without it

    num_cores = len(usable_cpus())
    tame_numerical_libraries(num_cores)
    with _laid_out(setting) as blueprint:
        learner, plan = _build(blueprint, "Learner"), blueprint.plan
        learner.start()
        slots, handle = list(range(plan.dataset_slots)), learner.inputs()[0].handle
        steps_done = blueprint.counters.optimizer_steps

        def train() -> None:
            # As fresh as can be: steps of a policy that is too old would not be trained on.
            blueprint.trajectories.policy_versions[:] = steps_done[0]
            handle(slots)

        def spent_s() -> float:
            return float(learner.timing.to_dict()["children"]["train"]["total"])

        train()
        barrier.wait()
        before_s, num_steps, end_s = spent_s(), 0, time.perf_counter() + setting.seconds
        while time.perf_counter() < end_s or not num_steps:
            train()
            num_steps += len(slots) * plan.rollout
        # Of a small network the Learner takes one core, whatever there is.
        return (spent_s() - before_s) / num_steps * torch.get_num_threads()


@contextlib.contextmanager
def _laid_out(setting: Setting) -> Iterator[Blueprint]:
    """Lay a run out in this process, its trajectories filled with random observations."""
    # Where actions are drawn makes no difference to what drawing them costs.
    flags = [flag for flag in setting.flags if not flag.startswith("--inference=")]
    config = make_family_config(setting.env, flags)
    payload, env_spec = export_registration(config.run.env), probe_env(config)
    with tempfile.TemporaryDirectory(prefix="sample_profiler_limit_") as folder:
        blueprint = make_blueprint(config, 1, payload, env_spec, Path(folder), "cpu", LocalTransport())
        random = np.random.default_rng(1)
        for array in blueprint.trajectories.observations.values():
            for slot in array:
                is_bytes = array.dtype == np.uint8
                slot[:] = random.integers(0, 256, slot.shape, np.uint8) if is_bytes else random.normal(size=slot.shape)
        yield blueprint


def _build(blueprint: Blueprint, kind: str) -> Any:
    plan = next(plan for plan in plan_components(blueprint) if plan.settings.name.startswith(kind))
    return plan.make(LocalReports())
