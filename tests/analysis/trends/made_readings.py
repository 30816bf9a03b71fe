"""Runs over time that are made up: what each component costs, second by second, and the readings of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sample_profiler.profiling.session.session import Session

NUM_CORES = 4
NUM_WORKERS = 4


@dataclass
class MadeRun:
    """What a run does at a moment; functions of the seconds since its start.

    Attributes:
        step_s: of a group of environments of a worker, by its number.
        frame_s: that the Learner works for a frame.
        others: cores that other programs use.
        memory_mib: of a worker, by its number.
        noise: deviation of the logarithm of the throughput of a second.
    """

    step_s: Callable[[float, int], float] = lambda _time_s, _worker: 0.01
    frame_s: Callable[[float], float] = lambda _: 0.0005
    others: Callable[[float], float] = lambda _: 0.0
    memory_mib: Callable[[float, int], float] = lambda _time_s, _worker: 100.0
    noise: float = 0.03
    seconds: int = 120
    history: dict[str, Callable[[float], float]] = field(default_factory=dict)
    held_up: Callable[[float], float] = lambda _: 0.0
    seed: int = 0

    def session(self) -> Session:
        """Return the session that such a run leaves: workers of 8 environments that step without end, or the Learner's
        pace where that is slower; processors that others use make everything longer."""
        random = np.random.default_rng(self.seed)
        names = ["Learner_0", *(f"RolloutWorker_w{index}" for index in range(NUM_WORKERS))]
        keys: dict[tuple[str, ...], list[float]] = {}
        now: dict[tuple[str, ...], float] = {}

        def add(*key: str, value: float) -> None:
            now[key] = now.get(key, 0.0) + value

        for second in range(self.seconds):
            share = NUM_CORES / max(NUM_CORES, NUM_CORES + self.others(second))
            steps_s = [self.step_s(second, worker) / share for worker in range(NUM_WORKERS)]
            learner_s = self.frame_s(second) / share
            sampled = sum(8 / step_s for step_s in steps_s)
            fps = min(sampled, 1 / learner_s) * float(np.exp(self.noise * random.normal()))
            add("", "frames", value=fps)
            work = min(1.0, fps * learner_s)
            add("Learner_0", "train", "seconds", value=work)
            add("Learner_0", "train", "passes", value=fps / 256)
            add("Learner_0", "train/update", "seconds", value=0.8 * work)
            add("Learner_0", "train/update", "passes", value=fps / 256)
            add("Learner_0", "wait_batcher", "seconds", value=1 - work)
            add("Learner_0", "wait_batcher", "passes", value=fps / 256)
            for worker, step_s in enumerate(steps_s):
                name = f"RolloutWorker_w{worker}"
                passes = fps / sampled / step_s
                add(name, "env_step", "seconds", value=min(1.0, passes * step_s))
                add(name, "env_step", "passes", value=passes)
                add(name, "wait_for_trajectories", "seconds", value=max(0.0, 1 - passes * step_s))
                add(name, "wait_for_trajectories", "passes", value=passes)
                now[name, "private_memory_mib"] = self.memory_mib(second, worker)
            for name in names:
                add(name, "cpu_s", value=share * 0.8)
                add(name, "run_delay_s", value=1 - share)
            add("Runner", "machine_busy_s", value=min(NUM_CORES, 0.8 * share * len(names) + self.others(second)))
            add("Runner", "quota_periods", value=10.0)
            add("Runner", "quota_periods_held_up", value=10 * self.held_up(second))
            now["Runner", "available_memory_mib"] = 10_000.0
            for key, value in now.items():
                keys.setdefault(key, []).append(value)
        return Session(
            0.0,
            run={"readings": _document(keys, self.seconds), "history": self._history()},
            machine={"num_cpus": NUM_CORES},
            config={"num_envs_per_worker": 16, "worker_num_splits": 2},
        )

    def _history(self) -> dict[str, list[tuple[float, float]]]:
        return {
            name: [(float(second), figure(second)) for second in range(self.seconds)]
            for name, figure in self.history.items()
        }


def _document(keys: dict[tuple[str, ...], list[float]], seconds: int) -> dict[str, object]:
    gauges: dict[str, dict[str, list[float]]] = {}
    blocks: dict[str, dict[str, dict[str, list[float]]]] = {}
    for key, values in keys.items():
        if len(key) == 2:
            gauges.setdefault(key[0], {})[key[1]] = values
        else:
            blocks.setdefault(key[0], {}).setdefault(key[1], {})[key[2]] = values
    return {"times_s": [second + 1.0 for second in range(seconds)], "gauges": gauges, "blocks": blocks}
