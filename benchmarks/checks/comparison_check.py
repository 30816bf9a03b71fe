"""Print how often comparisons of eight pairs err, resampled from many recorded runs; the exit status is 1 if too often.

Two settings take turns, run after run: HalfCheetah as it is, and with environments that compute so much longer that it
is some ten per cent slower. (Next to nothing is learned, and all episodes are equally long: CartPole's become longer as
it learns, now sooner and now later, and its throughput with them.) Comparisons are drawn from these runs: of each
setting with itself, where every difference that is found is an error; and of both, where none should be missed.
Neighbours in time are pairs, eight different ones a comparison, in turn as `sample-profiler compare` makes them. That
tells something only where the slower setting is slower by ten per cent, and not by thirty: on a machine on which it is
not, the check fails, too, and says which `--env_ms` would do. All runs are kept, and go on where they were interrupted.

    python -m benchmarks.checks.comparison_check --runs 60 --seconds 12
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

from benchmarks.measuring.statistic import median_ratio
from sample_profiler.analysis.comparing.comparison import compare_pairs
from sample_profiler.analysis.comparing.costs import run_costs
from sample_profiler.errors import SessionError
from sample_profiler.profiling.session.session import Session
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.machine.machine import Machine

RESULTS = Path(__file__).parents[1] / "results"
_FLAGS = (
    *("--env=slowed_halfcheetah", "--num_workers=2", "--num_envs_per_worker=16", "--batch_size=1024", "--rollout=32"),
    *("--learning_rate=1e-9", "--benchmark=True"),
)
_FIGURE = "frames/s of the steady part"
_NUM_PAIRS = 8
_NUM_COMPARISONS = 40
_MOST_ERRORS = 4
_LEAST_FOUND = 0.8
_WANTED_CHANGE = -0.1
_OTHER_CHANGE = 0.03  # of what is measured: more is another slow-down, which is found more or less often
_LEAST_RUNS = 48  # 12 pairs of each setting: 8 drawn of fewer are about the same 8 each time

Pairs = list[tuple[float, float]]


def run(seconds: float, env_ms: float) -> float:
    """Train once and return the frames per second of the steady part, which `sample-profiler compare` takes, too.

    Raises:
        SystemExit: it failed, or was over before it was steady.
    """
    with tempfile.TemporaryDirectory(prefix="sample_profiler_comparison_") as folder:
        own = [f"--train_for_seconds={seconds}", f"--train_dir={folder}", "--experiment=run"]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.measuring.runs.injected_run", *_FLAGS, *own],
            env={**os.environ, "INJECTED": json.dumps({"env_ms": env_ms, "computes": 1} if env_ms else {})},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"status {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-999:]}")
        try:
            costs = run_costs(Session.load(RunFolder(Path(folder, "run")).steady))
        except SessionError as error:
            raise SystemExit(f"{error}: give --seconds for longer runs") from error
        if costs is None:
            raise SystemExit("nothing was trained on in the steady part: give --seconds for longer runs")
        return costs.fps


def same_setting(plain: Sequence[float], slow: Sequence[float], rng: random.Random) -> list[Pairs]:
    """Draw 40 comparisons of a setting with itself, of both in turn: where any finds a difference, it errs.

    Runs of a setting that are neighbours in time are a pair, and no run is in two of them: what pairs have in common
    would look like a difference, again and again.
    """
    pairs = [_neighbours(runs) for runs in (plain, slow)]
    return [_in_turn(_draw(pairs[number % 2], rng)) for number in range(_NUM_COMPARISONS)]


def both_settings(plain: Sequence[float], slow: Sequence[float], rng: random.Random) -> list[Pairs]:
    """Draw 40 comparisons of both: runs that followed each other are pairs."""
    pairs = list(zip(plain, slow, strict=False))  # an interrupted recording has one more of the one
    return [_draw(pairs, rng) for _ in range(_NUM_COMPARISONS)]


def _neighbours(runs: Sequence[float]) -> Pairs:
    return list(zip(runs[::2], runs[1::2], strict=False))


def _draw(pairs: Pairs, rng: random.Random) -> Pairs:
    """Draw as many pairs as a comparison has, none twice, in the order of their time."""
    return [pairs[index] for index in sorted(rng.sample(range(len(pairs)), _NUM_PAIRS))]


def _in_turn(pairs: Pairs) -> Pairs:
    """Turn every second pair round, as a comparison does: A B, then B A."""
    return [pair if number % 2 == 0 else pair[::-1] for number, pair in enumerate(pairs)]


def count(comparisons: Sequence[Pairs]) -> Counter[str]:
    """Return how often each outcome comes out of them."""
    return Counter(compare_pairs(pairs).outcome for pairs in comparisons)


def find_faults(change: float, num_errors: int, share: float, env_ms: float) -> list[str]:
    """Return what is not as wanted, in words.

    Args:
        change: by which share the slower setting is slower; below 0.
        num_errors: how often a setting with itself was called different.
        share: of comparisons of both in which the difference was found.
        env_ms: what the slower setting computed in each step.
    """
    faults = []
    if abs(change - _WANTED_CHANGE) > _OTHER_CHANGE:
        wanted = f"{_WANTED_CHANGE - _OTHER_CHANGE:.0%} to {_WANTED_CHANGE + _OTHER_CHANGE:.0%} are wanted"
        faults.append(f"the slower environments changed {change:+.1%}, {wanted}: {_cure(change, env_ms)}")
    if num_errors > _MOST_ERRORS:
        faults.append(f"{num_errors} errors, at most {_MOST_ERRORS} are wanted")
    if share < _LEAST_FOUND:
        faults.append(f"{share:.0%} found, at least {_LEAST_FOUND:.0%} are wanted")
    return faults


def _cure(change: float, env_ms: float) -> str:
    """Return which flags give the slow-down that is wanted, as far as these runs tell."""
    longer = 1 / (1 + change) - 1  # a frame takes longer in proportion to what is computed
    if longer <= 0:
        return "give a larger --env_ms, with another --output"
    better = env_ms * (1 / (1 + _WANTED_CHANGE) - 1) / longer
    return f"give --env_ms={better:.2g}, with another --output"


def main(argv: Sequence[str] | None = None) -> int:
    """Make the runs that are not there yet, draw comparisons, and print how often they err."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60, help="of both settings together")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long each trains")
    parser.add_argument("--env_ms", type=float, default=0.008, help="what the slower setting computes in each step")
    parser.add_argument("--output", type=Path, default=RESULTS / "comparison-check.json", help="file of the runs")
    options = parser.parse_args(argv)
    if options.runs < _LEAST_RUNS:
        parser.error(f"--runs {options.runs}: {_LEAST_RUNS} or more are needed to draw {_NUM_PAIRS} pairs of a setting")
    setting = {
        "figure": _FIGURE,
        "seconds": options.seconds,
        "env_ms": options.env_ms,
        "flags": list(_FLAGS),
        "machine": Machine.this().to_dict(),
    }
    document = {**setting, "plain": [], "slow": []}
    if options.output.exists():
        document = json.loads(options.output.read_text())
        if any(document.get(name) != value for name, value in setting.items()):
            parser.error(f"{options.output} has another figure, or runs of another setting or machine")
    while (number := len(document["plain"]) + len(document["slow"])) < options.runs // 2 * 2:
        # Plain, slow, slow, plain: what drifts favours neither.
        name = ("plain", "slow", "slow", "plain")[number % 4]
        document[name].append(run(options.seconds, options.env_ms if name == "slow" else 0.0))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(document) + "\n")
        print(f"run {number + 1}, {name}: {document[name][-1]:,.0f} frames/s", flush=True)
    plain, slow = document["plain"], document["slow"]
    rng = random.Random(1)
    num_pairs = min(len(plain), len(slow))
    change = median_ratio(slow[:num_pairs], plain[:num_pairs]) - 1
    print(f"\n{num_pairs} pairs: slower environments {100 * change:+.1f} % (median)")
    same = count(same_setting(plain, slow, rng))
    num_errors = same["higher"] + same["lower"]
    print(f"a setting with itself: called different in {num_errors} of {_NUM_COMPARISONS} ({dict(same)})")
    both = count(both_settings(plain, slow, rng))
    share = both["lower"] / _NUM_COMPARISONS
    print(f"both: found in {100 * share:.0f} % ({dict(both)})")
    faults = find_faults(change, num_errors, share, options.env_ms)
    print(f"NOT as wanted: {'; '.join(faults)}" if faults else "as wanted")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
