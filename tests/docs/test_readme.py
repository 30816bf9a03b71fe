"""The README and the pages it links: what they name exists."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sample_profiler import vocabulary
from sample_profiler.cli.main import main as command_line
from sample_profiler.config import describe_parts
from sample_profiler.config.foreign_flags import describe_foreign
from sample_profiler.config.parts import EvaluationOptions
from sf_examples.brax.brax_options import BraxOptions
from sf_examples.gym.train_gym_vector import VectorOptions
from sf_examples.petri_net.petri_net_env import PetriNetOptions
from sf_examples.vectors.device_options import DeviceOptions
from sf_examples.vizdoom.doom_matches import DOOM_MATCHES
from sf_examples.vizdoom.doom_options import VizdoomOptions
from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS
from tests.docs.pages import LANGUAGES, PAGES, ROOT, all_blocks

FLAGS_OF_OTHERS = {
    *("help", "flag", "logdir", "strict"),  # --flag stands for any; of TensorBoard and mypy
    *("standalone", "nnodes", "nproc", "rdzv", "ntasks", "cpus", "requeue"),  # of torchrun, and of Slurm
}
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


def flags_of_the_command() -> set[str]:
    """Return the flags of `sample-profiler` and its subcommands."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        for command in (
            [],
            ["capture"],
            ["compare"],
            ["diff"],
            ["doctor"],
            ["enjoy"],
            ["eval"],
            ["export"],
            ["forecast"],
            ["launch"],
            ["query"],
            ["report"],
            ["serve"],
            ["status"],
            ["trace"],
            ["train"],
            ["tune"],
            ["verdict"],
            ["watch"],
            ["whatif"],
        ):
            with contextlib.suppress(SystemExit):
                command_line([*command, "--help"])
    return set(re.findall(r"--(\w+)", output.getvalue()))


def test_every_block_of_a_run_is_explained() -> None:
    page = PROFILING.read_text(encoding="utf-8")
    explained = {name for path in re.findall(r"`([a-z_/]+)`", page) for name in path.split("/")}
    recorded = set()
    for folder in ("collector", "components", "ppo", "run", "runtime"):
        for path in (ROOT / "sample_profiler" / folder).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            recorded |= set(re.findall(r'\.add_time\("(\w+)"', source))
            recorded |= set(re.findall(r'"(wait_\w+)"', source))
            recorded |= {vars(vocabulary)[name] for name in re.findall(r"\.add_time\(([A-Z_]+)[,)]", source)}
            recorded |= {vocabulary.WAIT + vars(vocabulary)[name] for name in re.findall(r"WAIT \+ (FOR_\w+)", source)}
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
        for part in describe_parts(
            [VizdoomOptions, EvaluationOptions, PetriNetOptions, VectorOptions, BraxOptions, DeviceOptions]
        )
        for flag in part.flags
    } | flags_of_the_command()
    benchmarks = (f"{name.replace('.', '/')}.py" for name in re.findall(r"python -m (benchmarks\.[\w.]+\w)", text))
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
def test_every_block_says_what_it_is(page: Path) -> None:
    assert {language for language, _ in all_blocks(page)} <= LANGUAGES
    assert page.read_text(encoding="utf-8").count("```") == 2 * len(all_blocks(page))


def test_the_configuration_page_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "make_configuration_docs.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_ways_through_the_package_lead_from_file_to_file():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## Two ways through the house")[2].partition("\n## ")[0]
    ways = [re.findall(r"^(\w\S+\.(?:py|c))\b", block, re.MULTILINE) for block in section.split("```text")[1:]]
    assert [len(way) for way in ways] == [10, 8]
    for way in ways:
        assert [path for path in way if not (ROOT / "sample_profiler" / path).is_file()] == []
        assert len(set(way)) == len(way), "no step back"
