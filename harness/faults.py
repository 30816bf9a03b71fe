"""Breaks real runs in every way and place, and says what came of it.

Each case is a run of its own: it trains for a random while, then one of its processes meets with a fault. What has to
come of it is in `cases`. In any case nothing may be left behind: no process, no named shared memory, no checkpoint that
cannot be loaded. Where throughput is measured, too, a run whose worker was replaced has to be as fast as an undisturbed
one soon. Machines that others use, too, are faster in one minute than in the next: where it is slower than the
undisturbed run before it, another one right after it decides.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from harness.fault_cases import HANG_TIMEOUT_S, MORE_S, SIGNALS, Plan
from harness.runs import (
    CARTPOLE,
    DOOM,
    SMALL,
    LiveRun,
    left_shared_memory,
    load_all_checkpoints,
    running,
    unused_shared_memory,
)
from sample_profiler.profiling.session.session import read_session

MODE_FLAGS = {
    "async": (),
    "sync": ("--async_rl=False",),
    "own inference": ("--inference=worker",),
    "serial": ("--serial_mode=True", "--async_rl=False"),
    "signals": ("--transport=fifo",),
    "signals, sync": ("--transport=fifo", "--async_rl=False"),
    "signals, own inference": ("--transport=fifo", "--inference=worker"),
}
ENVIRONMENT_FLAGS = {"doom": DOOM[1:], "cartpole": (*CARTPOLE[1:], *SMALL)}
SCRIPT = Path(__file__).with_name("injected_run.py")
WINDOW_S = 10.0  # in which throughput is measured
BACK_S = 30.0
BACK_SHARE = 0.95  # of the throughput of a run without a fault
KINDS = ("hang", "orphan", "shared memory", "checkpoint", "throughput", "error", "other")
_MOST_OUTPUT = 3000
_SERVES_S = 300.0
_LONGEST_S = 600.0  # that a run trains whose watcher was killed


class Problem(NamedTuple):
    """What was not as it has to be.

    Attributes:
        kind: one of KINDS; "error": the case could not be played to its end.
        text: what it was.
    """

    kind: str
    text: str


@dataclass
class Case:
    """What came of one fault.

    Attributes:
        plan: the fault.
        problems: what was not as it has to be.
        ended_s: from the fault until the run had ended and nothing of it was left; None: it went on, as it had to.
        back_s: from the fault until a worker had been replaced and there was training again.
        before_fps: throughput of an undisturbed run in each of two windows, where it matters.
        after_fps: throughput in the window that ends BACK_S after the fault.
        again_fps: throughput of another undisturbed run right after this one, if it is slower than the one before.
        output: the end of what the run said, if there are problems.
    """

    plan: Plan
    problems: list[Problem] = field(default_factory=list)
    ended_s: float | None = None
    back_s: float | None = None
    before_fps: tuple[float, ...] = ()
    after_fps: float | None = None
    again_fps: tuple[float, ...] = ()
    output: str = ""

    @property
    def throughput(self) -> float | None:
        """After a worker was replaced, as a ratio of that of the undisturbed run that decides."""
        undisturbed = self.again_fps or self.before_fps
        if self.after_fps is None or not undisturbed:
            return None
        return self.after_fps * len(undisturbed) / sum(undisturbed)

    @property
    def is_slower(self) -> bool:
        """Whether it has not come back to its throughput."""
        return self.throughput is not None and self.throughput < BACK_SHARE

    def add(self, kind: str, text: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(kind, text))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, what was planned first."""
        seen = asdict(self)
        plan = {name: value for name, value in seen.pop("plan").items() if name != "at_once"}
        derived = {"environment": self.plan.environment, "after_s": self.plan.after_s, "throughput": self.throughput}
        return plan | derived | seen


@contextmanager
def injected_run(environment: str, mode: str, folder: Path) -> Iterator[LiveRun]:
    """Start a run that fails when it is told to; kill what is left of it in the end."""
    log = folder / "output.txt"
    command = [sys.executable, str(SCRIPT), environment, *ENVIRONMENT_FLAGS[environment], *MODE_FLAGS[mode]]
    command += [f"--train_dir={folder}", "--experiment=run", "--save_every_sec=1", f"--hang_timeout={HANG_TIMEOUT_S}"]
    command += [f"--train_for_seconds={_LONGEST_S:g}"]
    with running(command, log, folder / "run", INJECT=str(folder)) as live:
        yield live


