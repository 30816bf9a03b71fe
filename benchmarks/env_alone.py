"""Measures how fast an environment steps with random actions and nothing else: the limit of any training on it.

``python -m benchmarks.env_alone --env doom_benchmark --seconds 10 --processes 2 --envs_per_process 8``; flags of the
environment's family, such as ``--res_w=160``, may follow.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import Any

from sample_profiler.config import Config, num_usable_cores, parse_config
from sample_profiler.envs import EnvPlacement, export_registration, import_registration, inspect_env, make_env
from sf_examples.custom import train_custom_env, two_agents  # noqa: F401 (they register their environments)
from sf_examples.gym.gym_env import GYM_DEFAULTS
from sf_examples.gym.train_gym import register_gym_envs
from sf_examples.mujoco.mujoco_env import MUJOCO_DEFAULTS
from sf_examples.mujoco.train_mujoco import register_mujoco_envs
from sf_examples.vizdoom.doom_options import VIZDOOM_DEFAULTS, VizdoomOptions
from sf_examples.vizdoom.train_vizdoom import register_vizdoom_envs

_NUM_PREPARED_ACTIONS = 1024


@dataclass(frozen=True)
class _Family:
    prefix: str
    register: Callable[[], None]
    defaults: dict[str, Any]
    parts: tuple[type, ...] = field(default=())


_FAMILIES = (
    _Family("doom_", register_vizdoom_envs, VIZDOOM_DEFAULTS, (VizdoomOptions,)),
    _Family("mujoco_", register_mujoco_envs, MUJOCO_DEFAULTS),
    _Family("", register_gym_envs, GYM_DEFAULTS),
)


@dataclass(frozen=True)
class _Task:
    cfg: Config
    registration: bytes
    seconds: float
    num_envs: int
    is_pinned: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print one line per process and one for all."""
    options, family_flags = _parse(argv)
    cfg = make_family_config(options.env, family_flags)
    rates = measure_alone(cfg, options.seconds, options.processes, options.envs_per_process, not options.unpinned)
    frameskip = cfg.environment.env_frameskip
    for index, rate in enumerate(rates):
        print(f"process {index}: {rate:,.0f} steps/s")
    print(
        f"{options.env}: {sum(rates):,.0f} steps/s, {sum(rates) * frameskip:,.0f} frames/s (frameskip {frameskip}), "
        f"{options.processes} processes × {options.envs_per_process} environments"
        f"{'' if options.unpinned else ', pinned'}"
    )
    return 0


def make_family_config(name: str, flags: Sequence[str]) -> Config:
    """Register the environments of a family and return the configuration of a run with one of them.

    Args:
        name: of the environment.
        flags: of the run.
    """
    family = next(family for family in _FAMILIES if name.startswith(family.prefix))
    family.register()
    return parse_config([f"--env={name}", *flags], extra_parts=family.parts, defaults=family.defaults)


def _parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="doom_benchmark", help="full name of the environment")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to measure, after all have started")
    parser.add_argument("--processes", type=int, default=num_usable_cores(), help="number of processes")
    parser.add_argument("--envs_per_process", type=int, default=8, help="environments stepped in turn by each process")
    parser.add_argument("--unpinned", action="store_true", help="do not bind each process (and its games) to one core")
    return parser.parse_known_args(argv)


def measure_alone(
    cfg: Config, seconds: float, num_processes: int, num_envs: int, is_pinned: bool = True
) -> list[float]:
    """Return the steps per second of each process.

    Args:
        cfg: of a run with the environment, which is registered.
        seconds: how long to measure.
        num_processes: that step at the same time.
        num_envs: environments in each process.
        is_pinned: whether each process stays on one core.
    """
    task = _Task(cfg, export_registration(cfg.run.env), seconds, num_envs, is_pinned)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(num_processes), context.Queue()
    processes = [context.Process(target=_run, args=(task, i, barrier, results)) for i in range(num_processes)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(f"exit codes of the processes: {[process.exitcode for process in processes]}")
    return [rate for _, rate in sorted(results.get() for _ in processes)]


def _run(task: _Task, index: int, barrier: Barrier, results: Queue[tuple[int, float]]) -> None:
    if task.is_pinned and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[index % len(cores)]})  # games started from here inherit it
    try:
        results.put((index, _step(task, index, barrier)))
    except BaseException:
        barrier.abort()  # the others shall not wait for this one
        raise


def _step(task: _Task, index: int, barrier: Barrier) -> float:
    name = task.cfg.run.env
    import_registration(name, task.registration)
    envs = [
        make_env(name, task.cfg, EnvPlacement(worker_index=index, vector_index=i, env_id=i))
        for i in range(task.num_envs)
    ]
    spec = inspect_env(envs[0], name)
    spec.action_space.seed(index)
    is_single = spec.num_agents == 1
    samples = [[spec.action_space.sample() for _ in range(spec.num_agents)] for _ in range(_NUM_PREPARED_ACTIONS)]
    actions = [sample[0] for sample in samples] if is_single else samples
    for i, env in enumerate(envs):
        env.reset(seed=index * task.num_envs + i)
    barrier.wait()
    num_rounds, start = 0, time.perf_counter()
    while time.perf_counter() - start < task.seconds:
        for i, env in enumerate(envs):
            _, _, terminated, truncated, _ = env.step(actions[(num_rounds * 7 + i) % _NUM_PREPARED_ACTIONS])
            is_over = terminated or truncated if is_single else any(terminated) or any(truncated)
            if is_over:
                env.reset()
        num_rounds += 1
    seconds = time.perf_counter() - start
    for env in envs:
        env.close()
    return num_rounds * task.num_envs / seconds


if __name__ == "__main__":
    sys.exit(main())
