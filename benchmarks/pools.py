"""Print frames a second of EnvPool's pools beside the same task through RolloutWorkers, everything trained on.

All learn with the defaults of MuJoCo's family, and take turns: workers whose environments step one by one, a pool in a
worker of its own, and a pool in one process with all else. An environment is one of EnvPool and of that family.

    python -m benchmarks.pools --env HalfCheetah-v5 --rounds 5

EnvPool comes with ``sample-profiler[envpool]``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring.old_and_new import read_frames, read_rate
from benchmarks.measuring.statistic import describe_range
from harness.runs import command, running
from sf_examples.mujoco.mujoco_env import MUJOCO_DEFAULTS, MUJOCO_ENVS

_SETTLE_S = 5.0


def learning_flags() -> list[str]:
    """Return what MuJoCo's family learns with, as flags of another one."""
    flags = []
    for name, value in MUJOCO_DEFAULTS.items():
        if name not in ("num_workers", "num_envs_per_worker"):
            words = map(str, value) if isinstance(value, tuple) else [str(value)]
            flags += [f"--{name}", *words]
    return flags


def make_arms(env: str, num_workers: int, num_envs: int) -> dict[str, tuple[str, list[str]]]:
    """Return a module and flags by what trains.

    Args:
        env: an id of gymnasium and EnvPool.
        num_workers: RolloutWorkers where environments step one by one.
        num_envs: in all.
    """
    of_family = next(name for name, env_id in MUJOCO_ENVS.items() if env_id == env)
    each = f"--num_envs_per_worker={num_envs // num_workers}"
    pool = [*learning_flags(), f"--env={env}", f"--env_agents={num_envs}"]
    return {
        "workers": ("sf_examples.mujoco.train_mujoco", [f"--env={of_family}", f"--num_workers={num_workers}", each]),
        "pool": ("sf_examples.envpool.train_envpool", [*pool, "--serial_mode=False"]),
        "pool, one process": ("sf_examples.envpool.train_envpool", pool),
    }


def measure(module: str, flags: Sequence[str], seconds: float) -> float:
    """Return the frames a second that a run trains on once it has settled.

    Raises:
        RuntimeError: it does not train.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = command(module, *flags, "--train_for_env_steps=1000000000", folder=folder)
        with running(words, folder / "output.txt", folder / "run") as live:
            while not read_frames(folder / "run"):
                if live.process.poll() is not None:
                    raise RuntimeError(f"the run ended before it trained:\n{live.output}")
                time.sleep(0.1)
            time.sleep(_SETTLE_S)
            return read_rate(folder / "run", seconds)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = sorted(set(MUJOCO_ENVS.values()))
    parser.add_argument("--env", default="HalfCheetah-v5", choices=known)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--envs", type=int, default=64, help="in all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a run that are measured")
    options = parser.parse_args(argv)
    arms = make_arms(options.env, options.workers, options.envs)
    rates: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(options.rounds):
        for name in sorted(arms, reverse=bool(number % 2)):
            rates[name].append(measure(*arms[name], options.seconds))
            print(f"{name}: {rates[name][-1]:,.0f} frames/s", file=sys.stderr, flush=True)
    print(f"| {options.env}, {options.envs} environments | frames/s | to workers |\n| --- | --- | --- |")
    for name, of_arm in rates.items():
        ratios = [rate / other for rate, other in zip(of_arm, rates["workers"], strict=True)]
        told = describe_range(statistics.median(ratios), min(ratios), max(ratios))
        print(f"| {name} | {statistics.median(of_arm):,.0f} ({min(of_arm):,.0f} to {max(of_arm):,.0f}) | {told} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
