"""Print throughput, start-up time and memory against the number of environments, workers and steps in a trajectory.

Each size is a run in processes of its own, one after another with nothing else running; flags are those of
`benchmarks.versus` but for the size. Some sizes are run with Sample Factory, too (`--arms ours sample_factory`). Memory
is the proportional share, which counts what processes share once, and for rollout workers also what is their own.
Every run is kept in scaling-SWEEP.json as soon as it is over.

    python -m benchmarks.scaling --sweeps games cartpoles --arms ours sample_factory --seconds 60
    python -m benchmarks.scaling --quick
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring.frameworks.comparison import first_step_s, steady_rate, whole_rate
from benchmarks.measuring.frameworks.comparison_tasks import TASKS
from benchmarks.measuring.frameworks.limits import read_limits
from benchmarks.measuring.frameworks.peer_runs import RESULTS, VENVS, Measured, run_command
from benchmarks.measuring.runs.scaling_cases import SWEEPS, Case, cases
from sample_profiler.runtime.machine.machine import Machine

_QUICK_SECONDS = 20.0
_COLUMNS = {
    "steady": "steady/s",
    "whole": "whole/s",
    "share_of_limit": "of limit",
    "first_step_s": "start, s",
    "memory_mib": "MiB",
    "per_env_mib": "MiB/env",
    "games_per_env_mib": "game, MiB",
    "worker_pss_mib": "worker",
    "worker_uss_mib": "its own",
}


def evaluate(case: Case, seen: Measured, limits: Mapping[str, float], arm: str) -> dict[str, Any]:
    """Return the figures of one run; None stands for what was not seen.

    Args:
        case: its size.
        seen: what was seen of it.
        limits: of the task, by arm.
        arm: who ran.
    """
    row: dict[str, Any] = dict.fromkeys(_COLUMNS)
    if seen.points:
        row |= {"whole": whole_rate(seen.points), "first_step_s": first_step_s(seen.points)}
        with contextlib.suppress(ValueError):  # too short for this size
            row["steady"] = steady_rate(seen.points)
        if row["steady"] is not None and arm in limits:
            row["share_of_limit"] = row["steady"] / limits[arm]
    if seen.memory is not None:
        memory = seen.memory
        row |= {"memory_mib": memory.total, "per_env_mib": memory.total / case.num_envs}
        row["games_per_env_mib"] = memory.games / case.num_envs
        if memory.workers:
            row["worker_pss_mib"], row["worker_uss_mib"] = map(statistics.fmean, zip(*memory.workers, strict=True))
    return row


def describe_header() -> str:
    """Return the first line of the table."""
    return f"{'':48}" + "".join(f"{title:>12}" for title in _COLUMNS.values())


def describe(row: Mapping[str, Any]) -> str:
    """Return one line of the table."""
    cells = ("–" if row[name] is None else _format(name, row[name]) for name in _COLUMNS)
    return f"{row['case'] + ', ' + row['arm']:48}" + "".join(f"{cell:>12}" for cell in cells)


def _format(name: str, value: float) -> str:
    if name == "share_of_limit":
        return f"{value:.0%}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.1f}"


def measure(sweep: str, options: argparse.Namespace) -> None:
    """Make the runs of a sweep, and print and write down what they come to."""
    path = options.output / f"scaling-{sweep}.json"
    document: dict[str, Any] = {
        "sweep": sweep,
        "seconds": options.seconds,
        "machine": Machine.this().to_dict(),
        "runs": [],
    }
    print(f"{sweep}, {options.seconds:g} s a run\n{describe_header()}", flush=True)
    for case in cases(sweep, options.quick):
        task = TASKS[case.task]
        limits = read_limits(options.output, case.task)
        for arm in (arm for arm in case.arms if arm in options.arms):
            flags = case.flags_from(task.flags_of(arm))
            seen = run_command(arm, task, task.arms[arm], flags, options.seconds, options.venvs)
            row = {"case": case.name, "arm": arm, "flags": flags, "load": seen.load}
            row |= evaluate(case, seen, limits, arm)
            print(describe(row), flush=True)
            document["runs"].append(row)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(document, indent=2) + "\n")
    print()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", nargs="+", choices=SWEEPS, default=list(SWEEPS), help="what grows")
    parser.add_argument("--arms", nargs="+", choices=["ours", "sample_factory"], default=["ours"], help="who runs")
    parser.add_argument("--seconds", type=float, help="how long each run trains; default: 60, with --quick 20")
    parser.add_argument("--quick", action="store_true", help="only the smallest and largest size of each sweep")
    parser.add_argument("--venvs", type=Path, default=VENVS, help="those of benchmarks.versus; for battle.cfg, too")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of scaling-SWEEP.json and limit-TASK.json")
    options = parser.parse_args(argv)
    if options.seconds is None:
        options.seconds = _QUICK_SECONDS if options.quick else 60.0
    for sweep in options.sweeps:
        measure(sweep, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
