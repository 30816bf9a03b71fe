"""Owns `sample-profiler whatif`: slows one stage of a live run after the other, to say what a faster one would give."""

from __future__ import annotations

import argparse
import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sample_profiler.analysis.facts import RunFacts
from sample_profiler.analysis.whatif import StageWeight, gain, median_ceiling, stage_weight
from sample_profiler.cli.common.arguments import Commands, add_run_dir, as_count, as_names, as_seconds, as_share
from sample_profiler.cli.common.progress import progress_shown
from sample_profiler.cli.slowing import SHORT_S, SPARE_S, STAGES, Pair, choose_lengths, measure_pairs
from sample_profiler.errors import CaptureError, SessionError, UsageError
from sample_profiler.profiling.session.session import read_live
from sample_profiler.reports.sections.distance import describe_hosts
from sample_profiler.reports.sections.tables import format_table
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.commands.control_socket import ControlClient
from sample_profiler.runtime.loop.slowdown import MOST_SECONDS, MOST_SHARE

__all__ = [
    *("STAGES", "Pair", "WhatifRequest", "add_parser", "choose_lengths", "format_weights", "look", "measure_pairs"),
    *("run", "whatif"),
]

_SPEEDUPS = (1.25, 2.0, math.inf)


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "whatif",
        help="slow one stage of a live run after the other, and say what a faster one would give",
        description="Slow one stage of a live run after the other by a known amount, and say from what that costs what "
        "making it faster would give. The run goes on; it learns a little more slowly meanwhile.",
    )
    add_run_dir(parser)
    parser.add_argument(
        "--stages",
        type=_as_stages,
        default=list(STAGES),
        metavar="NAME,NAME",
        help=f"of {', '.join(STAGES)}; default: all",
    )
    parser.add_argument(
        "--slower",
        type=_as_slowdown,
        default=0.5,
        metavar="PERCENT",
        help="by how much; default: 50%% of a stage's time",
    )
    parser.add_argument(
        "--seconds", type=as_seconds, help="length of each measurement; default: 3, or as long as six datasets take"
    )
    parser.add_argument("--settle", type=as_seconds, metavar="SECONDS", help="time before each; default: half as long")
    parser.add_argument(
        "--rounds", type=as_count, default=10, metavar="N", help="measurements of each stage; default: 10"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    whatif(
        WhatifRequest(
            run_dir=arguments.run_dir,
            stages=arguments.stages,
            share=arguments.slower,
            seconds=arguments.seconds,
            settle_s=arguments.settle,
            rounds=arguments.rounds,
        )
    )
    return 0


def _as_stages(text: str) -> list[str]:
    chosen = as_names(text)
    if not chosen or set(chosen) - set(STAGES):
        raise argparse.ArgumentTypeError(f"{text!r}: give some of {', '.join(STAGES)}, separated by commas")
    return list(dict.fromkeys(chosen))


def _as_slowdown(text: str) -> float:
    """Return a percentage above 0, up to what a stage may be slowed by, as a share."""
    most = 100 * MOST_SHARE
    return as_share(text, lambda percent: 0 < percent <= most, most)


@dataclass(frozen=True)
class WhatifRequest:
    """What is measured.

    Attributes:
        run_dir: folder of a run that goes on.
        stages: some of `STAGES`.
        share: of a stage's own time that is added to it, at most `MOST_SHARE`.
        seconds: length of each measurement; None: short, but long enough for some datasets.
        settle_s: before each: what the change before has left in queues and buffers is gone by then; None: half as long
            as a measurement, as far as that is possible.
        rounds: measurements of each stage.
    """

    run_dir: Path
    stages: Sequence[str]
    share: float
    seconds: float | None
    settle_s: float | None
    rounds: int


def whatif(request: WhatifRequest) -> None:
    """Measure, and print what speeding up each stage would give; of what was measured, if it ends before that.

    Raises:
        UsageError: the run cannot be reached or ended meanwhile, or a stage cannot be slowed for so long.
    """
    if (request.seconds or SHORT_S) + (request.settle_s or 0.0) + SPARE_S > MOST_SECONDS:
        raise UsageError(
            f"a stage can be slowed for {MOST_SECONDS:g} s at once, and the run may take {SPARE_S:g} s of them: give "
            f"--seconds and --settle of at most {MOST_SECONDS - SPARE_S:g} s together"
        )
    measured: list[Pair] = []
    try:
        _measure(request, measured)
    except (CaptureError, SessionError, OSError) as error:
        raise UsageError(_explain(request.run_dir, error)) from error
    finally:
        pairs = {
            stage: [(each.base, each.slowed) for each in measured if each.stage == stage] for stage in request.stages
        }
        weights = [stage_weight(stage, pairs[stage], request.share) for stage in request.stages if pairs[stage]]
        if weights:
            print(f"\n{format_weights(weights, [each.facts for each in measured])}")


def _measure(request: WhatifRequest, measured: list[Pair]) -> None:
    """Measure, and add each pair of measurements as soon as it is there.

    Raises:
        CaptureError: the run cannot be asked.
        SessionError: it has ended.
        OSError: it cannot be reached.
    """
    run_dir, stages, rounds = request.run_dir, request.stages, request.rounds
    with contextlib.closing(ControlClient(RunFolder(run_dir).control_socket)) as client:
        length_s, settle_s = choose_lengths(run_dir, request.seconds, request.settle_s)
        # Not before: of a run that is not there nothing is slowed.
        stage_names = ", ".join(STAGES[stage] for stage in stages)
        total_s = 2 * rounds * len(stages) * (length_s + settle_s)
        print(f"Slowing {stage_names} by {100 * request.share:.0f} % in turn, {total_s:.0f} s in all", flush=True)
        pairs = measure_pairs(client, run_dir, stages, request.share, length_s, settle_s, rounds)
        began_s = time.monotonic()
        with (
            contextlib.closing(pairs),
            progress_shown("measuring", total_s, lambda: time.monotonic() - began_s),
        ):
            for number, pair in enumerate(pairs):
                measured.append(pair)
                rates = f"{pair.base:,.1f} and {pair.slowed:,.1f} passes/s"
                print(f"round {number // len(stages) + 1}, {pair.stage}: {rates}", flush=True)


def _explain(run_dir: Path, error: Exception) -> str:
    if isinstance(error, SessionError):
        return f"{run_dir} cannot be measured: {error}"
    with contextlib.suppress(SessionError):
        if hosts := describe_hosts(read_live(run_dir, with_events=False, with_histograms=False)):
            return f"the run in {run_dir} is on {hosts}, and can be measured from there alone: run this command there"
    reason = error.strerror or error if isinstance(error, OSError) else error
    return f"{run_dir} cannot be asked: {reason}: is it a run that goes on?"


def format_weights(weights: Sequence[StageWeight], looks: Sequence[RunFacts]) -> str:
    """Return a table, the stage that gives most if it is twice as fast first.

    Args:
        weights: of stages.
        looks: at the run while nothing was slowed, at least one.
    """
    rows: list[tuple[float, float, list[str]]] = []
    for each in weights:
        bounds = {speedup: median_ceiling(looks, each.stage, speedup) for speedup in _SPEEDUPS}
        gains = {speedup: min(gain(each.weight, speedup), bound.gain) for speedup, bound in bounds.items()}
        limits = (bound.limit for speedup, bound in bounds.items() if gain(each.weight, speedup) > bound.gain)
        limit = next(limits, "")
        interval = "takes six rounds"
        if each.interval is not None:
            low, high = (100 * min(gain(end, 2.0), bounds[2.0].gain) for end in each.interval)
            interval = f"{low:+.0f} to {high:+.0f} %"
        told = [f"{100 * found:+.0f} %" for found in gains.values()]
        name = STAGES.get(each.stage, each.stage)
        rows.append((gains[2.0], each.weight, [name, f"{each.weight:.2f}", *told, interval, limit]))
    rows.sort(reverse=True)
    titles = ["if this were faster", "weight", "1.25 x gives", "2 x", "no time", "95 % interval of 2 x", "limit then"]
    note = "Weight: how much longer a frame takes for each 1 of the stage. What else works bounds what it can give."
    return format_table(titles, [cells for *_, cells in rows], right={1, 2, 3, 4, 5}) + f"\n{note}"
