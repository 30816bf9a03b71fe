"""Captures of runs whose environments profile themselves: the run, and what theirs sees, are as without; ours are whole
or refused.

A few are tried with each run of the tests, and with `SELF_PROFILING_MATRIX=all` every tool beside every profiler, which
takes half an hour; `SELF_PROFILING_MATRIX=table.txt` also writes down what came of each.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.runs import SMALL, LiveRun, live_run
from sample_profiler.cli.capture.capture import CAPTURE_TOOLS
from sample_profiler.cli.main import main
from tests.integration.captures.self_profiling import usable_profilers
from tests.integration.captures.self_profiling_run import END, NOBODY

MATRIX = os.environ.get("SELF_PROFILING_MATRIX")
MOMENTS = ("step", "reset", "running", "late")
"""When theirs is on, as in `self_profiling.KINDS`; `late` is `running` that begins while ours is on."""

FEW = [
    ("cprofile", "cprofile", "step"),
    ("cprofile", "setprofile", "late"),
    ("torch", "torch", "step"),
    ("yappi", "yappi", "late"),
    ("yappi", "setprofile", "running"),
    ("pyinstrument", "cprofile", "reset"),
    ("timeline", "settrace", "step"),
]
ALL = [
    (tool, name, moment)
    for name in usable_profilers()
    for moment in MOMENTS
    for tool in CAPTURE_TOOLS
    if not re.search(r"monitoring \d", name) and (tool != "timeline" or moment == "step")
]
CASES = ALL if MATRIX else [case for case in FEW if case in ALL]
ALWAYS_WHOLE = {"timeline", "pyinstrument"} | ({"cprofile", "yappi"} if hasattr(sys, "monitoring") else set())
WHOLE, REFUSED = "whole", "refused"
OTHERS = re.compile(r"another (torch\.)?profiler|torch\.profiler|yappi")
LINE = re.compile(r"^  (\w\S*) +(not captured: .*|recorded nothing|[\d.]+ s)$", re.MULTILINE)
FLAGS = (
    *("--env=self_profiling", "--num_workers=2", "--num_envs_per_worker=1", "--worker_num_splits=1", *SMALL),
    *("--use_rnn=False", "--device=cpu", "--decorrelate_envs_on_one_worker=False"),
    *("--train_for_env_steps=1000000000", "--save_every_sec=1", "--hang_timeout=300"),
)


class Profiled:
    """A run whose first environment profiles itself with whatever it is told to."""

    def __init__(self, live: LiveRun, folder: Path, own: str) -> None:
        self.live = live
        self.folder = folder
        self.own = own

    def let(self, phase: str) -> None:
        """Have the environment profile itself otherwise."""
        partial = self.folder / "new_phase"
        partial.write_text(phase)
        partial.rename(self.folder / "phase")

    def await_file(self, name: str, content: str) -> None:
        deadline_s = time.monotonic() + 60
        path = self.folder / name
        while not path.exists() or path.read_text() != content:
            assert time.monotonic() < deadline_s, f"{name} is not {content!r}\n{self.live.output}"
            self.check()
            time.sleep(0.02)

    def check(self) -> None:
        """Fail unless the run goes on, with all of its workers, and its environment has seen what it has to."""
        problems = self.folder / "problems"
        if problems.exists():
            told = problems.read_text()
            problems.unlink()  # they are no matter of the next test
            pytest.fail(told)
        assert self.live.process.poll() is None, self.live.output
        assert "Traceback" not in self.live.output
        assert "is lost" not in self.live.output

    def try_tool(self, tool: str, name: str, moment: str) -> str:
        """Capture once; return what came of the part that the environment is in."""
        self.let(NOBODY)
        self.await_file("told", NOBODY)
        phase = f"{'running' if moment == 'late' else moment}|{name}"
        if moment == "late":
            came = self.capture_and_let(tool, phase)
        else:
            self.let(phase)
            self.await_file("told", phase)
            came = self.capture(tool, 0.25)
        self.await_file("told", phase)
        if moment in ("step", "reset"):
            self.await_file("results", phase)
        self.let(NOBODY)
        self.await_file("told", NOBODY)
        self.await_file("results", phase)
        self.check()
        return came

    def capture_and_let(self, tool: str, phase: str) -> str:
        came: list[str] = []
        thread = threading.Thread(target=lambda: came.append(self.capture(tool, 0.6)))
        thread.start()
        time.sleep(0.3)
        self.let(phase)
        thread.join()
        assert came, "the capture has failed"
        return came[0]

    def capture(self, tool: str, seconds: float) -> str:
        """Capture with the command; return what came of the part of the environment; all others have to be whole."""
        printed = io.StringIO()
        command = ["capture", str(self.live.folder), "--tool", tool, "--seconds", str(seconds)]
        command += ["--components", "rollout"] if MATRIX else []  # so that it does not take an hour
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = main(command)
        text = printed.getvalue()
        if tool == "timeline":
            assert status == 0, text
            return WHOLE
        parts = dict(LINE.findall(text))
        assert self.own in parts, text
        refused = {part: line for part, line in parts.items() if line.startswith("not captured")}
        assert not refused.keys() - {self.own}, text
        assert status == (2 if refused.keys() == parts.keys() else 0), text
        assert all(OTHERS.search(line) for line in refused.values()), text
        return REFUSED if refused else WHOLE


@pytest.fixture(scope="module", params=["parallel", "serial"])
def profiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Profiled]:
    folder = tmp_path_factory.mktemp("profiled")
    is_serial = request.param == "serial"
    wiring = (f"--serial_mode={is_serial}", f"--async_rl={not is_serial}")
    (folder / "phase").write_text(NOBODY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SELF_PROFILING", str(folder))
        with live_run("tests.integration.captures.self_profiling_run", *FLAGS, *wiring, folder=folder) as live:
            live.wait_until_training()
            yield Profiled(live, folder, "Serial" if is_serial else "RolloutWorker_w0")


@pytest.mark.parametrize(("tool", "name", "moment"), CASES)
def test_an_environment_that_profiles_itself_can_be_captured(
    profiled: Profiled, tool: str, name: str, moment: str
) -> None:
    came = profiled.try_tool(tool, name, moment)
    assert came == WHOLE or tool not in ALWAYS_WHOLE or name == "monitoring, all"
    if MATRIX and MATRIX != "all":
        with open(MATRIX, "a") as file:
            print(profiled.own, name, moment, tool, came, sep=" | ", file=file)


def test_such_a_run_ends_as_any_other(profiled: Profiled) -> None:
    profiled.check()
    profiled.let(END)
    assert profiled.live.wait(60) == 0, profiled.live.output
    assert "Traceback" not in profiled.live.output
    assert not (profiled.folder / "problems").exists()
