"""Who gets to a return first? Ours and other frameworks on the same task and cores, each with its own tuned flags.

Each seed is a round in which all frameworks take turns (forth, back, forth, …), each run in fresh processes with
nothing else running; a run ends when the mean return of its latest 100 episodes is good enough, or when time is over.
Seconds count from the start of the process, frames are those trained on (Stable-Baselines3, SBX and CleanRL: sampled).
Peers are in virtual environments of their own; those without a flag take no part. Every run is kept in
time-to-return-TASK.jsonl as soon as it is over, with a table beside it, and the same command goes on where it stopped.
`benchmarks.measuring.frameworks.return_tasks` has the flags. `--only-table` makes no runs.

    python -m benchmarks.time_to_return --tasks cartpole --seeds 1 2 3 4 5 --sb3-python venvs/sb3/bin/python
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring.frameworks.comparison import order_of_arms
from benchmarks.measuring.frameworks.peer_runs import RESULTS, read_versions
from benchmarks.measuring.frameworks.return_runs import Installation, make_return_run
from benchmarks.measuring.frameworks.return_tasks import FRAMEWORKS, RETURN_TASKS, ReturnTask
from benchmarks.measuring.kept_runs import KeptRuns
from benchmarks.measuring.statistic import describe_range
from harness.kept_lines import describe_machine, end_when_told, read_lines
from sample_profiler.analysis.comparing.times_to import TimeTo, compare_times, median_time
from sample_profiler.reports.comparison import describe_time_to

_PEERS = FRAMEWORKS[1:]


def make_missing_runs(
    name: str, task: ReturnTask, seeds: Sequence[int], installations: Mapping[str, Installation], kept: KeptRuns
) -> None:
    """Make all runs of a task that are not there yet.

    Args:
        name: of the task.
        task: what is to be reached.
        seeds: one round each.
        installations: of the frameworks that take part.
        kept: the runs that are there.

    Raises:
        SystemExit: a run failed.
    """
    frameworks = [each for each in installations if each == "ours" or each in task.peers]
    for number, seed in enumerate(seeds):
        for framework in order_of_arms(frameworks, number):
            about = {"framework": framework, "seed": seed, "flags": list(task.flags_of(framework))}
            if any(all(run[key] == value for key, value in about.items()) for run in kept.results):
                continue
            seen = make_return_run(task, framework, seed, installations[framework])
            kept.add({**about, **seen, "versions": read_versions(Path(installations[framework].python))})
            print(f"{name}, seed {seed}, {framework}: {describe_time_to(_time_of(seen))}", flush=True)


def make_table(name: str, task: ReturnTask, setting: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the runs of a task as a page of Markdown.

    Args:
        name: of the task.
        task: what is to be reached.
        setting: of the runs, as it is kept with them.
        runs: of all frameworks and seeds.
    """
    by_framework = {each: {run["seed"]: run for run in runs if run["framework"] == each} for each in FRAMEWORKS}
    lines = [
        f"# {name}: a mean return of {task.ours.threshold:g}",
        "",
        f"{setting['machine']['processor']}, {setting['machine']['num_cpus']} cores, commit {setting['commit']}. "
        f"Given up after {task.seconds:g} s. Medians (Kaplan-Meier; lowest to highest) and every seed; seconds count "
        "from the start of the process.",
        "",
        "| framework | reached it | seconds | frames | seconds to ours | each seed, seconds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(each, by_framework) for each in FRAMEWORKS if by_framework[each]]
    lines += ["", "Flags:", ""]
    for framework, by_seed in by_framework.items():
        if by_seed:
            run = next(iter(by_seed.values()))
            versions = ", ".join(f"{package} {version}" for package, version in run["versions"].items())
            lines.append(f"- {framework} ({versions}): `{' '.join(run['flags'])}`")
    return "\n".join(lines) + "\n"


def _row(framework: str, by_framework: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> str:
    times = {seed: _time_of(run) for seed, run in sorted(by_framework[framework].items())}
    ours = {seed: _time_of(run) for seed, run in by_framework["ours"].items()}
    num_reached = sum(time.is_reached for time in times.values())
    return " | ".join(
        [
            f"| {framework}",
            f"{num_reached} of {len(times)}",
            _spread([(time.seconds, time.is_reached) for time in times.values()], 1),
            _spread([(time.frames, time.is_reached) for time in times.values()], 0),
            "" if framework == "ours" else _compare(times, ours),
            ", ".join(f"{'' if time.is_reached else '> '}{time.seconds:,.1f}" for time in times.values()) + " |",
        ]
    )


def _spread(times: Sequence[tuple[float, bool]], digits: int) -> str:
    median = median_time(times)
    reached = [time for time, is_reached in times if is_reached]
    if median is None:
        return "not half"
    return describe_range(median, min(reached), max(reached), digits)


def _compare(times: Mapping[int, TimeTo], ours: Mapping[int, TimeTo]) -> str:
    pairs = [(ours[seed], time) for seed, time in times.items() if seed in ours]
    if not pairs:
        return ""
    comparison = compare_times(pairs)
    own, other = comparison.medians
    ratio = "" if own is None or other is None else f"{other / own:.2f} ×, "
    return f"{ratio}p = {comparison.p_value:.3f}"


def _time_of(run: Mapping[str, Any]) -> TimeTo:
    return TimeTo(run["seconds"], run["frames"], is_reached=run["is_reached"])


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=RETURN_TASKS, default=["cartpole"], help="what is to be reached")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="one round each")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of time-to-return-TASK.jsonl and .md")
    parser.add_argument("--only-table", action="store_true", help="make no runs, but the table of those there are")
    for flag in ("--sb3-python", "--sbx-python", "--sample-factory-python", "--cleanrl-python"):
        parser.add_argument(flag, metavar="PYTHON", help=f"interpreter that has {flag[2:].removesuffix('-python')}")
    parser.add_argument("--cleanrl-folder", type=Path, metavar="DIR", help="a clone of CleanRL")
    options = parser.parse_args(argv)
    if (options.cleanrl_python is None) != (options.cleanrl_folder is None):
        parser.error("CleanRL takes both --cleanrl-python and --cleanrl-folder")
    return options


def _find_installations(options: argparse.Namespace) -> dict[str, Installation]:
    """Return those of all frameworks that take part, ours first."""
    given = {framework: getattr(options, f"{framework}_python") for framework in _PEERS}
    found = {"ours": Installation()}
    for framework, python in given.items():
        if python is not None:
            folder = options.cleanrl_folder if framework == "cleanrl" else Path.cwd()
            found[framework] = Installation(str(Path(python).absolute()), Path(folder).absolute())
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Make the runs that are missing, and the tables."""
    options = _parse(argv)
    end_when_told()
    installations = _find_installations(options)
    for name in options.tasks:
        task, path = RETURN_TASKS[name], options.output / f"time-to-return-{name}.jsonl"
        if not options.only_table:
            about = {"task": name, "threshold": task.ours.threshold, "seconds": task.seconds}
            print(f"{name} on {describe_machine()}", flush=True)
            make_missing_runs(name, task, options.seeds, installations, KeptRuns(path, about))
        lines = read_lines(path)
        if not lines:
            raise SystemExit(f"there are no runs in {path}")
        table = make_table(name, task, lines[0], lines[1:])
        path.with_suffix(".md").write_text(table)
        print(f"\n{table}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
