"""Breaks runs in every way and place, and keeps what came of each case: whether they survive, or end as they have to.

The cases are those of `harness/fault_cases.py`, each a run of its own that is watched by `harness/faults.py`. Every
case adds a line to the results as soon as it is over, also when it could not be played to its end. Cases that are there
are not made again, so the same command goes on where it was ended, by --seconds or at any moment; --again makes those
that had problems once more. A case after which the run is slower, and nothing else is wrong, is played three
times, and the median decides. The table is printed at the end and written beside the results.

Exit status 0: all cases are there, without problems; 1: some have problems; 3: none has, but some are not there yet.

    python -m benchmarks.fault_matrix --rounds 3 --seconds 3000
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measuring.fault_table import (
    Key,
    decide,
    describe_missing,
    describe_throughput,
    is_only_slow,
    key_of,
    to_table,
)
from benchmarks.measuring.frameworks.peer_runs import RESULTS
from harness.fault_cases import FAULTS, KILLS_OF_WORKERS, MODES, NUM_ROUNDS, SIGNAL_MODES, VICTIMS, Plan, all_plans
from harness.faults import Case, Undisturbed, run_case
from harness.kept_lines import append_line, describe_origin, end_when_told, read_lines, tell_origins

_LONGEST_CASE_S = 400.0  # with an undisturbed run before it, and all patience that its steps have
_MOST_PLAYS = 3  # of a case whose only problem is throughput


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in what is done meanwhile when the time is up.

    Args:
        seconds: from now.
    """

    def fail(*_: object) -> None:
        raise TimeoutError(f"the case was not over after {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, fail)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def play(plan: Plan, undisturbed: Undisturbed | None) -> Case:
    """Run one case in a folder of its own, and for a limited time."""
    folder = tempfile.TemporaryDirectory(prefix="sample_profiler_faults_", ignore_cleanup_errors=True)
    with folder as name, time_limit(_LONGEST_CASE_S):
        case = run_case(plan, Path(name), undisturbed)
    case.output = case.output.replace(name, "TRAIN_DIR")  # results do not tell of this machine's folders
    return case


def choose(wanted: Sequence[Plan], kept: dict[Key, Any], *, again: bool) -> list[Plan]:
    """Return the cases that are to be made.

    Args:
        wanted: all of them.
        kept: what was decided of each case that is there.
        again: whether those with problems are made once more, after the others.
    """
    missing = [plan for plan in wanted if key_of(plan) not in kept or not is_decided(kept[key_of(plan)])]
    bad = [plan for plan in wanted if plan not in missing and kept[key_of(plan)]["problems"]]
    return missing + (bad if again else [])


def is_decided(line: dict[str, Any]) -> bool:
    """Tell whether a case has been played often enough.

    Args:
        line: from `decide`.
    """
    if line["problems"] and not is_only_slow(line):
        return True
    # One play that was quick enough, or all of them: playing on until the median is kind would be chance's choice.
    num_plays = len(line["ratios"])
    return num_plays >= _MOST_PLAYS or (num_plays <= 1 and not line["problems"])


def make_cases(plans: Sequence[Plan], seconds: float, path: Path, undisturbed: Undisturbed | None) -> None:
    """Make cases until the time is up, and keep each play."""
    origin, begin_s = describe_origin(), time.monotonic()
    for plan in plans:
        for _ in range(_MOST_PLAYS):
            if time.monotonic() - begin_s >= seconds:
                return
            line = play(plan, undisturbed).to_dict() | origin
            append_line(path, line)
            print(describe(line), flush=True)
            if is_decided(decide(read_lines(path))[key_of(plan)]):
                break


def describe(line: dict[str, Any]) -> str:
    """Return what came of one case in words."""
    seen = [f"{name} after {line[key]:.1f} s" for name, key in (("ended", "ended_s"), ("back", "back_s")) if line[key]]
    if line["throughput"] is not None:
        windows = [" and ".join(f"{fps:,.0f}" for fps in line[name]) for name in ("before_fps", "again_fps")]
        undisturbed = ", then ".join(filter(None, windows))
        seen.append(f"{line['after_fps']:,.0f} frames/s, undisturbed {undisturbed}: {line['throughput']:.2f}")
    begin = f"{line['fault']} {line['victim']}, {line['mode']}, {line['environment']}, {line['number']}: "
    problems = [f"\n  {kind}: {text}" for kind, text in line["problems"]]
    return begin + ", ".join([*seen, "as it has to be" if not problems else "FAILED"]) + "".join(problems)


def summarize(wanted: Sequence[Plan], lines: Sequence[dict[str, Any]]) -> tuple[str, int]:
    """Return what all lines come to, as a page of Markdown, and the exit status."""
    keys = {key_of(plan) for plan in wanted}
    kept = {key: line for key, line in decide(lines).items() if key in keys}
    num_bad = sum(bool(line["problems"]) for line in kept.values())
    texts = [to_table(kept.values()), describe_throughput(kept.values()), describe_missing(wanted, kept)]
    plays = [line for line in lines if key_of(line) in keys]
    if len(plays) > len(kept):
        num_failed = sum(bool(line["problems"]) and not is_only_slow(line) for line in plays)
        num_failed -= sum(bool(line["problems"]) and not is_only_slow(line) for line in kept.values())
        texts.append(
            f"{len(plays) - len(kept)} plays are beside the latest of a case; {num_failed} of them failed for other "
            "reasons than throughput, and do not count"
        )
    texts += [tell_origins(plays), f"{num_bad} cases have problems" if num_bad else "No case has problems"]
    return "\n\n".join(texts) + "\n", 1 if num_bad else 0 if len(kept) == len(keys) else 3


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=NUM_ROUNDS, help="moments for each case")
    parser.add_argument("--kills", type=int, default=KILLS_OF_WORKERS, help="moments for killed RolloutWorkers")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS, help="default: all")
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=VICTIMS, help="default: all")
    parser.add_argument("--transport", choices=("pipe", "fifo"), default="pipe", help="of the runs' messages")
    parser.add_argument("--modes", nargs="+", choices=(*MODES, *SIGNAL_MODES), help="default: all of the transport")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after this time")
    parser.add_argument("--again", action="store_true", help="make cases that had problems once more")
    parser.add_argument("--no_throughput", action="store_true", help="do not measure it, as on a busy machine")
    parser.add_argument("--output", type=Path, default=RESULTS / "faults.jsonl", help="file of the cases")
    options = parser.parse_args(argv)
    options.modes = options.modes or (SIGNAL_MODES if options.transport == "fifo" else MODES)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Make the cases that are not there yet, and print the table of all."""
    options = parse(argv)
    wanted = [
        plan
        for plan in all_plans(options.rounds, options.kills, options.modes)
        if plan.fault in options.faults and plan.victim in options.victims
    ]
    plans = choose(wanted, decide(read_lines(options.output)), again=options.again)
    make_cases(plans, options.seconds, options.output, None if options.no_throughput else Undisturbed())
    text, status = summarize(wanted, read_lines(options.output))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.with_suffix(".md").write_text(f"# Faults\n\n{text}")
    print(text)
    return status


if __name__ == "__main__":
    end_when_told()
    sys.exit(main())
