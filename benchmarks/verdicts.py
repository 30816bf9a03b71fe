"""Does the verdict name the true cause? One thing after another is made slow on purpose, in real runs, in random order.

    python -m benchmarks.verdicts --rounds 5 --seconds 25

Every run is kept in results/verdicts.jsonl as soon as it is over, and the same command goes on behind the last one that
is there; the table counts right verdicts by cause. The exit status is 1 if fewer than 95 % of the verdicts are right
or fewer than 80 % of the predictions hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sample_profiler.cli.report import load_report
from sample_profiler.reports.run_report import RunReport
from sample_profiler.reports.verdict import verdict_to_dict
from sample_profiler.runtime.machine import Machine

RESULTS = Path(__file__).parent / "results"
_FLAGS = ("--num_workers=2", "--num_envs_per_worker=16", "--batch_size=1024", "--rollout=32")
_MANY_WORKERS = ("--num_workers=8", "--num_envs_per_worker=2", "--num_batches_to_accumulate=1")
_LEAST_RIGHT, _LEAST_HELD = 0.95, 0.8
_FLAG = re.compile(r"--\w+=\S+")


@dataclass(frozen=True)
class Case:
    """One injected cause.

    Attributes:
        right: verdicts that are right about it.
        injected: what `benchmarks.measuring.injected_run` slows.
        flags: beside the usual ones.
    """

    right: tuple[str, ...]
    injected: dict[str, float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


CASES = {
    "environments slow": Case(("environments",), {"env_ms": 1.0}),
    "one environment of 32 slow": Case(("slow environment",), {"one_env": 5, "one_env_ms": 8.0}),
    "one worker slow": Case(("slow worker",), {"one_worker": 1, "one_worker_ms": 1.0}),
    "inference slow": Case(("inference",), {"inference_ms": 10.0}),
    "learner slow": Case(("learner",), {"learner_ms": 300.0}),
    # Memory is laid out for the batch and dealt out to the workers: only some of eight are too few to fill one.
    "batch as large as the buffers": Case(
        ("buffers",),
        {"slow_workers_from": 3, "slow_workers_ms": 20.0},
        _MANY_WORKERS,
    ),
    # A worker is slow beside the median of the others: five slow ones of eight, as above, are the rule among
    # themselves, four are not.
    "half of the workers slow": Case(
        ("slow worker",), {"slow_workers_from": 4, "slow_workers_ms": 20.0}, _MANY_WORKERS
    ),
    "sampling and training take turns": Case(("taking turns",), {}, ("--batch_size=8192", "--async_rl=False")),
    "too many threads": Case(("too many threads",), {"learner_threads": 24}),
    "tiny inference batches": Case(("small inference batches",), {}, ("--num_envs_per_worker=2",)),
    "nothing wrong": Case(("balanced", "processor")),
}


def run(name: str, seconds: float, *, follows: bool) -> dict[str, Any]:
    """Train once and return the verdict beside what was injected.

    Args:
        name: of the case.
        seconds: how long to train.
        follows: whether to train again as the first advice says, and to look whether its prediction holds. Advice in
            words is nothing that can be tried: it is kept as such.
    """
    case = CASES[name]
    report = _train(case.injected, case.flags, seconds)
    verdict = report.verdict
    result = {
        "case": name,
        "is_right": verdict.cause in case.right,
        "verdict": verdict_to_dict(verdict),
        "loads": _loads(report),
    }
    predicted = next((advice for advice in verdict.advice if advice.fps is not None), None)
    if follows and predicted is not None and predicted.fps is not None:
        flags = setting_of(predicted.change)
        if flags is None:
            return result | {"no_setting": predicted.change}
        fps = _train(case.injected, (*case.flags, *flags), seconds).facts.fps
        low, high = predicted.fps
        result["followed"] = {
            "change": predicted.change,
            "fps": fps,
            "is_in_range": fps is not None and low <= fps <= high,
        }
    return result


def setting_of(change: str) -> tuple[str, ...] | None:
    """Return the flags that an advice asks for.

    Args:
        change: such as "--batch_size=512 --rollout=64".

    Returns:
        None where it is in words, which somebody has to think about.
    """
    words = change.split()
    return tuple(words) if words and all(_FLAG.fullmatch(word) for word in words) else None


def _train(injected: dict[str, float], own_flags: tuple[str, ...], seconds: float) -> RunReport:
    with tempfile.TemporaryDirectory(prefix="sample_profiler_verdicts_") as folder:
        flags = [*_FLAGS, *own_flags, f"--train_for_seconds={seconds}", f"--train_dir={folder}", "--experiment=run"]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.measuring.injected_run", *flags],
            env={**os.environ, "INJECTED": json.dumps(injected)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(
                f"{injected} {own_flags}: status {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-999:]}"
            )
        return load_report(Path(folder) / "run")


def _loads(report: RunReport) -> dict[str, Any]:
    return {
        load.name: {"busy": round(load.busy, 3), "waits": {k: round(v, 3) for k, v in load.waits.items()}}
        | {"cpu": load.cpu and round(load.cpu, 2), "starved": load.starved and round(load.starved, 2)}
        for load in report.facts.components
    } | {"machine": report.facts.machine_busy}


def _kept(path: Path, setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of earlier calls.

    Raises:
        SystemExit: they are of another setting.
    """
    if not path.exists():
        return []
    first, *lines = path.read_text().splitlines() or ["null"]
    if json.loads(first) != setting:
        raise SystemExit(f"{path} has runs of another machine or with other arguments: give another --output")
    return [json.loads(line) for line in lines]


