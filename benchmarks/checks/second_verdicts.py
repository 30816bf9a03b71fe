"""Is it named what changes over the time of a run, and what keeps it from learning? Both on purpose, in real runs.

    python -m benchmarks.checks.second_verdicts --rounds 5

Every run is kept in results/second_verdicts.jsonl as soon as it is over, and the same command goes on behind the last
one that is there. Where nothing is spoilt, nothing is to be said. The exit status is 1 if fewer than 95 % are right.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring.kept_runs import KeptRuns
from benchmarks.measuring.runs.drifting_run import BEGIN_S
from sample_profiler.reports.run_report.loading import load_report
from sample_profiler.reports.run_report.text import format_verdicts

RESULTS = Path(__file__).parents[1] / "results"
_FLAGS = ("--num_workers=2", "--num_envs_per_worker=8", "--rollout=32", "--batch_size=512", "--device=cpu")
_LEAST_RIGHT = 0.95
_DRIFTING_S, _SPOILT_S = 75.0, 30.0
_START_S = 5.0  # of a run, until its environments step
_NEIGHBOUR = "while True: pass"


@dataclass(frozen=True)
class Case:
    """Something that changes, or is spoilt.

    Attributes:
        right: causes that are right; empty: nothing is to be said.
        drifts: what `benchmarks.measuring.runs.drifting_run` is told; empty: it is `spoilt_run` that is run.
        spoilt: what that one is told.
        flags: beside the usual ones.
        names: what is said somewhere, too.
        neighbours: programs that begin in between.
    """

    right: tuple[str, ...]
    drifts: str = ""
    spoilt: str = "nothing"
    flags: tuple[str, ...] = ()
    names: str = ""
    neighbours: int = 0


CASES = {
    "nothing drifts": Case((), "nothing"),
    "a worker leaks": Case(("memory leak",), "leak", names="RolloutWorker_w1"),
    "steps four times as long at once": Case(("environments",), "at once", names="all workers"),
    "steps four times as long within a minute": Case(("environments",), "within a minute", names="all workers"),
    "steps of one worker of four": Case(
        ("slow worker",), "one worker", flags=("--num_workers=4",), names="RolloutWorker_w1"
    ),
    "steps dearer by the return": Case(("episodes", "environments"), "by the return", flags=("--learning_rate=0.002",)),
    "a Learner that looks through a list": Case(("learner",), "learner", names="forward_head"),
    "a neighbour": Case(("another program",), "nothing", neighbours=os.cpu_count() or 1),
    "nothing spoilt": Case(()),
    "learning rate x 100": Case(("learning rate",), flags=("--learning_rate=0.03", "--num_epochs=2")),
    "a large input": Case(("large inputs",), spoilt="large input", flags=("--normalize_input=False",)),
    "entropy 0.5": Case(("too much exploration",), flags=("--exploration_loss_coeff=0.5",)),
    "gamma 0.5": Case(("short horizon",), flags=("--gamma=0.5",)),
    "rewards clipped": Case(("clipped rewards",), flags=("--reward_clip=1e-6",)),
    "equal seeds": Case(("equal seeds",), spoilt="equal seeds"),
    "aliasing": Case(("unchanged observations", "dead inputs"), spoilt="aliasing"),
    "lag": Case(
        ("stale data",),
        flags=("--num_envs_per_worker=128", "--batch_size=256", "--num_batches_to_accumulate=60"),
    ),
}


def run(name: str) -> dict[str, Any]:
    """Train once, and return what was said beside whether it is right.

    Args:
        name: of the case.
    """
    case = CASES[name]
    with tempfile.TemporaryDirectory(prefix="sample_profiler_second_verdicts_") as folder:
        _train(case, Path(folder))
        report = load_report(Path(folder) / "run")
    said = [*(trend.cause for trend in report.trends), *(problem.cause for problem in report.learning)]
    text = format_verdicts(report)
    is_right = bool(set(said) & set(case.right)) and case.names in text if case.right else not said
    return {"case": name, "is_right": is_right, "said": said, "text": text, "fps": report.facts.fps}


def _train(case: Case, folder: Path) -> None:
    module, seconds = ("drifting_run", _DRIFTING_S) if case.drifts else ("spoilt_run", _SPOILT_S)
    flags = [*_FLAGS, *case.flags, f"--train_for_seconds={seconds}", f"--train_dir={folder}", "--experiment=run"]
    with (folder / "output").open("w") as output:
        training = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.measuring.{module}", *flags],
            env={**os.environ, "DRIFTS": case.drifts, "SPOILT": case.spoilt},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        neighbours: list[subprocess.Popen[bytes]] = []
        try:
            if case.neighbours:
                time.sleep(_START_S + BEGIN_S)
                neighbours = [subprocess.Popen([sys.executable, "-c", _NEIGHBOUR]) for _ in range(case.neighbours)]
            status = training.wait()
        finally:
            for neighbour in neighbours:
                neighbour.kill()
                neighbour.wait()
    if status:
        raise SystemExit(f"{case}: status {status}:\n{(folder / 'output').read_text()[-3000:]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run all cases; the exit status tells whether enough of them were named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each case")
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES), help="default: all")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--output", type=Path, default=RESULTS / "second_verdicts.jsonl", help="file of the runs")
    options = parser.parse_args(argv)
    order = [name for name in options.cases for _ in range(options.rounds)]
    random.Random(options.seed).shuffle(order)
    kept = KeptRuns(options.output, {"order": order})
    for name in order[len(kept.results) :]:
        kept.add(result := run(name))
        print(f"{'right' if result['is_right'] else 'WRONG'}: {name}: {json.dumps(result['said'])}", flush=True)
    for name in options.cases:
        right = [result["is_right"] for result in kept.results if result["case"] == name]
        print(f"{name}: {sum(right)} of {len(right)}")
    num_right = sum(result["is_right"] for result in kept.results)
    print(f"all: {num_right} of {len(kept.results)}")
    return int(num_right < _LEAST_RIGHT * len(kept.results))


if __name__ == "__main__":
    sys.exit(main())
