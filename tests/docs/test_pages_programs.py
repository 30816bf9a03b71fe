"""Programs that the README and the pages print run as they stand, each in a folder of its own."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sample_profiler import profile_session
from sample_profiler.switches import RANGES_VARIABLE
from tests.docs.pages import PAGES, ROOT, code_blocks, commands

pytestmark = pytest.mark.whole_run

PROFILING = ROOT / "docs" / "profiling.md"
PROGRAMS = [program for page in PAGES for program in code_blocks(page, "python")]


def run_program(
    path: Path, words: Sequence[str], variables: Mapping[str, str] | None = None, timeout_s: float = 100
) -> str:
    """Run Python in the folder of a program until it ends well, and return what it printed."""
    result = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        cwd=path.parent,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_the_programs_of_the_readme_are_as_short_as_it_says() -> None:
    playing, reach = code_blocks(ROOT / "README.md", "python")
    assert sum(1 for line in reach.splitlines() if line.strip()) == 20
    *_, lines = playing.split("\n\n")
    assert len(lines.splitlines()) == 5 + 1, "and what it prints"


@pytest.mark.timeout(400)
def test_the_policy_that_the_readme_trains_balances_the_pole_for_all_steps(tmp_path: Path) -> None:
    path = tmp_path / "play.py"
    path.write_text(code_blocks(ROOT / "README.md", "python")[0], encoding="utf-8")
    (train,) = (words for words in commands(ROOT / "README.md") if words[1:3] == ["train", "CartPole-v1"])
    repeatable = ("--serial_mode=True", "--async_rl=False", "--seed=1", "--train_for_env_steps=400000")
    run_program(path, ["-m", "sample_profiler", *train[1:], *repeatable], timeout_s=300)
    assert [run_program(path, [str(path)]).strip() for _ in range(3)] == ["500.0"] * 3


def test_the_tree_of_the_profiling_page_is_what_its_program_prints() -> None:
    program, printed = code_blocks(PROFILING, "python")[0], code_blocks(PROFILING, "text")[0]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(program, str(PROFILING), "exec"), {})
    assert re.sub(r"[\d.]+", "0", output.getvalue()) == re.sub(r"[\d.]+", "0", printed)


def test_what_the_environment_of_the_faults_page_returns_as_its_state_is_all_it_depends_on(tmp_path: Path) -> None:
    (program,) = code_blocks(ROOT / "docs" / "faults.md", "python")
    path = tmp_path / "walk.py"
    path.write_text(program, encoding="utf-8")
    walk, other = (runpy.run_path(str(path))["Walk"]() for _ in range(2))
    walk.reset(seed=3)
    walk.step(1)
    other.set_state(walk.get_state())
    for _ in range(50):
        (observation, *outcome), (others, *other_outcome) = walk.step(1), other.step(1)
        assert (observation.tolist(), outcome) == (others.tolist(), other_outcome)


@dataclass(frozen=True)
class Use:
    """How a program is used.

    Attributes:
        flags: of its command line.
        prints: what is among its output, a regular expression.
        leaves: files below the folder that it runs in, and what is in them.
        trained: name of the run of CartPole-v1 that it finds; empty: none.
    """

    flags: tuple[str, ...] = ()
    prints: str = ""
    leaves: dict[str, tuple[str, ...]] = field(default_factory=dict)
    trained: str = ""


PARALLEL_RUN = (
    *("--num_workers=1", "--num_envs_per_worker=4", "--worker_num_splits=1", "--rollout=16", "--batch_size=64"),
    *("--encoder_mlp_layers", "8", "--train_for_env_steps=4000"),
)
SMALL_RUN = (*PARALLEL_RUN, "--serial_mode=True", "--async_rl=False")
A_REACH = r"(?m)^env_step: [\d.]+\n  physics: [\d.]+, observe: [\d.]+"
TRACES = tuple(f"traces/worker_{worker}.json" for worker in range(2))
USES = {  # by what is in the program and in no other
    "class Reach(": Use(PARALLEL_RUN, A_REACH, {"train_dir/reach/report.html": ("physics",)}),
    "class Walk(": Use(),
    "RecordEpisodeStatistics(": Use(prints=r"(?m)^\d+\.0$", trained="default_experiment"),
    "policy.evaluate(": Use(prints=r"(?m)^\d+\.\d+ -?\d+\.\d+$", trained="cartpole"),
    "class Fading(": Use(SMALL_RUN, r"Collected \{0: \d{4}\}", {"train_dir/fading/report.html": ("env_step",)}),
    "class Notes(": Use(SMALL_RUN, r"(?m)^latest .*checkpoint_p0/checkpoint_\d"),
    "timing.timeit(": Use(prints="MyProfile tree view:"),
    "def step(self, action):\n    with get_timing()": Use(),
    "read_session(": Use(prints="make_run: 1 steps of a group, 95 % of them below"),
    "@timed  #": Use(
        prints=r"3 4498500\.0", leaves={"timers/mine.json": ('"simulate"', '"physics"', "three episodes")}
    ),
    "class Watched(": Use(
        SMALL_RUN,
        leaves={"train_dir/watched/summary/watched_timers.json": ('"Watched.find_position"', '"Runner/position"')},
    ),
    '@profile_range("Simulator': Use(leaves={"ranges.json": ('"Simulator.step"', '"Simulator.collide"')}),
    "run.picture(": Use(prints="make_run has ended", leaves={"curves.html": ("<style>",)}),
    "with profile_session(": Use(leaves={"runs/mine/profile/session.json": ('"backward"',)}),
    "def my_update(": Use(prints="mean reward of a step: 1.0"),
    "collector.enable_profile(": Use(leaves=dict.fromkeys(TRACES, ("RolloutProfiler.rollout_end",))),
    "class CaptureRollouts(": Use(
        SMALL_RUN,
        leaves={"train_dir/captured/profile/worker_0.json": ("RolloutProfiler.rollout_end", "AgentsEnv.step")},
    ),
}


def test_it_is_known_how_every_program_is_used() -> None:
    assert [sum(mark in program for mark in USES) for program in PROGRAMS] == [1] * len(PROGRAMS)
    assert len(USES) == len(PROGRAMS)


@pytest.mark.parametrize("mark", USES)
def test_programs_run_as_they_stand_and_do_what_the_page_says(mark: str, tmp_path: Path) -> None:
    (program,) = (program for program in PROGRAMS if mark in program)
    use, path = USES[mark], tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    with profile_session(tmp_path / "train_dir" / "make_run", "make_run") as timing, timing.add_time("env_step"):
        pass
    are_ranges_armed = "profile_range" in program or "enable_profile" in program
    if use.trained:
        words = ("-m", "sample_profiler", "train", "CartPole-v1", f"--experiment={use.trained}", *SMALL_RUN)
        run_program(path, words)
    words = (str(path), *use.flags)
    assert re.search(use.prints, run_program(path, words, {RANGES_VARIABLE: "1" if are_ranges_armed else ""}))
    for name, texts in use.leaves.items():
        written = (tmp_path / name).read_text(encoding="utf-8")
        assert [text for text in texts if text not in written] == [], name
