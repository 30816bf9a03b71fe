"""What people install: a wheel with the whole package and nothing else, which works outside of a clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, code_blocks

pytestmark = pytest.mark.whole_run

PACKAGES = ("sample_profiler", "sf_examples")
NOT_OURS = (".git", ".hypothesis", ".venv", ".*_cache", "*.egg-info", "*.py[cod]", "*.so", "__pycache__")
BUILT = ("build", "dist", "train_dir")
PUBLIC = "import sample_profiler; print(*sample_profiler.__all__, sep='\\n')"
COMPILED = (
    *("model/kernels/_kernels", "model/kernels/_perceptrons", "model/kernels/_objective"),
    *("profiling/captures/interpreter/_interpreter", "profiling/recorder/_core"),
)


@dataclass
class Built:
    """A source distribution, and the wheel made of it.

    Attributes:
        source: what both were made of: a copy of the repository.
        sdist, wheel: the files.
        site: where the wheel is installed, alone: everything else is that of the environment of the tests.
    """

    source: Path
    sdist: Path
    wheel: Path
    site: Path

    @property
    def names(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as file:
            return set(file.namelist())

    @property
    def metadata(self) -> str:
        with zipfile.ZipFile(self.wheel) as file:
            (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
            return file.read(name).decode()

    def run(self, *words: str, folder: Path) -> str:
        """Run Python with the installed wheel until it ends well, and return what it printed."""
        variables = {**os.environ, "PYTHONPATH": str(self.site)}
        result = subprocess.run(
            [sys.executable, *words],
            **{"env": variables, "cwd": folder, "text": True, "timeout": 100, "check": False},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT},
        )
        assert result.returncode == 0, result.stdout
        return result.stdout


def leave_out(folder: str, names: list[str]) -> set[str]:
    patterns = (*NOT_OURS, *BUILT) if Path(folder) == ROOT else NOT_OURS
    return shutil.ignore_patterns(*patterns)(folder, names)


def build(folder: Path, **variables: str) -> Built:
    source, dist, site = folder / "source", folder / "dist", folder / "site"
    shutil.copytree(ROOT, source, symlinks=True, ignore=leave_out)
    words = (["-m", "build", "--no-isolation", f"--outdir={dist}"], ["-m", "pip", "install", "--no-deps", "--no-index"])
    subprocess.run([sys.executable, *words[0]], cwd=source, env=os.environ | variables, check=True, timeout=110)
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    subprocess.run([sys.executable, *words[1], f"--target={site}", str(wheel)], cwd=folder, check=True, timeout=60)
    return Built(source, sdist, wheel, site)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    pytest.importorskip("build")
    return build(tmp_path_factory.mktemp("built"), SAMPLE_PROFILER_REQUIRE_EXTENSIONS="1")


@pytest.fixture(scope="module")
def built_without_compiler(tmp_path_factory: pytest.TempPathFactory) -> Built:
    pytest.importorskip("build")
    return build(tmp_path_factory.mktemp("pure"), CC=shutil.which("false") or "false")


def files_of(source: Path, *folders: str) -> set[str]:
    found = (path for folder in folders for path in (source / folder).rglob("*"))
    return {str(path.relative_to(source)) for path in found if path.is_file()}


def test_a_wheel_has_every_file_of_the_packages_compiled_parts_and_nothing_else(built: Built):
    parts = {f"sample_profiler/{name}{EXTENSION_SUFFIXES[0]}" for name in COMPILED}
    inside = {name for name in built.names if ".dist-info/" not in name}
    assert inside == files_of(built.source, *PACKAGES) | parts


def test_a_wheel_names_what_it_needs_and_its_command(built: Built):
    needed = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", built.metadata, re.MULTILINE)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    told = re.findall(r'"([\w-]+)>=', text.partition("\ndependencies = [")[2].partition("]")[0])
    assert needed == told and {"faster-fifo", "signal-slot-mp", "torch", "numpy", "gymnasium", "vizdoom"} <= set(needed)
    assert (built.site / "bin" / "sample-profiler").stat().st_mode & 0o111


def test_a_source_distribution_is_the_whole_repository(built: Built):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no clone")
    with tarfile.open(built.sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert set(filter(None, listed.stdout.split("\0"))) - names == set()


@pytest.mark.parametrize("which", ["built", "built_without_compiler"])
def test_examples_of_the_readme_run_from_a_wheel_with_and_without_a_compiler(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
):
    wheel: Built = request.getfixturevalue(which)
    kinds = "import sample_profiler as s, sample_profiler.profiling as p, sample_profiler.model.kernels.built as k\n"
    printed = wheel.run("-c", f"{kinds}print(s.__file__, p.TWIN, k.KERNELS)", folder=tmp_path)
    parts = "compiled compiled" if which == "built" else "pure Python PyTorch's"
    assert printed.strip() == f"{wheel.site / 'sample_profiler' / '__init__.py'} {parts}"
    (program,) = (each for each in code_blocks(ROOT / "README.md", "python") if "class Reach(" in each)
    (tmp_path / "reach.py").write_text(program, encoding="utf-8")
    small = ("--num_workers=2", "--train_for_env_steps=4000", "--batch_size=256", "--rollout=16", "--device=cpu")
    output = wheel.run("reach.py", *small, folder=tmp_path)
    assert re.search("env_step.*\n.*physics", output), output
    words = ("-m", "sf_examples.gym.train_gym", "--env=CartPole-v1", "--experiment=pole", "--transport=fifo")
    assert "Collected {0: " in wheel.run(*words, *small, folder=tmp_path)
    report = wheel.run("-m", "sample_profiler", "report", "train_dir/pole", "--format=text", folder=tmp_path)
    assert "Verdict on pole: " in report


def test_code_of_sample_factory_is_served_from_a_wheel(built: Built, tmp_path: Path):
    (tmp_path / "theirs.py").write_text("from sample_factory.cfg.arguments import parse_sf_args\nprint('served')\n")
    assert built.run("-m", "sample_profiler.compat", "-m", "theirs", folder=tmp_path).strip() == "served"


def test_whoever_installs_a_wheel_has_the_types_of_all_that_is_public(built: Built, tmp_path: Path):
    pytest.importorskip("mypy")
    names = re.findall(r"^[A-Za-z]\w+$", built.run("-c", PUBLIC, folder=tmp_path), re.MULTILINE)
    assert {"Run", "Timing", "load_policy", "train"} <= set(names)
    lines = ["import sample_profiler", *(f"reveal_type(sample_profiler.{name})" for name in names)]
    (tmp_path / "mine.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n[mypy-torch.*]\nfollow_imports = skip\n")
    told = built.run("-m", "mypy", "--cache-dir=/dev/null", "mine.py", folder=tmp_path)
    revealed = re.findall(r'^mine\.py:\d+: note: Revealed type is "(.*)"$', told, re.MULTILINE)
    assert len(revealed) == len(names) and [kind for kind in revealed if kind == "Any"] == [], told
