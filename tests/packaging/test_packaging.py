"""Tests of the files around the package: versions, licence, make targets and what continuous integration runs."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import sample_profiler

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = (".github/workflows/ci.yml", ".github/workflows/wheels.yml")


def lines_of(name: str) -> list[str]:
    return (ROOT / name).read_text(encoding="utf-8").splitlines()


def test_constraints_are_exact_versions():
    versions = [line for line in lines_of("constraints.txt") if not line.startswith("#")]
    pattern = re.compile(r'[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*(; python_version >= "3\.11")?')
    assert [line for line in versions if not pattern.fullmatch(line)] == []
    assert "torch==2.13.0" in versions


def test_every_dependency_has_an_exact_version():
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines_of("constraints.txt")}
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = set(re.findall(r'"([A-Za-z][A-Za-z0-9_.-]*)(?:\[[a-z]+\])?>=', text))
    assert {"torch", "numpy", "gymnasium", "vizdoom", "psutil", "rich", "tensorboard", "pytest"} <= named
    assert named <= pinned


def test_dependencies_are_open_ranges():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'"[a-z][^"]*(?:==|<|~=)[^"]*"', text) == []


def test_every_make_target_says_what_it_does():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert re.findall(r"^([a-z-]+):.*  ## \S", text, re.MULTILINE) == phony.split()
    wanted = {"help", "install", "run", "test", "check", "format", "bench", "clean"}
    assert wanted <= set(phony.split()) and ".DEFAULT_GOAL := help" in text


def test_continuous_integration_runs_the_command_people_run():
    assert lines_of(".ci/run")[-1] == "exec make check"
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_supported_versions_of_python_are_the_same_everywhere():
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    supported = re.findall(r"Programming Language :: Python :: (3\.\d+)", settings)
    assert f'requires-python = ">={supported[0]}"' in settings
    assert [f"3.{minor}" for minor in re.findall(r'"cp3(\d+)-manylinux', settings)] == supported
    for name in WORKFLOWS:
        for versions in re.findall(r"python: \[(.*)\]", (ROOT / name).read_text(encoding="utf-8")):
            assert re.findall(r'"([\d.]+)"', versions) == supported, name


def test_public_hosts_run_the_commands_people_run_and_know_no_secrets():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in WORKFLOWS)
    made = re.findall(r"- run: make ([a-z-]+)", text)
    assert made and set(made) <= set(targets)
    assert "- run: .ci/run" in text
    assert not re.search(r"secrets\.|https?://", text)


@pytest.mark.parametrize("name", ["Makefile", "RELEASING.md", ".github/workflows/wheels.yml"])
def test_what_is_looked_at_before_a_release_is_where_it_is_looked_for(name):
    named = re.findall(r"from (sample_profiler[\w.]*) import (\w+)", (ROOT / name).read_text(encoding="utf-8"))
    assert named
    for module, value in named:
        assert isinstance(getattr(importlib.import_module(module), value), str), value


def test_the_changelog_begins_with_the_version_to_come():
    headings = [line for line in lines_of("CHANGELOG.md") if line.startswith("## ")]
    assert re.fullmatch(rf"## {re.escape(sample_profiler.__version__)} - (unreleased|\d{{4}}-\d\d-\d\d)", headings[0])


def test_a_warning_fails_a_test(pytestconfig: pytest.Config):
    assert pytestconfig.getini("filterwarnings")[0] == "error"
    assert float(pytestconfig.getini("timeout")) > 0


def test_the_version_is_one_and_the_package_is_typed():
    assert re.fullmatch(r"\d+\.\d+\.\d+", sample_profiler.__version__)
    assert 'version = { attr = "sample_profiler.version.__version__" }' in lines_of("pyproject.toml")
    assert (ROOT / "sample_profiler" / "py.typed").exists()
