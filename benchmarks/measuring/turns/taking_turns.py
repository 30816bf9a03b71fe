"""Compares how many frames a second runs train on, one after another in turns, and prints a table."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measuring.statistic import describe_range
from benchmarks.measuring.turns.old_and_new import read_frames, read_rate
from harness.runs import command, running

__all__ = ["compare", "measure"]

_SETTLE_S = 5.0

Arm = tuple[str, Sequence[str]]
"""A module that trains, and its flags."""


def measure(arm: Arm, seconds: float) -> float:
    """Return the frames a second that a run trains on once it has settled.

    Raises:
        RuntimeError: it does not train.
    """
    module, flags = arm
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = command(module, *flags, "--train_for_env_steps=1000000000", folder=folder)
        with running(words, folder / "output.txt", folder / "run") as live:
            while not read_frames(folder / "run"):
                if live.process.poll() is not None:
                    raise RuntimeError(f"the run ended before it trained:\n{live.output}")
                time.sleep(0.1)
            time.sleep(_SETTLE_S)
            return read_rate(folder / "run", seconds)


def compare(title: str, arms: Mapping[str, Arm], num_rounds: int, seconds: float) -> dict[str, float]:
    """Print the rate of each arm, and its ratio to the first one's: the middle of all rounds, and the extremes.

    Args:
        title: what is trained on.
        arms: by name; in every other round the last one begins.
        num_rounds: in which each has a run.
        seconds: of each run that are measured.

    Returns:
        The middle ratio of each.
    """
    first, *_ = arms
    rates: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(num_rounds):
        for name in list(arms)[:: -1 if number % 2 else 1]:
            rates[name].append(measure(arms[name], seconds))
            print(f"{name}: {rates[name][-1]:,.0f} frames/s", file=sys.stderr, flush=True)
    print(f"| {title} | frames/s | to {first} |\n| --- | --- | --- |")
    middles = {}
    for name, of_arm in rates.items():
        ratios = [rate / other for rate, other in zip(of_arm, rates[first], strict=True)]
        middles[name] = statistics.median(ratios)
        told = describe_range(middles[name], min(ratios), max(ratios))
        print(f"| {name} | {describe_range(statistics.median(of_arm), min(of_arm), max(of_arm), 0)} | {told} |")
    return middles
