"""Print how fast a run could be at most on this machine: its parts alone, on all cores, and the limit composed of them.

The parts are the environment with random actions at the run's render size, inference at the run's own batch size
(normalization, network, drawing actions), and training on the run's own minibatches (normalization, network, losses,
optimizer). What a step costs in core-seconds adds up; the cores divided by the sum are the frames per second that the
hardware allows for, if nothing else cost anything and no core ever waited. `benchmarks.versus` and `benchmarks.scaling`
tell each run's share of it.

    python -m benchmarks.limit --task doom
    python -m benchmarks.limit --task doom --arms ours --precision bf16 --inference_rows 32
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring.alone.envs_alone import measure_alone
from benchmarks.measuring.alone.part_costs import Setting, count_inference_rows, measure_inference, measure_training
from benchmarks.measuring.frameworks.comparison_tasks import TASKS
from benchmarks.measuring.frameworks.limits import PARTS, compose, limit_path
from benchmarks.measuring.frameworks.peer_runs import RESULTS, VENVS, fill_scenario
from benchmarks.measuring.runs.families import make_family_config
from sample_profiler.run.layout.blueprint import frames_per_step
from sample_profiler.runtime.machine.machine import Machine, usable_cpus

_ENVS_PER_PROCESS = 8


def measure(setting: Setting) -> dict[str, float]:
    """Return the core-seconds that a step takes in each part, and the composed limit in frames per second."""
    config, num_cores = make_family_config(setting.env, setting.flags), len(usable_cpus())
    parts = {
        "environment": num_cores / sum(measure_alone(config, setting.seconds, num_cores, _ENVS_PER_PROCESS)),
        "inference": measure_inference(setting),
        "training": measure_training(setting),
    }
    limit = compose(parts, num_cores, frames_per_step(config))
    return {**parts, "inference_rows": count_inference_rows(setting), "limit": limit}


def describe(name: str, parts: dict[str, float]) -> str:
    """Return one line."""
    costs = ", ".join(f"{part} {parts[part] * 1e6:,.1f}" for part in PARTS)
    return f"{name}: core-µs a step: {costs}; limit {parts['limit']:,.0f} frames/s"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, required=True, help="of benchmarks.versus")
    parser.add_argument("--arms", nargs="+", help="of ours, these alone")
    parser.add_argument("--precision", choices=["fp32", "bf16"], help="instead of that of the arm")
    parser.add_argument("--inference_rows", type=int, help="steps in a batch of inference, instead of the task's")
    parser.add_argument("--seconds", type=float, default=15.0, help="for each part")
    parser.add_argument("--venvs", type=Path, default=VENVS, help="those of benchmarks.versus")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of limit-TASK.json")
    options = parser.parse_args(argv)
    task, path = TASKS[options.task], limit_path(options.output, options.task)
    own = [name for name, arm in task.arms.items() if arm.framework == "own"]
    if unknown := set(options.arms or ()) - set(own):
        parser.error(f"--arms {' '.join(sorted(unknown))}: of ours there are {', '.join(own)}")
    document: dict[str, Any] = {"task": options.task, "machine": Machine.this().to_dict(), "arms": {}}
    if path.exists():  # arms that are not measured again stay
        document["arms"] = json.loads(path.read_text())["arms"]
    for arm in options.arms or own:
        # Behind the task's own flags a list of numbers may be the last: what is added comes first.
        flags, name = task.flags_of(arm), arm
        if options.precision:
            flags = [f"--precision={options.precision}", *(f for f in flags if not f.startswith("--precision="))]
            name += f", {options.precision}"
        rows = options.inference_rows or task.inference_rows
        if options.inference_rows:
            name += f", inference of {rows}"
        setting = Setting(task.env, tuple(fill_scenario(flags, options.venvs)), options.seconds, rows)
        document["arms"][name] = parts = measure(setting)
        print(describe(name, parts), flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
