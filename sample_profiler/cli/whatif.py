"""Owns `sample-profiler whatif`: slows one stage of a live run after the other, to say what a faster one would give."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from sample_profiler.analysis.facts import RunFacts, run_facts
from sample_profiler.analysis.whatif import StageWeight, gain, median_ceiling, stage_weight
from sample_profiler.analysis.window import window
from sample_profiler.component_id import rollout_worker_index
from sample_profiler.errors import CaptureError, SessionError
from sample_profiler.profiling.render import printable_text
from sample_profiler.profiling.session import Session, read_live
from sample_profiler.reports.distance import describe_hosts
from sample_profiler.reports.tables import format_table
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.control_socket import ControlClient
from sample_profiler.runtime.slowdown import MOST_SECONDS
from sample_profiler.vocabulary import ENV_STEP, MAIN_LOOP

__all__ = ["STAGES", "Pair", "choose_lengths", "look", "measure_pairs", "whatif"]

STAGES = {"env": "stepping environments", "inference": "inference", "learner": "training"}
_BAD_USAGE = 2
_SPEEDUPS = (1.25, 2.0, math.inf)
_NS_PER_S = 1e9
_LEAST_DATASETS, _ENOUGH_DATASETS = 5, 6  # in a measurement: slots come back with each, so steps may come in bursts
_SHORT_S = 3.0  # what others do on the machine comes and goes: many short measurements in turn see the same of it
_SPARE_S = 5.0  # for which a stage stays slow beyond a measurement, should the run be slow to answer


class Pair(NamedTuple):
    """Two measurements of a run, one after the other.

    Attributes:
        stage: that was slowed for one of them.
        base: passes through `env_step` per second without the slowdown.
        slowed: the same with it.
        facts: of the run while nothing was slowed.
    """

    stage: str
    base: float
    slowed: float
    facts: RunFacts


def whatif(
    run_dir: Path, stages: Sequence[str], share: float, seconds: float | None, settle_s: float | None, rounds: int
) -> int:
    """Measure, and print what speeding up each stage would give.

    Args:
        run_dir: folder of a run that goes on.
        stages: some of `STAGES`.
        share: of a stage's own time that is added to it, at most `MOST_SHARE`.
        seconds: length of each measurement; None: short, but long enough for some datasets.
        settle_s: before each: what the change before has left in queues and buffers is gone by then; None: half as long
            as a measurement, as far as that is possible.
        rounds: measurements of each stage.

    Returns:
        Exit status: 0; 2: the run cannot be reached or ended meanwhile, or a stage cannot be slowed for so long; 130:
        Ctrl+C. What was measured until then is printed all the same.
    """
    if (seconds or _SHORT_S) + (settle_s or 0.0) + _SPARE_S > MOST_SECONDS:
        print(
            f"sample-profiler whatif: a stage can be slowed for {MOST_SECONDS:g} s at once, and the run may take "
            f"{_SPARE_S:g} s of them: give --seconds and --settle of at most {MOST_SECONDS - _SPARE_S:g} s together",
            file=sys.stderr,
        )
        return _BAD_USAGE
    pairs: dict[str, list[tuple[float, float]]] = {stage: [] for stage in stages}
    looks: list[RunFacts] = []
    exit_status = 0
    try:
        with contextlib.closing(ControlClient(RunFolder(run_dir).control_socket)) as client:
            seconds, settle_s = choose_lengths(run_dir, seconds, settle_s)
            # Not before: of a run that is not there nothing is slowed.
            stage_names = ", ".join(STAGES[stage] for stage in stages)
            total_s = 2 * rounds * len(stages) * (seconds + settle_s)
            print(f"Slowing {stage_names} by {100 * share:.0f} % in turn, {total_s:.0f} s in all", flush=True)
            measured = measure_pairs(client, run_dir, stages, share, seconds, settle_s, rounds)
            with contextlib.closing(measured):
                for stage, base, slowed, facts in measured:
                    pairs[stage].append((base, slowed))
                    looks.append(facts)
                    print(f"round {len(pairs[stage])}, {stage}: {base:,.1f} and {slowed:,.1f} passes/s", flush=True)
    except KeyboardInterrupt:
        exit_status = 130
    except (CaptureError, SessionError, OSError) as error:
        print(printable_text(f"sample-profiler whatif: {_explain(run_dir, error)}"), file=sys.stderr)
        exit_status = _BAD_USAGE
    weights = [stage_weight(stage, pairs[stage], share) for stage in stages if pairs[stage]]
    if weights:
        print(f"\n{format_weights(weights, looks)}")
    return exit_status


def _explain(run_dir: Path, error: Exception) -> str:
    if isinstance(error, SessionError):
        return f"{run_dir} cannot be measured: {error}"
    with contextlib.suppress(SessionError):
        if hosts := describe_hosts(read_live(run_dir, with_events=False, with_histograms=False)):
            return f"the run in {run_dir} is on {hosts}, and can be measured from there alone: run this command there"
    reason = error.strerror or error if isinstance(error, OSError) else error
    return f"{run_dir} cannot be asked: {reason}: is it a run that goes on?"


def choose_lengths(run_dir: Path, seconds: float | None = None, settle_s: float | None = None) -> tuple[float, float]:
    """Look at a run, and return how long to measure it and how long to wait before: what is given, or what it takes.

    It is measured for at least so long that it trains on some datasets, unless that is too long for a stage to be
    slowed. Where another length is given, that is told.

    Raises:
        SessionError: the run has ended.
        OSError: it cannot be read.
    """
    chosen = seconds or _SHORT_S
    while True:
        settled_s = min(chosen / 2, MOST_SECONDS - _SPARE_S - chosen) if settle_s is None else settle_s
        facts = look(run_dir, chosen)
        if not facts.learners or facts.num_datasets >= _LEAST_DATASETS:
            return chosen, settled_s
        longest = math.floor(
            (MOST_SECONDS - _SPARE_S) / 1.5 if settle_s is None else MOST_SECONDS - _SPARE_S - settle_s
        )
        longer = min(longest, math.ceil(_ENOUGH_DATASETS * facts.seconds / max(1, facts.num_datasets)))
        if seconds is None and longer > chosen:
            print(
                f"{facts.num_datasets} datasets in {facts.seconds:.0f} s: looking for {longer} s; --seconds bounds it",
                flush=True,
            )
            chosen = float(longer)
            continue
        _warn_of_few_datasets(facts, longer if longer > chosen else None)
        return chosen, settled_s


def _warn_of_few_datasets(facts: RunFacts, longer_s: int | None) -> None:
    """Warn that measurements hold so few datasets that it matters how many each of them happens to hold."""
    cure = f"give --seconds={longer_s}" if longer_s else "none can be longer, but a --batch_size smaller"
    print(
        f"sample-profiler whatif: the run has trained on {facts.num_datasets} datasets in {facts.seconds:.0f} s, and a "
        f"measurement takes {_LEAST_DATASETS}: where environments wait for each, what is measured may be noise: {cure}",
        file=sys.stderr,
        flush=True,
    )


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


def measure_pairs(
    client: ControlClient,
    run_dir: Path,
    stages: Sequence[str],
    share: float,
    seconds: float,
    settle_s: float,
    rounds: int,
) -> Generator[Pair, None, None]:
    """Yield throughput without and with a slowdown of one stage after the other, in turn; arguments as `whatif`.

    Whatever ends this, nothing is slowed afterwards.

    Raises:
        CaptureError: the run cannot be asked.
        SessionError: it has ended.
        OSError: it cannot be reached.
    """
    try:
        for number in range(rounds):
            for stage in stages:
                yield _measure_pair(client, run_dir, stage, share, seconds, settle_s, number)
    finally:
        for stage in stages:
            # CaptureError: the rest of an answer in the middle of which Ctrl+C came.
            with contextlib.suppress(OSError, CaptureError):
                client.ask({"do": "slow", "stage": stage, "share": 0.0, "seconds": 0.0})


def look(run_dir: Path, seconds: float) -> RunFacts:
    """Look at the run as it is for a while."""
    first = read_live(run_dir, with_events=False, with_histograms=False)
    time.sleep(seconds)
    return run_facts(window(read_live(run_dir, with_events=False, with_histograms=False), first))


def _measure_pair(
    client: ControlClient, run_dir: Path, stage: str, share: float, seconds: float, settle_s: float, number: int
) -> Pair:
    """Measure without and with the slowdown; every second pair the other way round."""
    measured = {}
    for is_slowed in (False, True) if number % 2 == 0 else (True, False):
        _ask(client, stage, share if is_slowed else 0.0, seconds + settle_s + _SPARE_S)
        time.sleep(settle_s)
        measured[is_slowed] = _throughput(run_dir, seconds)
    _ask(client, stage, 0.0, 0.0)
    base, facts = measured[False]
    return Pair(stage, base, measured[True][0], facts)


def _ask(client: ControlClient, stage: str, share: float, seconds: float) -> None:
    answer = client.ask({"do": "slow", "stage": stage, "share": share, "seconds": seconds})
    if "error" in answer:
        raise CaptureError(str(answer["error"]))
    if not answer["slowed"]:
        raise CaptureError(f"the run has nobody who does {STAGES[stage]}")


def _throughput(run_dir: Path, seconds: float) -> tuple[float, RunFacts]:
    """Return how many groups of environments were stepped per second, and the facts of that while.

    Raises:
        SessionError: none was.
    """
    first = read_live(run_dir, with_events=False, with_histograms=False)
    passes, begin_ns = _count_passes(first)
    time.sleep(seconds)
    last = read_live(run_dir, with_events=False, with_histograms=False)
    more_passes, end_ns = _count_passes(last)
    if more_passes <= passes or end_ns <= begin_ns:
        raise SessionError(
            f"no environment was stepped for {seconds:g} s: the run has ended or hangs, or its environments wait for "
            "longer than that for a dataset to be trained on: then give a longer --seconds"
        )
    return (more_passes - passes) * _NS_PER_S / (end_ns - begin_ns), run_facts(window(last, first))


def _count_passes(session: Session) -> tuple[int, float]:
    """Return passes through env_step of all workers, and the mean of the moments at which they were read."""
    passes, moments = 0, []
    for record in session.processes:
        for component, root in record.trees.items():
            loop = root.children.get(MAIN_LOOP, root)
            if rollout_worker_index(component) is not None and ENV_STEP in loop.children:
                passes += loop.children[ENV_STEP].statistics.count
                moments.append(record.read_ns)
    if not moments:
        raise SessionError("there are no records of workers that step environments: is it a run that goes on?")
    return passes, sum(moments) / len(moments)
