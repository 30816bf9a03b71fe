"""Owns the measurements of `sample-profiler whatif`: a live run's throughput, with one of its stages slowed or none."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from sample_profiler.analysis.facts import RunFacts, run_facts
from sample_profiler.analysis.window import window
from sample_profiler.cli.common.problems import note
from sample_profiler.errors import CaptureError, SessionError
from sample_profiler.profiling.session.session import Session, read_live
from sample_profiler.runtime.commands.control_socket import ControlClient
from sample_profiler.runtime.loop.slowdown import MOST_SECONDS

__all__ = ["SHORT_S", "SPARE_S", "STAGES", "Pair", "choose_lengths", "look", "measure_pairs"]

STAGES = {"env": "stepping environments", "inference": "inference", "learner": "training"}

SHORT_S = 3.0
"""What others do on the machine comes and goes: many short measurements in turn see the same of it."""

SPARE_S = 5.0
"""For which a stage stays slow beyond a measurement, should the run be slow to answer."""

_NS_PER_S = 1e9
_LEAST_DATASETS, _ENOUGH_DATASETS = 5, 6  # in a measurement: slots come back with each, so steps may come in bursts


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


def choose_lengths(run_dir: Path, seconds: float | None = None, settle_s: float | None = None) -> tuple[float, float]:
    """Look at a run, and return how long to measure it and how long to wait before: what is given, or what it takes.

    It is measured for at least so long that it trains on some datasets, unless that is too long for a stage to be
    slowed. Where another length is given, that is told.

    Raises:
        SessionError: the run has ended.
        OSError: it cannot be read.
    """
    chosen = seconds or SHORT_S
    while True:
        settled_s = min(chosen / 2, MOST_SECONDS - SPARE_S - chosen) if settle_s is None else settle_s
        facts = look(run_dir, chosen)
        if not facts.learners or facts.num_datasets >= _LEAST_DATASETS:
            return chosen, settled_s
        longest = math.floor((MOST_SECONDS - SPARE_S) / 1.5 if settle_s is None else MOST_SECONDS - SPARE_S - settle_s)
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
    note(
        f"sample-profiler whatif: the run has trained on {facts.num_datasets} datasets in {facts.seconds:.0f} s, and a "
        f"measurement takes {_LEAST_DATASETS}: where environments wait for each, what is measured may be noise: {cure}"
    )


def measure_pairs(
    client: ControlClient,
    run_dir: Path,
    stages: Sequence[str],
    share: float,
    seconds: float,
    settle_s: float,
    rounds: int,
) -> Generator[Pair, None, None]:
    """Yield throughput without and with a slowdown of one stage after the other, in turn.

    Whatever ends this, nothing is slowed afterwards.

    Args:
        client: of the run.
        run_dir: the run's folder.
        stages: some of `STAGES`.
        share: of a stage's own time that is added to it.
        seconds: length of each measurement.
        settle_s: before each: what the change before has left in queues and buffers is gone by then.
        rounds: measurements of each stage.

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
        _ask(client, stage, share if is_slowed else 0.0, seconds + settle_s + SPARE_S)
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
            loop = root.children.get("main_loop", root)
            if component.startswith("RolloutWorker") and "env_step" in loop.children:
                passes += loop.children["env_step"].statistics.count
                moments.append(record.read_ns)
    if not moments:
        raise SessionError("there are no records of workers that step environments: is it a run that goes on?")
    return passes, sum(moments) / len(moments)