def _describe(result: dict[str, Any]) -> str:
    verdict = result["verdict"]
    text = f"{'right' if result['is_right'] else 'WRONG'}: {result['case']}: {verdict['cause']}: {verdict['headline']}"
    if followed := result.get("followed"):
        low, high = next(advice["fps"] for advice in verdict["advice"] if advice["fps"])
        text += f"\n  {followed['change']}: {low:,.0f} to {high:,.0f} predicted, {followed['fps']:,.0f} seen"
    if "no_setting" in result:
        text += f"\n  {result['no_setting']}: no setting, so not followed"
    return text


def find_faults(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return which shares are too small, in words."""
    right = [result["is_right"] for result in results]
    held = [result["followed"]["is_in_range"] for result in results if "followed" in result]
    shares = (("verdicts are right", right, _LEAST_RIGHT), ("predictions held", held, _LEAST_HELD))
    return [
        f"{sum(good)} of {len(good)} {what}, {least:.0%} are wanted"
        for what, good, least in shares
        if sum(good) < least * len(good)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run all cases; the exit status tells whether enough verdicts are right, and enough predictions hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each case")
    parser.add_argument("--seconds", type=float, default=25.0, help="how long each run trains")
    parser.add_argument("--follow", action="store_true", help="run again as advised: does the prediction hold?")
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES), help="default: all")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--output", type=Path, default=RESULTS / "verdicts.jsonl", help="file of the runs")
    options = parser.parse_args(argv)
    order = [name for name in options.cases for _ in range(options.rounds)]
    random.Random(options.seed).shuffle(order)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    arguments = {"seconds": options.seconds, "follow": options.follow, "order": order}
    setting = {"machine": Machine.this().to_dict()} | arguments
    results = _kept(options.output, setting)
    with options.output.open("a") as file:
        if not results and not file.tell():
            file.write(json.dumps(setting) + "\n")
        for name in order[len(results) :]:
            results.append(run(name, options.seconds, follows=options.follow))
            print(_describe(results[-1]), flush=True)
            file.write(json.dumps(results[-1]) + "\n")
            file.flush()
    for name in options.cases:
        right = [result["is_right"] for result in results if result["case"] == name]
        print(f"{name}: {sum(right)} of {len(right)}")
    followed = [result["followed"]["is_in_range"] for result in results if "followed" in result]
    if followed:
        print(f"predictions that held: {sum(followed)} of {len(followed)}")
    if in_words := sum("no_setting" in result for result in results):
        print(f"predictions that nothing was tried for, since their advice is no setting: {in_words}")
    print(f"all: {sum(result['is_right'] for result in results)} of {len(results)}")
    faults = find_faults(results)
    print(f"NOT as wanted: {'; '.join(faults)}" if faults else "as wanted")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
