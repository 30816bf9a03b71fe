"""Train with several settings and seeds, and keep the learning curves: does what is faster also learn as well?

Every run is the ordinary training script in a process of its own, one after another; its curve (mean reward of the
latest episodes against frames and wall time) is read from its TensorBoard summaries. A result that is there is not made
again, so an interrupted comparison goes on where it stopped. `benchmarks.learning_picture` draws the curves.

    python -m benchmarks.learning --task cartpole --settings plain bf16 worker --seeds 1 2 3
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.machine.machine import Machine

RESULTS = Path(__file__).parent / "results"
_REWARD_TAG = "reward/reward"
_MOST_POINTS = 200


@dataclass(frozen=True)
class LearningTask:
    """What is learned, and when it counts as learned.

    Attributes:
        module: the training script.
        flags: of every run.
        threshold: mean reward to reach.
    """

    module: str
    flags: tuple[str, ...]
    threshold: float


_DOOM = "sf_examples.vizdoom.train_vizdoom"
_GYM = "sf_examples.gym.train_gym"
_DOOM_BASIC = ("--env=doom_basic", "--num_workers=2", "--num_envs_per_worker=16", "--batch_size=2048", "--rollout=32")

TASKS = {
    "cartpole": LearningTask(_GYM, ("--env=CartPole-v1", "--train_for_env_steps=250000"), 475),
    "pendulum": LearningTask(
        _GYM,
        (
            *("--env=Pendulum-v1", "--gamma=0.9", "--num_epochs=10", "--batch_size=512", "--normalize_returns=True"),
            *("--exploration_loss_coeff=0.0", "--train_for_env_steps=1000000"),
        ),
        -250,
    ),
    "lunarlander": LearningTask(
        _GYM,
        (
            *("--env=LunarLander-v3", "--gamma=0.999", "--gae_lambda=0.98", "--exploration_loss_coeff=0.005"),
            *("--num_workers=2", "--rollout=128", "--batch_size=256", "--num_batches_per_epoch=16", "--num_epochs=4"),
            *("--learning_rate=0.001", "--lr_schedule=linear_decay", "--train_for_env_steps=1500000"),
        ),
        200,
    ),
    "halfcheetah": LearningTask(
        "sf_examples.mujoco.train_mujoco",
        # The family's two epochs suit its 10 million steps.
        ("--env=mujoco_halfcheetah", "--num_epochs=6", "--train_for_env_steps=1000000"),
        1440,
    ),
    "doom_basic": LearningTask(_DOOM, (*_DOOM_BASIC, "--train_for_env_steps=2500000"), 0.75),
    "doom_defend_the_center": LearningTask(
        _DOOM, ("--env=doom_defend_the_center", *_DOOM_BASIC[1:], "--train_for_env_steps=4000000"), 10
    ),
    "doom_health_gathering": LearningTask(
        _DOOM, ("--env=doom_health_gathering", *_DOOM_BASIC[1:], "--train_for_env_steps=4000000"), 15
    ),
}

SETTINGS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "bf16": ("--precision=bf16",),
    "worker": ("--inference=worker",),
    "compile": ("--compile=True",),
    "bf16 worker": ("--precision=bf16", "--inference=worker"),
}


def run(task: LearningTask, setting: str, seed: int) -> dict[str, Any]:
    """Train once and return the curve.

    Raises:
        SystemExit: the training failed.
    """
    folder = Path(tempfile.mkdtemp(prefix="sample_profiler_learning_"))
    flags = [*task.flags, *SETTINGS[setting], f"--seed={seed}"]
    own = [f"--train_dir={folder}", "--experiment=run", "--experiment_summaries_interval=2"]
    try:
        begin_s = time.time()
        done = subprocess.run([sys.executable, "-m", task.module, *flags, *own], capture_output=True, text=True)
        wall_s = time.time() - begin_s
        if done.returncode:
            raise SystemExit(f"{' '.join(flags)} ended with status {done.returncode}:\n{done.stdout[-3000:]}")
        curve = read_curve(RunFolder(folder / "run").summary_of(0), begin_s)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"setting": setting, "seed": seed, "flags": flags, "wall_s": round(wall_s, 1), "curve": curve}


def read_curve(summary: Path, begin_s: float) -> list[list[float]]:
    """Return the curve as `[frames, seconds since begin_s, mean reward]`, thinned to at most 200 points."""
    events = EventAccumulator(str(summary), size_guidance={"scalars": 0})
    events.Reload()
    points = [[e.step, round(e.wall_time - begin_s, 2), round(e.value, 4)] for e in events.Scalars(_REWARD_TAG)]
    every = -(-len(points) // _MOST_POINTS)
    return points[:-1:every] + points[-1:]


def describe(result: dict[str, Any], threshold: float) -> str:
    """Return one line: where the curve ended, and the first of two points in a row that had passed the threshold."""
    curve = result["curve"]
    frames, _, reward = curve[-1]
    best = max(point[2] for point in curve)
    pairs = itertools.pairwise(curve)
    passed = next((point for point, following in pairs if min(point[2], following[2]) >= threshold), None)
    reached = "not reached" if passed is None else f"after {passed[0]:,.0f} frames, {passed[1]:.0f} s"
    return (
        f"{result['setting']:12} seed {result['seed']}: {reward:.4g} after {frames:,.0f} frames and "
        f"{result['wall_s']:.0f} s, best {best:.4g}; {threshold:g} {reached}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Make the runs that are not there yet, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, required=True, help="what is learned")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=["plain"], help="flags beside the task's")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="one run each")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of learning-TASK.json")
    options = parser.parse_args(argv)
    task = TASKS[options.task]
    path = options.output / f"learning-{options.task}.json"
    document: dict[str, Any] = {"machine": Machine.this().to_dict(), "threshold": task.threshold, "runs": []}
    if path.exists():
        document = json.loads(path.read_text())
    for seed in options.seeds:
        for setting in options.settings:
            if not any(each["setting"] == setting and each["seed"] == seed for each in document["runs"]):
                document["runs"].append(run(task, setting, seed))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(document) + "\n")
                print(describe(document["runs"][-1], task.threshold), flush=True)
    print(f"\n{options.task}, all runs:")
    for result in sorted(document["runs"], key=lambda result: (result["setting"], result["seed"])):
        print(describe(result, task.threshold))
    return 0


if __name__ == "__main__":
    sys.exit(main())
