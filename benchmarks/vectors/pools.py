"""Print frames a second of EnvPool's pools beside the same task through RolloutWorkers, everything trained on.

All learn with the defaults of MuJoCo's family, and take turns: workers whose environments step one by one, a pool in a
worker of its own, and a pool in one process with all else. An environment is one of EnvPool and of that family.

    python -m benchmarks.vectors.pools --env HalfCheetah-v5 --rounds 5

EnvPool comes with ``sample-profiler[envpool]``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.measuring.turns.taking_turns import compare
from sf_examples.mujoco.mujoco_env import MUJOCO_DEFAULTS, MUJOCO_ENVS


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
    compare(f"{options.env}, {options.envs} environments", arms, options.rounds, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