def inject(live: LiveRun, fault: str, victim: str, folder: Path) -> None:
    """Let the fault happen now."""
    if fault in SIGNALS:
        live.find(victim).send_signal(SIGNALS[fault])
    else:
        (folder / f".{victim}").write_text(fault)
        (folder / f".{victim}").rename(folder / victim)


def progress(live: LiveRun) -> tuple[float, float]:
    """Return how many frames have been trained on, and when that was, in seconds; the Runner records it each second."""
    gauges = [r.gauges["Runner/frames"] for r in read_session(live.folder).processes if "Runner/frames" in r.gauges]
    return max(((gauge.value, gauge.updated_ns / 1e9) for gauge in gauges), default=(0.0, 0.0))


def throughput(live: LiveRun) -> float:
    """Measure frames per second over a while."""
    begin, begin_s = progress(live)
    time.sleep(WINDOW_S)
    end, end_s = progress(live)
    return (end - begin) / (end_s - begin_s) if end_s > begin_s else 0.0


def undisturbed_throughput(environment: str, mode: str, folder: Path) -> tuple[float, ...]:
    """Measure the throughput of a run of its own, as long after its first training as others are after the fault.

    Returns:
        That of two windows, one after the other: how far they differ tells how far chance goes.

    Raises:
        RuntimeError: it does not train.
    """
    folder.mkdir()
    with injected_run(environment, mode, folder) as live:
        live.wait_until_training()
        time.sleep(BACK_S - WINDOW_S)
        measured = throughput(live), throughput(live)
        live.process.send_signal(signal.SIGINT)
        live.wait(MORE_S)
    if not all(measured):
        raise RuntimeError(f"a run without a fault does not train on:\n{live.output[-_MOST_OUTPUT:]}")
    return measured


class Undisturbed:
    """Throughput without a fault: one run serves the cases of its environment and mode that follow within minutes."""

    def __init__(self, measure: Callable[[str, str, Path], tuple[float, ...]] = undisturbed_throughput) -> None:
        self._measure = measure
        self._measured: dict[tuple[str, str], tuple[float, tuple[float, ...]]] = {}

    def fps(self, environment: str, mode: str, folder: Path, *, again: bool = False) -> tuple[float, ...]:
        """Return it; `folder` is made if it has to be measured, as it has to be `again`."""
        measured_s, fps = self._measured.get((environment, mode), (-_SERVES_S, ()))
        if again or time.monotonic() - measured_s >= _SERVES_S:
            fps = self._measure(environment, mode, folder)
            self._measured[environment, mode] = time.monotonic(), fps
        return fps


def run_case(plan: Plan, folder: Path, undisturbed: Undisturbed | None = None) -> Case:
    """Run one case; what cannot be played to its end is a problem of it, too.

    Args:
        plan: the fault.
        folder: of the run's files; has to be there.
        undisturbed: measures throughput before; None: throughput does not matter.
    """
    case = Case(plan)
    try:
        if undisturbed is not None and plan.is_replaced:
            case.before_fps = undisturbed.fps(plan.environment, plan.mode, folder / "undisturbed")
        shared_memory = unused_shared_memory()
        with injected_run(plan.environment, plan.mode, folder) as live:
            _play(case, live, folder)
            _look_at_what_is_left(case, live, shared_memory)
        if undisturbed is not None and case.is_slower:
            case.again_fps = undisturbed.fps(plan.environment, plan.mode, folder / "again", again=True)
            if case.is_slower:
                text = f"{case.throughput:.1%} of the throughput {BACK_S:g} s after the worker was lost"
                case.add("throughput", text)
    except Exception as error:
        kind = "hang" if isinstance(error, (TimeoutError, subprocess.TimeoutExpired)) else "error"
        case.add(kind, "".join(traceback.format_exception(error))[-_MOST_OUTPUT:])
    log = folder / "output.txt"
    if case.problems and log.exists():
        case.output = log.read_text(errors="replace")[-_MOST_OUTPUT:]
    return case


