"""Owns the short runs of a search: each in a fresh process, kept in a file, from which an interrupted one goes on."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sample_profiler.cli.tune.search import Measured
from sample_profiler.cli.tune.settings import Setting, flags_of
from sample_profiler.errors import SessionError
from sample_profiler.files import read_small_text
from sample_profiler.profiling.session.session import Session
from sample_profiler.run_folder import RunFolder, read_config_file

__all__ = ["FirstRun", "Trials"]

_PATIENCE_S = 60.0  # beyond what a run is given: to import its libraries, and to end
_ENDING_S = 15.0
_LEAST_WINDOW_S, _MOST_WINDOW_S = 6.0, 20.0
_WINDOWS = 60  # of the budget, one is so long
_STARTS = 1.3  # times the start of the first run: that of others may take longer
_LONGER = 1.5
_LAST_LINES = 15
_EXPERIMENT = "trial"


@dataclass(frozen=True)
class FirstRun:
    """What the first run of the command, as it is, tells.

    Attributes:
        flags: its values by name.
        folder: of the run.
        fps: frames per second.
    """

    flags: dict[str, Any]
    folder: Path
    fps: float


class Trials:
    """Makes short runs of a command.

    Args:
        command: that trains.
        output: folder of the runs.
        budget_s: for all of them.
        may_change_learning: whether settings may be tried with which something else is learned.

    Attributes:
        kept: runs of this command that an earlier search has made.
        problems: what is known of the settings that cannot run.
    """

    def __init__(
        self, command: Sequence[str], output: Path, budget_s: float, *, may_change_learning: bool = False
    ) -> None:
        self._command = list(command)
        self._may_change_learning = may_change_learning
        self._output = output
        self._deadline_s = time.monotonic() + budget_s
        self._budget_s = budget_s
        self._slice_s = 0.0
        self._cost_s = 0.0
        self.problems: dict[Setting, str] = {}
        self.kept = self._read_kept()

    @property
    def seconds_left(self) -> float:
        """What is left of the budget."""
        return max(0.0, self._deadline_s - time.monotonic())

    def num_left(self) -> int:
        """Return how many more runs the budget allows for."""
        return int(self.seconds_left / max(1.0, self._cost_s))

    def first(self) -> FirstRun:
        """Run the command as it is, for as long as it takes to learn how long runs have to be.

        Raises:
            SessionError: it fails, or trains nothing in a third of the budget.
        """
        seconds = min(max(self._budget_s / 12, 10.0), 40.0)
        while True:
            problem, fps = self._train((), seconds)
            if problem:
                raise SessionError(problem)
            if fps > 0:
                break
            if 2 * seconds > self._budget_s / 3:
                raise SessionError(
                    f"the command trains on nothing in {seconds:.0f} s, and there is a third of the budget for its "
                    f"first run: give more time (--minutes={self._budget_s / 60 * 3:g}), or faster environments"
                )
            seconds *= 2
        folder = self._output / _EXPERIMENT
        start_s = Session.load(RunFolder(folder).session, with_events=False).run.get("start_s", 0.0)
        window_s = min(max(self._budget_s / _WINDOWS, _LEAST_WINDOW_S), _MOST_WINDOW_S)
        self._slice_s = max(min(seconds, 2 * window_s), _STARTS * float(start_s) + window_s)
        flags = {name: flag.get("value") for name, flag in read_config_file(RunFolder(folder).config)["flags"].items()}
        return FirstRun(flags, folder, fps)

    def measure(self, setting: Setting, round_: int) -> float | None:
        """Run a setting, and return its frames per second; None: it cannot run, or the budget is used up."""
        problem, fps = self._train(setting, self._slice_s)
        if not problem and fps <= 0 and self.seconds_left > _LONGER * self._slice_s:
            self._slice_s *= _LONGER  # for all that follow: it may have been the machine
            problem, fps = self._train(setting, self._slice_s)
        if problem or fps <= 0:
            self.problems[setting] = problem or f"it trains on nothing in {self._slice_s:.0f} s"
            return None
        self.keep(Measured(setting, round_, fps))
        return fps

    def keep(self, run: Measured) -> None:
        """Write a run down."""
        line = {"command": self._command, "setting": list(run.setting), "round": run.round, "fps": run.fps}
        line["may_change_learning"] = self._may_change_learning
        with (self._output / "trials.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _read_kept(self) -> list[Measured]:
        self._output.mkdir(parents=True, exist_ok=True)
        kept = []
        with contextlib.suppress(OSError):
            for line in read_small_text(self._output / "trials.jsonl").splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError):  # one that was cut off, or is none of ours
                    run = json.loads(line)
                    setting = tuple((str(name), value) for name, value in run["setting"])
                    is_fit = self._may_change_learning or not run.get("may_change_learning")
                    if run["command"] == self._command and run["fps"] > 0 and is_fit:
                        kept.append(Measured(setting, int(run["round"]), float(run["fps"])))
        return kept

    def _train(self, setting: Setting, seconds: float) -> tuple[str, float]:
        """Make one run; return what is wrong with it, in words, and its frames per second."""
        begin_s = time.monotonic()
        folder = RunFolder(self._output / _EXPERIMENT)
        command = [
            *(*self._command, *flags_of(setting), f"--train_for_seconds={seconds:.1f}", "--benchmark=True"),
            *("--train_for_env_steps=10000000000", f"--train_dir={self._output}", f"--experiment={_EXPERIMENT}"),
            "--restart_behavior=overwrite",
        ]
        folder.benchmark.unlink(missing_ok=True)
        status, output = _run(command, seconds + _PATIENCE_S)
        last = "\n".join(output.splitlines()[-_LAST_LINES:])
        self._cost_s = max(self._cost_s / 2, time.monotonic() - begin_s)
        if status is None:
            return f"{shlex.join(command)} did not end within {seconds + _PATIENCE_S:.0f} s:\n{last}", 0.0
        if status:
            return f"{shlex.join(command)} ended with status {status}:\n{last}", 0.0
        try:
            return "", float(json.loads(read_small_text(folder.benchmark))["steady_fps"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            return (
                f"{shlex.join(command)} ended well and left no figures in {folder.benchmark} ({error}): give a command "
                f"that trains, and takes --train_dir, --experiment and --benchmark:\n{last}",
                0.0,
            )


def _run(command: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """Run a command in a session of its own; return its status, None if it took too long, and what it has printed."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
    except OSError as error:
        raise SessionError(f"cannot start {command[0]}: {error.strerror}") from error
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None, _end(process)
    except BaseException:  # Ctrl+C: the run is not in the terminal's job
        _end(process)
        raise
    return process.returncode, output.decode(errors="backslashreplace")


def _end(process: subprocess.Popen[bytes]) -> str:
    """End a run in order, or by force if it does not end; return what it has printed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=_ENDING_S)[0].decode(errors="backslashreplace")
    return ""
