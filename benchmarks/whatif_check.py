"""Is what `sample-profiler whatif` says true? Slow a stage, ask what a faster one would give, and make it faster.

For each stage one run has something added to it, by computing, by waiting or by both. On that run the stage's weight is
measured as the command does; a second run has nothing added, which says how many times as fast the stage becomes and
what that really gives. Both count the steps of environments per second.

    python -m benchmarks.whatif_check --rounds 3
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from sample_profiler.analysis.facts import RunFacts
from sample_profiler.analysis.whatif import STAGE_BLOCKS, ceiling, gain, stage_weight
from sample_profiler.cli.whatif import look, measure_pairs
from sample_profiler.errors import SessionError
from sample_profiler.profiling.session import read_live
from sample_profiler.runtime.control_socket import ControlClient

_FLAGS = ("--num_workers=2", "--num_envs_per_worker=16", "--batch_size=1024", "--rollout=32")
_SHARE = 0.5
_WARM_UP_S = 15.0


@dataclass(frozen=True)
class Case:
    """A stage and what is added to it, in the terms of `benchmarks.measuring.injected_run`."""

    stage: str
    injected: dict[str, float]


CASES = {
    "env computes": Case("env", {"env_ms": 0.03, "computes": 1}),
    "inference computes": Case("inference", {"inference_ms": 0.4, "computes": 1}),
    "learner computes": Case("learner", {"learner_ms": 15.0, "computes": 1}),
    "env waits": Case("env", {"env_ms": 0.5}),
    "inference waits": Case("inference", {"inference_ms": 5.0}),
    "learner waits": Case("learner", {"learner_ms": 80.0}),
    # As environments do that have a process of their own, and training on a GPU.
    "env does both": Case("env", {"env_ms": 0.4, "computes": 0.4}),
    "learner does both": Case("learner", {"learner_ms": 60.0, "computes": 0.4}),
}


@contextlib.contextmanager
def live_run(injected: dict[str, float]) -> Iterator[Path]:
    """Train with something added to a stage; yields the run's folder once it has warmed up."""
    with tempfile.TemporaryDirectory(prefix="sample_profiler_whatif_") as folder:
        flags = [*_FLAGS, f"--train_dir={folder}", "--experiment=run"]
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.measuring.injected_run", *flags],
            env={**os.environ, "INJECTED": json.dumps(injected)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(_WARM_UP_S)
            read_live(Path(folder) / "run")  # a run that has not begun is an error here
            yield Path(folder) / "run"
        finally:
            process.terminate()
            process.wait(60)


def seconds_per_pass(facts: RunFacts, stage: str) -> float:
    """Return how long a stage takes, averaged over the components that have it."""
    blocks = STAGE_BLOCKS[stage]
    times = [load.seconds_per_pass(blocks[load.kind]) for load in facts.components if load.kind in blocks]
    return fmean(each for each in times if each)


def steps_per_second(facts: RunFacts) -> float:
    """Return how many groups of environments were stepped per second."""
    return sum(load.counts.get("env_step", 0) for load in facts.workers) / facts.seconds


def check(case: Case, seconds: float, rounds: int) -> tuple[float, float, float]:
    """Return by which shares throughput was to grow, did grow, and how many times as fast the stage became."""
    with live_run(case.injected) as folder, contextlib.closing(ControlClient(folder / "profile")) as client:
        slow = look(folder, seconds)
        measured = measure_pairs(client, folder, [case.stage], _SHARE, seconds, 1.0, rounds)
        pairs = [(base, slowed) for _, base, slowed in measured]
    with live_run({}) as folder:
        fast = look(folder, 2 * seconds)
    speedup = seconds_per_pass(slow, case.stage) / seconds_per_pass(fast, case.stage)
    weight = stage_weight(case.stage, pairs, _SHARE).weight
    predicted = min(gain(weight, speedup), ceiling(slow, case.stage, speedup).gain)
    return predicted, steps_per_second(fast) / steps_per_second(slow) - 1, speedup


def main(argv: Sequence[str] | None = None) -> int:
    """Check the cases and print them; the exit status is 1 if one is off by more than ten points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES), help="default: all")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each stage")
    options = parser.parse_args(argv)
    worst = 0.0
    for name in options.cases:
        try:
            predicted, seen, speedup = check(CASES[name], options.seconds, options.rounds)
        except SessionError as error:
            raise SystemExit(f"{name}: {error}") from error
        worst = max(worst, abs(predicted - seen))
        print(
            f"{name}: made {speedup:.2f} x as fast: {100 * predicted:+.0f} % predicted, {100 * seen:+.0f} % seen",
            flush=True,
        )
    print(f"largest difference: {100 * worst:.0f} points")
    return int(worst > 0.1)


if __name__ == "__main__":
    sys.exit(main())
