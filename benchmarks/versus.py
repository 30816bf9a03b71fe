"""Compare our throughput with that of Sample Factory and Stable-Baselines3, on the same work.

Frameworks are installed in virtual environments of their own and take turns (forth, back, forth, …), each run in fresh
processes with nothing else running. Frames are counted when they have been trained on. Every run is kept in
versus-TASK.jsonl as soon as it is over; `--resume` goes on where a comparison was interrupted, and only makes the
tables again if nothing is missing. `benchmarks.measuring.frameworks.comparison_tasks` has the flags.

    python -m benchmarks.versus --tasks doom cartpole --rounds 5 --seconds 120
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring.alone.envs_alone import measure_both
from benchmarks.measuring.frameworks import comparison
from benchmarks.measuring.frameworks.comparison import Run, Turn
from benchmarks.measuring.frameworks.comparison_summary import summarize, to_markdown
from benchmarks.measuring.frameworks.comparison_tasks import TASKS, Task
from benchmarks.measuring.frameworks.limits import read_limits
from benchmarks.measuring.frameworks.peer_runs import (
    RESULTS,
    VENVS,
    prepare_python,
    read_versions,
    run_command,
)
from harness.kept_lines import describe_machine
from sample_profiler.runtime.machine.machine import Machine

_LEAST_SECONDS = 120.0
_LEAST_ROUNDS = 5
_ALONE_S = 10.0


@dataclass(frozen=True)
class ComparedTask:
    """One task, and how it is compared.

    Attributes:
        name: of the task.
        task: the work.
        arms: who takes turns.
        num_rounds: in which each arm has one run.
        seconds: that each run trains.
        venvs: where frameworks are installed.
        folder: of the results.
    """

    name: str
    task: Task
    arms: list[str]
    num_rounds: int
    seconds: float
    venvs: Path
    folder: Path

    @property
    def path(self) -> Path:
        """The file of all runs."""
        return self.folder / f"versus-{self.name}.jsonl"

    @property
    def is_trial(self) -> bool:
        """Whether it is too short to say anything."""
        return self.num_rounds < _LEAST_ROUNDS or self.seconds < _LEAST_SECONDS

    def make_missing_runs(self) -> None:
        """Make all runs that are not there yet.

        Raises:
            ValueError: runs are there that were made otherwise, or one was too short.
        """
        done, machine = comparison.read_runs(self.path), describe_machine()
        for arm in self.arms:
            comparison.check_is_same(done, arm, self.task.flags_of(arm), self.seconds, machine)
        for turn in comparison.turns(self.arms, self.num_rounds, done):
            run = self.make_run(turn, machine)
            comparison.append(self.path, run)
            print(
                f"{self.name}, round {turn.round}, {turn.arm}: steady {run.steady:,.0f}, whole {run.whole:,.0f} "
                f"frames/s, first step {run.first_step_s:.1f} s, {run.memory_mib:,.0f} MiB",
                flush=True,
            )

    def make_run(self, turn: Turn, machine: str) -> Run:
        """Make one run.

        Raises:
            SystemExit: it failed.
            ValueError: it was too short.
        """
        flags = self.task.flags_of(turn.arm)
        seen = run_command(turn.arm, self.task, self.task.arms[turn.arm], flags, self.seconds, self.venvs)
        memory_mib = 0.0 if seen.memory is None else seen.memory.total
        about = {"task": self.name, "flags": flags, "seconds": self.seconds, "machine": machine}
        return comparison.make_run(turn, seen.points, memory_mib, seen.load, **about)

    def summarize(self) -> dict[str, Any]:
        """Return what the runs come to; measures environments alone where they differ."""
        task, path = self.task, self.path.with_suffix(".json")
        frameworks = {task.arms[arm].framework for arm in self.arms}
        document: dict[str, Any] = {
            "task": self.name,
            "is_trial": self.is_trial,
            "seconds": self.seconds,
            "flags": {arm: task.flags_of(arm) for arm in self.arms},
            "machine": Machine.this().to_dict(),
            "versions": {name: read_versions(prepare_python(name, self.venvs)) for name in sorted(frameworks)},
        }
        bases = [arm for arm in self.arms if task.arms[arm].framework != "own"]
        limits = read_limits(self.folder, self.name)
        document |= summarize(comparison.read_runs(self.path), self.arms, bases, limits)
        if task.peer_env is not None and "sample_factory" in frameworks:
            before = json.loads(path.read_text()) if path.exists() else {}
            document["envs_alone"] = before.get("envs_alone") or measure_both(task, _ALONE_S, self.venvs)
        return document

    def write(self, document: dict[str, Any]) -> None:
        """Write and print a summary."""
        self.path.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
        text = describe(document)
        self.path.with_suffix(".md").write_text(text)
        print(f"\n{text}", flush=True)


def describe(document: dict[str, Any]) -> str:
    """Return a summary as a page of Markdown."""
    machine = ", ".join(f"{key} {value}" for key, value in document["machine"].items())
    lines = [f"# {document['task']}", "", f"{machine}; {document['seconds']:g} s a run.", ""]
    if document["is_trial"]:
        least = f"{_LEAST_ROUNDS} rounds of {_LEAST_SECONDS:g} s"
        lines += [f"A trial, not a result: for that it takes {least}.", ""]
    for framework, versions in document["versions"].items():
        lines.append(f"- {framework}: {', '.join(f'{name} {version}' for name, version in versions.items())}")
    lines += ["", *(f"- {arm}: `{' '.join(flags)}`" for arm, flags in document["flags"].items())]
    lines += ["", "Medians (lowest to highest); ratios with 95 % bootstrap intervals over pairs of a round.", ""]
    lines.append(to_markdown(document))
    if "envs_alone" in document:
        lines += ["", "Environment alone, random actions, all cores, steps/s, in turn:", ""]
        for name, rates in document["envs_alone"].items():
            lines.append(f"- {name}: {', '.join(f'{rate:,.0f}' for rate in rates)}")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Make the runs and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="what is compared")
    parser.add_argument("--arms", nargs="+", help="compare these alone; default: all of a task")
    parser.add_argument("--rounds", type=int, default=_LEAST_ROUNDS, help="runs of each arm")
    parser.add_argument("--seconds", type=float, default=_LEAST_SECONDS, help="how long each run trains")
    parser.add_argument("--venvs", type=Path, default=VENVS, help="where frameworks are installed")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of versus-TASK.jsonl, .json and .md")
    parser.add_argument("--resume", action="store_true", help="keep the runs that are in --output, make the others")
    options = parser.parse_args(argv)
    known = {arm for name in options.tasks for arm in TASKS[name].arms}
    if unknown := set(options.arms or ()) - known:
        parser.error(f"--arms {' '.join(sorted(unknown))}: these tasks have {', '.join(sorted(known))}")
    comparisons = []
    for name in options.tasks:
        arms = [arm for arm in TASKS[name].arms if options.arms is None or arm in options.arms]
        each = ComparedTask(name, TASKS[name], arms, options.rounds, options.seconds, options.venvs, options.output)
        if each.path.exists() and not options.resume:
            parser.error(f"{each.path} has runs already: go on with --resume, or begin anew in another --output")
        comparisons.append(each)
    for each in comparisons:
        if each.is_trial:
            print(f"Less than {_LEAST_ROUNDS} rounds of {_LEAST_SECONDS:g} s are a trial, not a result.", flush=True)
        try:
            each.make_missing_runs()
        except ValueError as error:
            raise SystemExit(str(error)) from error
        each.write(each.summarize())
    return 0


if __name__ == "__main__":
    sys.exit(main())
