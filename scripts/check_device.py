"""Runs on a machine with a GPU what can be seen on one alone, and prints every figure: tests, waits, rates, a run.

It begins with what can be imported, since such a machine may have little. Each part is a command of its own, which may
fail or take too long without the others.

    python scripts/check_device.py --simulators drift ant-spring ant-mjx
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

WANTED = (
    "numpy",
    "torch",
    "gymnasium",
    "psutil",
    "cloudpickle",
    "rich",
    "tensorboard",
    "jax",
    "brax",
    "mujoco",
    "pytest",
)
CUDA_TESTS = ("tests/components", "tests/model/kernels", "tests/profiling/device_clock")
CARTPOLE = (
    *("-m", "sf_examples.gym.train_gym", "--env=CartPole-v1", "--device=gpu", "--num_workers=4"),
    *("--num_envs_per_worker=16", "--train_for_env_steps=400000", "--restart_behavior=overwrite"),
    *("--experiment=device_check", "--train_dir=/tmp/device_check"),
)


def show_imports() -> None:
    """Print which packages there are, and of which version."""
    for name in WANTED:
        try:
            module = importlib.import_module(name)
            print(f"{name} {getattr(module, '__version__', '')}", end="  ", flush=True)
        except Exception as error:  # noqa: PERF203 (whatever an import raises)
            print(f"\n{name}: {type(error).__name__}: {error}", flush=True)
    import torch

    print(f"\n{torch.cuda.get_device_name() if torch.cuda.is_available() else 'PyTorch sees no GPU'}", flush=True)


def run(title: str, arguments: Sequence[str], timeout_s: float, variables: Mapping[str, str] | None = None) -> str:
    """Run a command of Python's, print the end of what it prints, and return all of it."""
    begin_s = time.monotonic()
    print(f"\n== {title}", flush=True)
    environment = os.environ | {"PYTHONUNBUFFERED": "1"} | dict(variables or {})
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
        told = f"status {process.returncode}"
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        told = "took too long"
    print(output[-4000:], f"-- {told}, {time.monotonic() - begin_s:.0f} s", sep="\n", flush=True)
    return output


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulators", nargs="+", default=["drift"])
    parser.add_argument("--datasets", default="30")
    parser.add_argument("--timeout", type=float, default=150, help="seconds for one part")
    parser.add_argument("--skip", nargs="*", default=[], help="parts to leave out, by the first word of their titles")
    options = parser.parse_args()
    show_imports()
    benchmark = ("-m", "benchmarks.vectors.device_vectors", "--datasets", options.datasets)
    parts: list[tuple[str, Sequence[str], Mapping[str, str]]] = [
        ("tests that need a GPU", ("-m", "pytest", "-q", "-x", "-m", "cuda", *CUDA_TESTS), {}),
        ("digest", ("-m", "benchmarks.vectors.device_vectors", "--checkpoint", "12"), {}),
        (
            "digest where each call is waited for: the same",
            ("-m", "benchmarks.vectors.device_vectors", "--checkpoint", "12"),
            {"CUDA_LAUNCH_BLOCKING": "1"},
        ),
        (
            "digest with CUDA graphs: the same",
            ("-m", "benchmarks.vectors.device_vectors", "--checkpoint", "12", "--graphs"),
            {},
        ),
        *((f"vector {each}", (*benchmark, "--simulators", each), {}) for each in options.simulators),
        *(
            (f"graphs {each}: with CUDA graphs", (*benchmark, "--simulators", each, "--graphs"), {})
            for each in options.simulators
        ),
        ("cartpole in several processes, Learner and inference on the GPU", CARTPOLE, {}),
    ]
    for title, arguments, variables in parts:
        if title.split()[0] not in options.skip:
            run(title, arguments, options.timeout, variables)


if __name__ == "__main__":
    main()
