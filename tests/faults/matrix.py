"""Breaks real runs in every way and place, and says what came of it.

Each case is a run of its own: it trains for a random while, then one of its processes meets with a fault. A lost
RolloutWorker has to be replaced, and the run to go on; any other loss has to end it, soon, with a non-zero status.
In any case nothing may be left behind: no process, no named shared memory, no checkpoint that cannot be loaded. Where
throughput is measured, too, a run whose worker was replaced has to be as fast as an undisturbed one soon.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from sample_profiler.profiling.session import read_session
from tests.integration.runs import (
    CARTPOLE,
    DOOM,
    SMALL,
    LiveRun,
    left_shared_memory,
    load_all_checkpoints,
    unused_shared_memory,
)

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "terminate": signal.SIGTERM}
FAULTS = (*SIGNALS, "exception", "memory", "hang")
VICTIMS = ("Runner", "Batcher_0", "Learner_0", "InferenceWorker_p0-w0", "RolloutWorker_w0", "game")
MODES = ("async", "sync", "own inference", "serial")
MODE_FLAGS = {
    "async": (),
    "sync": ("--async_rl=False",),
    "own inference": ("--inference=worker",),
    "serial": ("--serial_mode=True", "--async_rl=False"),
}
SCRIPT = Path(__file__).with_name("injected_run.py")
HANG_TIMEOUT_S = 5.0
_MORE_S = 15.0  # that an end may take beyond the limit at which it is due
_WINDOW_S = 6.0
_BACK_S = 30.0
_BACK_SHARE = 0.95  # of the throughput of a run without a fault
_WARM_UP_S = 3.0


@dataclass
class Case:
    """One fault in one place.

    Attributes:
        problems: what was not as it has to be.
        ended_s: from the fault to the end of the run; None: it went on, as it had to.
        throughput: after a worker was replaced, as a ratio of that of an undisturbed run.
    """

    fault: str
    victim: str
    mode: str
    after_s: float
    problems: list[str]
    ended_s: float | None = None
    throughput: float | None = None


def is_possible(fault: str, victim: str, mode: str) -> bool:
    """A game runs no Python, and with inference in the workers there is nobody else to draw actions.

    In serial mode nobody watches the one process, so it has to be left to act itself: when a game is told to end, has
    died or is stopped, when it is told to end itself, and when a component raises.
    """
    if mode == "serial":
        told = victim == "game" or (fault, victim) == ("terminate", "Runner")
        return (told and fault in SIGNALS) or (fault == "exception" and victim != "game")
    if victim == "game" and fault not in SIGNALS:
        return False
    return not (mode == "own inference" and victim.startswith("InferenceWorker"))


def goes_on(fault: str, victim: str) -> bool:
    """A game leaves requests to end to its owner, in all modes."""
    return (fault, victim) == ("terminate", "game")


def is_replaced(fault: str, victim: str, mode: str) -> bool:
    """A worker that is lost is replaced, also through its game; in serial mode there is no process to be replaced."""
    return victim in ("RolloutWorker_w0", "game") and mode != "serial" and not goes_on(fault, victim)


@contextmanager
def injected_run(victim: str, mode: str, folder: Path) -> Iterator[LiveRun]:
    """Start a run that fails when it is told to; kill what is left of it in the end."""
    kind, flags = ("doom", DOOM[1:]) if victim == "game" else ("cartpole", (*CARTPOLE[1:], *SMALL))
    log = folder / "output.txt"
    command = [sys.executable, str(SCRIPT), kind, *flags, *MODE_FLAGS[mode]]
    command += [f"--train_dir={folder}", "--experiment=run", "--save_every_sec=1", f"--hang_timeout={HANG_TIMEOUT_S}"]
    with log.open("w") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**psutil.Process().environ(), "INJECT": str(folder)},
        )
    live = LiveRun(process, log, folder / "run")
    try:
        yield live
    finally:
        for left in live.everybody():
            left.kill()
        process.kill()
        process.wait()


def inject(live: LiveRun, fault: str, victim: str, folder: Path) -> None:
    """Let the fault happen now."""
    if fault in SIGNALS:
        live.find(victim).send_signal(SIGNALS[fault])
    else:
        name = "Runner" if victim == "Runner" else victim
        (folder / f".{name}").write_text(fault)
        (folder / f".{name}").rename(folder / name)


def num_frames(live: LiveRun) -> float:
    """Return how many frames have been trained on, as the Runner recorded it."""
    session = read_session(live.folder)
    return max((r.gauges["Runner/frames"].value for r in session.processes if "Runner/frames" in r.gauges), default=0.0)


def throughput(live: LiveRun) -> float:
    """Measure frames per second over a while."""
    begin, begin_s = num_frames(live), time.monotonic()
    time.sleep(_WINDOW_S)
    return (num_frames(live) - begin) / (time.monotonic() - begin_s)


def undisturbed_throughput(victim: str, mode: str, folder: Path) -> float:
    """Measure the throughput of a run of its own, so that the moment of the fault can be any of the other."""
    folder.mkdir()
    with injected_run(victim, mode, folder) as live:
        live.wait_until_training()
        time.sleep(_WARM_UP_S)
        measured = throughput(live)
        live.process.send_signal(signal.SIGINT)
        live.wait(_MORE_S)
    return measured


def run_case(fault: str, victim: str, mode: str, after_s: float, *, measures: bool, folder: Path) -> Case:
    """Run one case."""
    case = Case(fault, victim, mode, after_s, problems=[])
    shared_memory = unused_shared_memory()
    is_measured = measures and is_replaced(fault, victim, mode)
    before = undisturbed_throughput(victim, mode, folder / "undisturbed") if is_measured else 0.0
    with injected_run(victim, mode, folder) as live:
        live.wait_until_training()
        time.sleep(after_s)
        live.everybody()
        inject(live, fault, victim, folder)
        if is_replaced(fault, victim, mode):
            _expect_replacement(case, live, before)
        elif goes_on(fault, victim):
            _expect_nothing(case, live)
        else:
            _expect_end(case, live)
        case.problems += [f"left over: {left}" for left in live.left_over(patience_s=HANG_TIMEOUT_S + _MORE_S)]
        if left := left_shared_memory(shared_memory):
            case.problems.append(f"shared memory left over: {left}")
        try:
            load_all_checkpoints(live.folder)
        except Exception as error:
            case.problems.append(f"checkpoints: {error!r}")
        if "Traceback" in live.output and fault != "exception" and victim != "game":
            case.problems.append("a traceback in the log")
        if case.problems:
            case.problems.append(live.output[-3000:])
    return case


def _expect_replacement(case: Case, live: LiveRun, before: float) -> None:
    begin_s = time.monotonic()
    limit_s = HANG_TIMEOUT_S + _MORE_S
    while "takes its place" not in live.output:
        if live.process.poll() is not None or time.monotonic() - begin_s > limit_s:
            case.problems.append(f"not replaced; exit status {live.process.poll()}")
            return
        time.sleep(0.1)
    _expect_training(case, live, begin_s + limit_s + _MORE_S)
    if before:
        case.throughput = 0.0
        while time.monotonic() - begin_s < _BACK_S - _WINDOW_S:
            case.throughput = max(case.throughput, throughput(live) / before)
            if case.throughput >= _BACK_SHARE:
                break
        if case.throughput < _BACK_SHARE:
            case.problems.append(f"{case.throughput:.0%} of the throughput {_BACK_S:g} s after the worker was lost")
    _end_in_order(case, live)


def _expect_nothing(case: Case, live: LiveRun) -> None:
    _expect_training(case, live, time.monotonic() + HANG_TIMEOUT_S + _MORE_S)
    if "takes its place" in live.output:
        case.problems.append("a worker was replaced")
    _end_in_order(case, live)


def _expect_training(case: Case, live: LiveRun, deadline_s: float) -> None:
    frames = num_frames(live)
    while num_frames(live) <= frames and time.monotonic() < deadline_s:
        time.sleep(0.2)
    if num_frames(live) <= frames:
        case.problems.append("it does not train on")


def _end_in_order(case: Case, live: LiveRun) -> None:
    live.everybody()  # successors and what they have started have to be gone in the end, too
    live.process.send_signal(signal.SIGINT)
    try:
        if (status := live.wait(_MORE_S)) != 130:
            case.problems.append(f"after Ctrl+C the exit status is {status}")
    except subprocess.TimeoutExpired:
        case.problems.append("it hangs after Ctrl+C")


def _expect_end(case: Case, live: LiveRun) -> None:
    begin_s = time.monotonic()
    limit_s = _MORE_S + (HANG_TIMEOUT_S if case.fault in ("stop", "hang") else 0.0)
    if case.victim == "Runner" and case.fault in ("stop", "hang"):
        # It cannot end any more, but all others have to.
        while len(others := [p for p in live.everybody() if _is_there(p)]) and time.monotonic() - begin_s < limit_s:
            time.sleep(0.1)
        case.problems += [f"still there: {process}" for process in others]
        live.process.kill()
    try:
        status = live.wait(limit_s)
    except subprocess.TimeoutExpired:
        case.problems.append(f"it has not ended within {limit_s} s")
        return
    case.ended_s = time.monotonic() - begin_s
    if status == 0:
        case.problems.append("the exit status is 0")


def _is_there(process: psutil.Process) -> bool:
    """Tell whether a process lives; that of multiprocessing which waits for the Runner's end does not count."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def describe_throughput(cases: Iterable[Mapping[str, Any]]) -> str:
    """Say how many runs were as fast as before soon after a worker was replaced.

    Args:
        cases: fields of `Case`.
    """
    ratios = [case["throughput"] for case in cases if case["throughput"] is not None]
    if not ratios:
        return "No throughput was measured after a replacement"
    num_back = sum(ratio >= _BACK_SHARE for ratio in ratios)
    return (
        f"{num_back} of {len(ratios)} runs whose worker was replaced ({num_back / len(ratios):.0%}) were back at "
        f"{_BACK_SHARE:.0%} of an undisturbed run's throughput within {_BACK_S:g} s; the lowest ratio is "
        f"{min(ratios):.2f}"
    )
