"""Print how often comparisons of eight pairs err, resampled from many recorded runs.

Two settings take turns, run after run: CartPole as it is, and with environments that compute so much longer that it is
some ten per cent slower. Comparisons are drawn from these runs: of a setting with itself (neighbours in time are pairs,
in an order that chance decides), where every difference that is found is an error; and of both, where none should be
missed. All runs are kept, and go on where they were interrupted.

    python -m benchmarks.comparison_check --runs 60 --seconds 12
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from sample_profiler.analysis.comparison import compare_pairs
from sample_profiler.runtime.machine import Machine

RESULTS = Path(__file__).parent / "results"
_FLAGS = ("--num_workers=2", "--num_envs_per_worker=16", "--batch_size=1024", "--rollout=32", "--benchmark=True")
_NUM_PAIRS = 8
_NUM_COMPARISONS = 40
_MOST_ERRORS = 4
_LEAST_FOUND = 0.8


def run(seconds: float, env_ms: float) -> float:
    """Train once and return the frames per second over the last 75 % of the frames.

    Raises:
        SystemExit: it failed.
    """
    with tempfile.TemporaryDirectory(prefix="sample_profiler_comparison_") as folder:
        own = [f"--train_for_seconds={seconds}", f"--train_dir={folder}", "--experiment=run"]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.measuring.injected_run", *_FLAGS, *own],
            env={**os.environ, "INJECTED": json.dumps({"env_ms": env_ms, "computes": 1} if env_ms else {})},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"status {done.returncode}:\n{done.stdout[-3000:]}")
        return float(json.loads(Path(folder, "run", "benchmark.json").read_text())["steady_fps"])


def draw_same(runs: Sequence[float], rng: random.Random) -> list[tuple[float, float]]:
    """Draw pairs of neighbouring runs of one setting."""
    begin = rng.randrange(2)
    neighbours = list(zip(runs[begin::2], runs[begin + 1 :: 2], strict=False))
    return [pair if rng.random() < 0.5 else pair[::-1] for pair in rng.sample(neighbours, _NUM_PAIRS)]


def draw_both(plain: Sequence[float], slow: Sequence[float], rng: random.Random) -> list[tuple[float, float]]:
    """Draw pairs of one run of each setting that followed each other."""
    return rng.sample(list(zip(plain, slow, strict=True)), _NUM_PAIRS)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the runs that are not there yet, draw comparisons, and print how often they err."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60, help="of both settings together")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long each trains")
    parser.add_argument("--env_ms", type=float, default=0.005, help="what the slower setting computes in each step")
    parser.add_argument("--output", type=Path, default=RESULTS / "comparison-check.json", help="file of the runs")
    options = parser.parse_args(argv)
    if options.runs < 4 * _NUM_PAIRS:
        parser.error(f"--runs: {4 * _NUM_PAIRS} or more are needed to draw {_NUM_PAIRS} pairs of one setting")
    setting = {"seconds": options.seconds, "env_ms": options.env_ms, "machine": Machine.this().to_dict()}
    document = {**setting, "plain": [], "slow": []}
    if options.output.exists():
        document = json.loads(options.output.read_text())
        if any(document[name] != value for name, value in setting.items()):
            parser.error(f"{options.output} has runs of another setting or machine")
    while (number := len(document["plain"]) + len(document["slow"])) < options.runs // 2 * 2:
        # Plain, slow, slow, plain: what drifts favours neither.
        name = ("plain", "slow", "slow", "plain")[number % 4]
        document[name].append(run(options.seconds, options.env_ms if name == "slow" else 0.0))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(document) + "\n")
        print(f"run {number + 1}, {name}: {document[name][-1]:,.0f} frames/s", flush=True)
    plain, slow = document["plain"], document["slow"]
    rng = random.Random(1)
    change = median(b / a for a, b in zip(plain, slow, strict=True)) - 1
    print(f"\n{len(plain)} pairs: slower environments {100 * change:+.1f} % (median)")
    same = Counter(compare_pairs(draw_same(plain, rng)).outcome for _ in range(_NUM_COMPARISONS))
    num_errors = same["higher"] + same["lower"]
    print(f"a setting with itself: called different in {num_errors} of {_NUM_COMPARISONS} ({dict(same)})")
    both = Counter(compare_pairs(draw_both(plain, slow, rng)).outcome for _ in range(_NUM_COMPARISONS))
    share = both["lower"] / _NUM_COMPARISONS
    print(f"both: found in {100 * share:.0f} % ({dict(both)})")
    is_good = num_errors <= _MOST_ERRORS and share >= _LEAST_FOUND
    print("as wanted" if is_good else f"NOT as wanted: at most {_MOST_ERRORS} errors, {_LEAST_FOUND:.0%} found")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
