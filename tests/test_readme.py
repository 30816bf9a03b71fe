"""The README and the pages it links: what they print runs, what they name exists."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sample_profiler import RANGES_VARIABLE
from sample_profiler.cli.main import main as command_line
from sample_profiler.config import describe_parts
from sample_profiler.config.foreign_flags import describe_foreign
from sample_profiler.config.parts import EvaluationOptions
from sf_examples.gym.train_gym_vector import VectorOptions
from sf_examples.petri_net.petri_net_env import PetriNetOptions
from sf_examples.vizdoom.doom_matches import DOOM_MATCHES
from sf_examples.vizdoom.doom_options import VizdoomOptions
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FLAGS_OF_OTHERS = {"help", "flag", "logdir"}  # --flag stands for any; --logdir is TensorBoard's
PROFILING = ROOT / "docs" / "profiling.md"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def test_the_page_of_rules_has_those_that_tests_name_and_no_others():
    names = re.compile(r"^ *(?:async )?def test_((?:(?:t|tr|ml|pn)\d+_(?:and_)?)+)", re.MULTILINE)
    cited = {
        rule.upper()
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in names.findall(path.read_text(encoding="utf-8"))
        for rule in re.findall(r"[a-z]+\d+", name)
    }
    told = re.findall(r"^\| ([A-Z]+\d+) \|", (ROOT / "docs" / "rules.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(told) == sorted(cited)


def code_blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of one language; "" are those of none, such as commands and output."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [code for marked, code in blocks if marked == language]


def run_program(path: Path, flags: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Run a program in its own folder until it ends well, and return what it printed."""
    result = subprocess.run(
        [sys.executable, str(path), *flags],
        env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        cwd=path.parent,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def flags_of_the_command() -> set[str]:
    """Return the flags of `sample-profiler` and its subcommands."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        for command in (
            [],
            ["capture"],
            ["compare"],
            ["diff"],
            ["report"],
            ["status"],
            ["trace"],
            ["watch"],
            ["whatif"],
        ):
            with contextlib.suppress(SystemExit):
                command_line([*command, "--help"])
    return set(re.findall(r"--(\w+)", output.getvalue()))


def test_custom_env_runs_as_printed_and_has_its_blocks_in_the_tree(tmp_path: Path) -> None:
    (script,) = code_blocks(ROOT / "README.md", "python")
    assert sum(1 for line in script.splitlines() if line.strip()) == 20
    path = tmp_path / "reach.py"
    path.write_text(script, encoding="utf-8")
    flags = ("--serial_mode=True", "--async_rl=False", "--train_for_env_steps=3000", f"--train_dir={tmp_path / 'runs'}")
    printed = run_program(path, flags)
    assert re.search(r"^env_step: [\d.]+\n  physics: [\d.]+, observe: [\d.]+", printed, re.MULTILINE)
    assert re.search(r"Collected \{0: \d{4,}\}", printed)


def test_the_tree_of_the_profiling_page_is_what_its_program_prints() -> None:
    program, printed = code_blocks(PROFILING, "python")[0], code_blocks(PROFILING, "")[0]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(program, str(PROFILING), "exec"), {})
    assert re.sub(r"[\d.]+", "0", output.getvalue()) == re.sub(r"[\d.]+", "0", printed)


@dataclass(frozen=True)
class Use:
    """How a program of the profiling page is used.

    Attributes:
        before: what has been done before it.
        after: what comes next.
        flags: of its command line.
        prints: what is among its output.
        leaves: files below the folder that it runs in, and what is in them.
    """

    before: str = ""
    after: str = ""
    flags: tuple[str, ...] = ()
    prints: str = ""
    leaves: dict[str, tuple[str, ...]] = field(default_factory=dict)


A_RECORDED_RUN = """
from sample_profiler import profile_session

with profile_session("train_dir/make_run") as timing, timing.add_time("env_step"):
    pass
"""
A_COLLECTOR = """
from sample_profiler import Collector
from sf_examples.gym.train_gym import register_gym_envs

register_gym_envs()
flags = ["--env=CartPole-v1", "--num_workers=2", "--serial_mode=True", "--async_rl=False", "--batch_size=256"]
collector = Collector(flags)
"""
SOME_BATCHES = """
for _ in range(10):
    next(collector)
collector.shutdown()
"""
SMALL_RUN = (
    *("--num_workers=1", "--num_envs_per_worker=4", "--worker_num_splits=1", "--rollout=16", "--batch_size=64"),
    *("--encoder_mlp_layers", "8", "--serial_mode=True", "--async_rl=False", "--train_for_env_steps=4000"),
)
TRACES = tuple(f"traces/worker_{worker}.json" for worker in range(2))
USES = {  # by what is in the program and in no other
    "timing.timeit(": Use(prints="MyProfile tree view:"),
    "def step(self, action):\n    with get_timing()": Use(),
    "read_session(": Use(before=A_RECORDED_RUN, prints=": 1 steps of a group, 95 % of them below"),
    "@timed  #": Use(prints="3 4498500.0", leaves={"timers/mine.json": ('"simulate"', '"physics"', "three episodes")}),
    "class Watched(": Use(
        flags=SMALL_RUN,
        leaves={"train_dir/watched/summary/watched_timers.json": ('"Watched.find_position"', '"Runner/position"')},
    ),
    '@profile_range("Simulator': Use(leaves={"ranges.json": ('"Simulator.step"', '"Simulator.collide"')}),
    "with profile_session(": Use(leaves={"runs/mine/profile/session.json": ('"backward"',)}),
    "def my_update(": Use(prints="mean reward of a step: 1.0"),
    "collector.enable_profile(": Use(
        before=A_COLLECTOR, after=SOME_BATCHES, leaves=dict.fromkeys(TRACES, ("RolloutProfiler.rollout_end",))
    ),
    "class CaptureRollouts(": Use(
        flags=SMALL_RUN,
        leaves={"train_dir/captured/profile/worker_0.json": ("RolloutProfiler.rollout_end", "AgentsEnv.step")},
    ),
}


def test_it_is_known_how_every_program_of_the_profiling_page_is_used() -> None:
    programs = code_blocks(PROFILING, "python")
    assert [sum(mark in program for mark in USES) for program in programs] == [1] * len(programs)
    assert len(USES) == len(programs)


@pytest.mark.parametrize("mark", USES)
def test_the_programs_of_the_profiling_page_run_and_do_what_it_says(mark: str, tmp_path: Path) -> None:
    (program,) = (program for program in code_blocks(PROFILING, "python") if mark in program)
    use, path = USES[mark], tmp_path / "program.py"
    path.write_text(use.before + program + use.after, encoding="utf-8")
    are_ranges_armed = "profile_range" in program or "Capture" in program
    assert use.prints in run_program(path, use.flags, {RANGES_VARIABLE: "1" if are_ranges_armed else ""})
    for name, texts in use.leaves.items():
        written = (tmp_path / name).read_text(encoding="utf-8")
        assert [text for text in texts if text not in written] == [], name


def test_every_block_of_a_run_is_explained() -> None:
    page = PROFILING.read_text(encoding="utf-8")
    explained = {name for path in re.findall(r"`([a-z_/]+)`", page) for name in path.split("/")}
    recorded = set()
    for folder in ("components", "ppo", "runtime"):
        for path in (ROOT / "sample_profiler" / folder).glob("*.py"):
            source = path.read_text(encoding="utf-8")
            recorded |= set(re.findall(r'\.add_time\("(\w+)"', source))
            recorded |= set(re.findall(r'"(wait_\w+)"', source))
    assert {"env_step", "wait_inference", "backward"} <= recorded
    assert recorded - explained == set()


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not link.startswith(("http://", "https://")):
            assert (page.parent / link).exists(), link


@each_page
def test_flags_modules_and_commands_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    known = {
        flag.name
        for part in describe_parts([VizdoomOptions, EvaluationOptions, PetriNetOptions, VectorOptions])
        for flag in part.flags
    } | flags_of_the_command()
    benchmarks = (f"benchmarks/{name}.py" for name in re.findall(r"python -m benchmarks\.(\w+)", text))
    for script in {*re.findall(r"\b(scripts/\w+\.py)", text), *benchmarks}:
        known |= set(re.findall(r'"--(\w+)', (ROOT / script).read_text(encoding="utf-8")))
    unknown = set(re.findall(r"--(\w{3,})", text)) - known - FLAGS_OF_OTHERS
    if page.name == "migrating.md":  # it also says which flags are not there
        unknown = {name for name in unknown if not describe_foreign(name)}
    assert unknown == set()
    for module in re.findall(r"(?:python -m |`)((?:sf_examples|benchmarks)\.[\w.]+)", text):
        assert importlib.util.find_spec(module), module
    for script in re.findall(r"\b((?:sf_examples|benchmarks|scripts)/[\w/]+\.py)", text):
        assert (ROOT / script).is_file(), script
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = set(re.findall(r"^make ([a-z]+)|`make ([a-z]+)`", text, re.MULTILINE))
    assert {first or second for first, second in commands} <= targets


def test_the_quickstart_has_every_scenario_of_doom() -> None:
    names = set(re.findall(r"`(doom_\w+)`", (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")))
    assert names == {*DOOM_SCENARIOS, *DOOM_MATCHES}


@each_page
def test_programs_are_python(page: Path) -> None:
    for program in code_blocks(page, "python"):
        compile(program, str(page), "exec")


def test_the_configuration_page_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "make_configuration_docs.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