def _play(case: Case, live: LiveRun, folder: Path) -> None:
    plan = case.plan
    live.wait_until_training()
    time.sleep(plan.after_s)
    live.everybody()
    inject(live, plan.fault, plan.victim, folder)
    if plan.is_replaced:
        _expect_replacement(case, live)
    elif plan.goes_on:
        _expect_nothing(case, live)
    else:
        _expect_end(case, live)


def _look_at_what_is_left(case: Case, live: LiveRun, shared_memory: set[str]) -> None:
    if live.process.poll() is not None:  # of one that hangs nobody can have ended
        for left in live.left_over():
            case.add("orphan", left)
        for name in sorted(left_shared_memory(shared_memory)):
            case.add("shared memory", name)
    try:
        load_all_checkpoints(live.folder)
    except Exception as error:
        case.add("checkpoint", repr(error))
    # A worker that finds its game dead tells where it was; all others have to be told of in words.
    if "Traceback" in live.output and case.plan.fault != "exception" and case.plan.victim != "game":
        case.add("other", "a traceback in the log")


def _expect_replacement(case: Case, live: LiveRun) -> None:
    begin_s, limit_s = time.monotonic(), case.plan.limit_s
    while "takes its place" not in live.output:
        if (status := live.process.poll()) is not None:
            case.add("other", f"the worker was not replaced, the run ended with status {status}")
            return
        if time.monotonic() - begin_s > limit_s:
            case.add("hang", f"the worker was not replaced within {limit_s:g} s")
            return
        time.sleep(0.1)
    case.back_s = _expect_training(case, live, begin_s)
    if case.before_fps:
        time.sleep(max(0.0, begin_s + BACK_S - WINDOW_S - time.monotonic()))
        case.after_fps = throughput(live)
    _end_in_order(case, live)


def _expect_nothing(case: Case, live: LiveRun) -> None:
    _expect_training(case, live, time.monotonic())
    if "takes its place" in live.output:
        case.add("other", "a worker was replaced")
    _end_in_order(case, live)


def _expect_training(case: Case, live: LiveRun, begin_s: float) -> float | None:
    """Wait until there is more training than now; return how long after `begin_s` that was, None if too long."""
    frames, _ = progress(live)
    while progress(live)[0] <= frames:
        if time.monotonic() - begin_s > case.plan.limit_s:
            case.add("hang", f"it does not train on within {case.plan.limit_s:g} s")
            return None
        time.sleep(0.2)
    return time.monotonic() - begin_s


def _end_in_order(case: Case, live: LiveRun) -> None:
    live.everybody()  # successors and what they have started have to be gone in the end, too
    live.process.send_signal(signal.SIGINT)
    try:
        if (status := live.wait(MORE_S)) != 130:
            case.add("other", f"after Ctrl+C the exit status is {status}")
    except subprocess.TimeoutExpired:
        case.add("hang", f"it has not ended {MORE_S:g} s after Ctrl+C")


def _expect_end(case: Case, live: LiveRun) -> None:
    begin_s, limit_s = time.monotonic(), case.plan.limit_s
    # A Runner that is stopped cannot end any more, but all others have to.
    is_stuck = (case.plan.victim, case.plan.fault) == ("Runner", "stop")
    while left := _still_there(live, is_stuck):
        if time.monotonic() - begin_s > limit_s:
            break
        time.sleep(0.1)
    else:
        case.ended_s = time.monotonic() - begin_s
    if left and (is_stuck or live.process.poll() is None):
        case.add("hang", f"still there after {limit_s:g} s: {', '.join(left)}")
    if is_stuck:
        live.process.kill()
        live.process.wait()
    elif live.process.poll() == 0:
        case.add("other", "the exit status is 0")


def _still_there(live: LiveRun, is_stuck: bool) -> list[str]:
    runner = ["Runner"] if live.process.poll() is None and not is_stuck else []
    return runner + [f"{process.pid}" for process in live.everybody() if _is_there(process)]


def _is_there(process: psutil.Process) -> bool:
    """Tell whether a process lives; that of multiprocessing which waits for the Runner's end does not count."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
