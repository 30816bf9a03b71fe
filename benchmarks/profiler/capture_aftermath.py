"""Print whether captures leave a run slower than it was: its throughput after captures with every tool, and before.

Runs with captures and runs without take turns. In each, throughput is measured for a while; then every tool captures
all components once (or the same time passes without), and throughput is measured again. The ratio of a run is that of
its second window to its first, so what changes in a run by itself shows in the runs without captures, too. The policy
is kept as it is by a learning rate of next to nothing: longer episodes would make the second window faster.

    python -m benchmarks.profiler.capture_aftermath --rounds 3
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.measuring.runs.live_runs import NAMES, LiveRun, make_run
from benchmarks.measuring.statistic import ratio_interval
from benchmarks.measuring.turns.paired import is_on_in_phase
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.records.statistics import RunStatus

TOOLS = ("timeline", "cprofile", "yappi", "pyinstrument", "torch")
_FLAGS = ("--learning_rate=1e-12",)
_WARM_UP_S = 6.0
_PAUSE_S = 2.0
_MOST_SECONDS = 900.0


class _Course(RunObserver):
    """What happens in one run: warm-up, first window, captures or nothing, second window; then it is interrupted."""

    def __init__(self, run: LiveRun, window_s: float, capture_s: float, tools: Sequence[str], is_on: bool) -> None:
        self._run = run
        self._is_capturing = is_on
        self._capture_s = capture_s
        self._windows_s = window_s
        self._begin_s: float | None = None
        self._tools = list(tools)
        self._capture: subprocess.Popen[bytes] | None = None
        self._next_s = 0.0
        self.windows: list[tuple[float, float]] = []

    def on_status(self, _: RunStatus) -> None:
        """Go on with the course if it is time."""
        now_s = time.monotonic()
        if self._begin_s is None:
            if self._run.samples and self._run.samples[-1].frames:
                self._begin_s = now_s + _WARM_UP_S
            return
        if not self.windows and now_s >= self._begin_s + self._windows_s:
            self.windows.append((self._begin_s, now_s))
            self._next_s = now_s
        elif len(self.windows) == 1:
            self._go_on_capturing(now_s)

    def _go_on_capturing(self, now_s: float) -> None:
        if self._capture is not None:
            if self._capture.poll() is None:
                return
            if self._capture.returncode:
                raise RuntimeError(f"a capture ended with status {self._capture.returncode}")
            self._capture, self._next_s = None, now_s
        if now_s < self._next_s:
            return
        if self._tools:
            tool = self._tools.pop(0)
            self._next_s = now_s + self._capture_s
            if self._is_capturing:
                self._capture = self._start_capture(tool)
        elif now_s >= self._next_s + _PAUSE_S + self._windows_s:
            self.windows.append((self._next_s + _PAUSE_S, now_s))
            assert self._run.runner is not None
            self._run.runner.interrupt("both windows are measured")

    def _start_capture(self, tool: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "sample_profiler", "capture", str(self._run.folder), "--tool", tool]
        capture = subprocess.Popen(
            [*command, "--seconds", str(self._capture_s)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._run.foreign_pids.add(capture.pid)
        return capture


def measure(name: str, window_s: float, capture_s: float, tools: Sequence[str], is_on: bool) -> float:
    """Return the throughput of the second window of one run over that of its first.

    Raises:
        RuntimeError: the run was over before its second window was.
    """
    run = make_run(name, _MOST_SECONDS, _FLAGS)
    course = _Course(run, window_s, capture_s, tools, is_on)
    run.execute([course])
    if len(course.windows) < 2:
        raise RuntimeError("the run was over before its second window was: captures took longer than planned")
    first, second = (_rate(run, begin_s, end_s) for begin_s, end_s in course.windows)
    return second / first


def _rate(run: LiveRun, begin_s: float, end_s: float) -> float:
    inside = [sample for sample in run.samples if begin_s <= sample.time_s <= end_s]
    return (inside[-1].steps - inside[0].steps) / (inside[-1].time_s - inside[0].time_s)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", choices=NAMES, default=["CartPole-v1"], help="environments")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS, help="that capture, one after another")
    parser.add_argument("--rounds", type=int, default=3, help="runs with captures, and as many without")
    parser.add_argument("--window_seconds", type=float, default=15.0, help="length of each of a run's two windows")
    parser.add_argument("--capture_seconds", type=float, default=5.0, help="length of each capture")
    options = parser.parse_args(argv)
    if options.rounds < 2:
        parser.error("--rounds: two or more, to compare runs with captures and runs without")
    for name in options.envs:
        ratios: dict[bool, list[float]] = {True: [], False: []}
        for index in range(2 * options.rounds):
            is_on = is_on_in_phase(index)
            ratio = measure(name, options.window_seconds, options.capture_seconds, options.tools, is_on)
            ratios[is_on].append(ratio)
            print(f"{name}, {'captures' if is_on else 'nothing'} between: {ratio:.3f} of before", flush=True)
        difference = ratio_interval(ratios[True], ratios[False]).map(lambda ratio: (ratio - 1) * 100)
        medians = [statistics.median(ratios[key]) for key in (True, False)]
        print(
            f"{name}: after against before {medians[0]:.3f} with captures, {medians[1]:.3f} without; difference "
            f"{difference.estimate:+.2f} % [{difference.lower:+.2f}, {difference.upper:+.2f}]\n",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
