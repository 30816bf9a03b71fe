"""Tells whether a run that has gone on for long is slower than a new one that goes on from its latest checkpoint.

Both take turns on the same cores, one suspended while the other works: a machine whose speed changes from minute to
minute, as that of one that is shared does, changes it for both. To a run, being suspended is a pause of the machine; it
has to be shorter than `--hang_timeout`.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.measuring.machine.process_tree import signal_tree
from benchmarks.measuring.turns.paired import is_on_in_phase
from sample_profiler.errors import RecordError
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.run_folder import RunFolder

__all__ = ["NUM_PAIRS", "Turns", "read_frames", "read_rate", "take_turns", "turns_s"]

NUM_PAIRS = 12  # a turn of CartPole differs from the next by a tenth: eight pairs of 15 s left ±5 %
_START_S = 40.0  # that a new run has until it trains
_SETTLE_S = 3.0
_TURN_S = 18.0
_POLL_S = 0.1


def turns_s(num_pairs: int) -> float:
    """Return what all turns take at most, with the start of the new run; 0 where there are none."""
    return _START_S + 2 * num_pairs * (_SETTLE_S + _TURN_S) if num_pairs else 0.0


@dataclass(frozen=True)
class Turns:
    """Frames a second in each turn.

    Attributes:
        old: of the run that was there.
        new: of the other one; both have their turns in pairs of neighbours.
    """

    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)


def take_turns(
    old: psutil.Process, run_folder: Path, command: Sequence[str], train_dir: Path, num_pairs: int = NUM_PAIRS
) -> Turns:
    """Let a run and a new one work in turns, and end the new one.

    Args:
        old: the run's main process.
        run_folder: of that run.
        command: that trains as it does; the new one's folder is added.
        train_dir: a new folder for the new one's.
        num_pairs: of turns, one of each.

    Raises:
        RuntimeError: one of them does not train.
    """
    turns, folder = Turns(), train_dir / run_folder.name
    signal_tree(old, signal.SIGSTOP)
    try:
        copy_checkpoints(run_folder, folder)
        flags = (f"--train_dir={train_dir}", f"--experiment={folder.name}")
        new = psutil.Popen([*command, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_until_it_trains(folder)
            for phase in range(2 * num_pairs):
                is_new = is_on_in_phase(phase)
                signal_tree(old if is_new else new, signal.SIGSTOP)
                signal_tree(new if is_new else old, signal.SIGCONT)
                time.sleep(_SETTLE_S)
                rate = read_rate(folder if is_new else run_folder, _TURN_S)
                (turns.new if is_new else turns.old).append(rate)
        finally:
            signal_tree(new, signal.SIGKILL)
            new.wait()
    finally:
        signal_tree(old, signal.SIGCONT)
    return turns


def copy_checkpoints(run_folder: Path, folder: Path) -> None:
    """Have the run of another folder, which is made, go on from what a run has learned."""
    folder.mkdir(parents=True)
    for checkpoints in RunFolder(run_folder).all_checkpoints():
        shutil.copytree(checkpoints, folder / checkpoints.name)


def read_rate(run_folder: Path, seconds: float) -> float:
    """Return the frames a second that a run trains on, between the first and the last time that their number changes.

    Raises:
        RuntimeError: it changes less than twice.
    """
    end_s = time.monotonic() + seconds
    latest, changes = read_frames(run_folder), []
    while (now_s := time.monotonic()) < end_s:
        frames = read_frames(run_folder)
        if frames != latest:
            latest = frames
            changes.append((now_s, frames))
        time.sleep(_POLL_S)
    if len(changes) < 2:
        raise RuntimeError(f"the run in {run_folder} does not train")
    (first_s, first), (last_s, last) = changes[0], changes[-1]
    return (last - first) / (last_s - first_s)


def _wait_until_it_trains(run_folder: Path) -> None:
    end_s = time.monotonic() + _START_S
    begin = read_frames(run_folder)
    while read_frames(run_folder) in (0.0, begin):
        if time.monotonic() > end_s:
            raise RuntimeError(f"the new run in {run_folder} does not train after {_START_S:g} s")
        time.sleep(_POLL_S)


def read_frames(run_folder: Path) -> float:
    """Return how many frames a run has trained on; 0: that is not known yet."""
    live = RunFolder(run_folder).live("")
    for path in (*live.records("Runner"), *live.records("Serial")):  # where all share one process, that is called so
        with contextlib.suppress(RecordError, OSError):  # it begins
            gauge = read_record_file(path, with_histograms=False).gauges.get("Runner/frames")
            if gauge is not None:
                return gauge.value
    return 0.0
