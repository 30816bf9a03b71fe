"""Step an environment of gymnasium with random actions: `python gym_alone.py ENV SECONDS PROCESSES ENVS_PER_PROCESS`.

For installations that are not ours, with what they bring along; `benchmarks.env_alone` does the same for ours. Prints
the steps per second of each process, each on a core of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from typing import Any

_NUM_PREPARED_ACTIONS = 1024


def step(name: str, seconds: float, num_envs: int, index: int, barrier: Any, results: Any) -> None:
    """Step some environments in turn and put the steps per second into `results`; the target of a process."""
    import gymnasium

    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[index % len(cores)]})
    envs = [gymnasium.make(name) for _ in range(num_envs)]
    envs[0].action_space.seed(index)
    actions = [envs[0].action_space.sample() for _ in range(_NUM_PREPARED_ACTIONS)]
    for i, env in enumerate(envs):
        env.reset(seed=index * num_envs + i)
    barrier.wait(timeout=120)
    num_rounds, start_s = 0, time.perf_counter()
    while time.perf_counter() - start_s < seconds:
        for i, env in enumerate(envs):
            _, _, terminated, truncated, _ = env.step(actions[(num_rounds * 7 + i) % _NUM_PREPARED_ACTIONS])
            if terminated or truncated:
                env.reset()
        num_rounds += 1
    results.put(num_rounds * num_envs / (time.perf_counter() - start_s))


def main() -> int:
    """Measure and print."""
    name, seconds, num_processes, num_envs = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(num_processes), context.Queue()
    processes = [
        context.Process(target=step, args=(name, seconds, num_envs, index, barrier, results))
        for index in range(num_processes)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        return 1
    print(*(f"{results.get():.1f}" for _ in processes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
