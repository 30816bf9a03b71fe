"""Tests of the help text and of the page that is generated from the same descriptions."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from sample_profiler.config import ModelOptions, describe_parts, format_help
from sample_profiler.config.assembly import all_flags
from sample_profiler.config.help import meanings_of

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class SquareOptions:
    """Squares."""

    size: int = 5
    """Cells along
    each side."""

    hidden: int = 3

    color: str = "a|b"
    """Color of every cell."""


@dataclass(frozen=True, kw_only=True)
class CubeOptions(SquareOptions):
    depth: int = 2
    """Cells in depth."""

    color: str = "red"
    """Color of every cube."""


def test_meanings_are_the_literals_under_the_fields():
    assert meanings_of(SquareOptions) == {"size": "Cells along each side.", "color": "Color of every cell."}


def test_meanings_are_inherited():
    assert meanings_of(CubeOptions) == {
        "size": "Cells along each side.",
        "color": "Color of every cube.",
        "depth": "Cells in depth.",
    }


def test_without_source_code_there_are_no_meanings():
    namespace: dict[str, type] = {}
    exec("class Typed:\n    size: int = 3\n    'Cells.'\n", namespace)
    assert meanings_of(namespace["Typed"]) == {}


def test_every_flag_has_a_meaning_that_ends_as_a_sentence():
    described = [flag for part in describe_parts() for flag in part.flags]
    assert [flag.name for flag in described] == list(all_flags())
    assert [flag.name for flag in described if not flag.meaning.endswith(".")] == []


def test_parts_have_titles():
    titles = [part.title for part in describe_parts([SquareOptions])]
    assert titles[0] == "Run" and titles[-1] == "Squares" and len(titles) == 15
    assert describe_parts([CubeOptions])[-1].title == "CubeOptions"


def test_help_shows_flag_default_meaning_and_what_is_allowed():
    text = format_help("train", extra_parts=[SquareOptions], defaults={"rollout": 64})
    assert text.startswith("Usage: train --env=NAME")
    allowed = "[a whole number, at least 1 and at most 1000000]"
    assert f"  --rollout (64)\n      Length of one trajectory in agent steps. {allowed}\n" in text
    assert "  --env (required)\n" in text
    assert "  --num_workers (number of usable cores)\n" in text
    assert "  --decoder_mlp_layers (empty)\n" in text
    assert "  --encoder_mlp_layers (512 512)\n" in text
    assert "\nSquares:\n  --size (5)\n" in text


def test_help_lists_every_flag_and_keeps_its_width():
    text = format_help("train")
    assert all(f"\n  --{name} (" in text for name in all_flags())
    assert max(len(line) for line in text.splitlines()) <= 103


def test_widths_of_layers_are_described_as_lists():
    (part,) = [part for part in describe_parts() if part.title == "Model"]
    layers = next(flag for flag in part.flags if flag.name == "encoder_mlp_layers")
    assert layers.allowed == "a list of whole numbers, each at least 1 and at most 65536"
    assert layers.default == "512 512" and ModelOptions().encoder_mlp_layers == (512, 512)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "scripts" / "make_configuration_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_all_flags_is_up_to_date(script: ModuleType):
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == script.make_page(), "run make docs"


def test_the_page_has_every_flag_and_nothing_of_this_machine(script: ModuleType, monkeypatch: pytest.MonkeyPatch):
    page = script.make_page()
    assert all(f"| `--{name}` |" in page for name in all_flags())
    assert "| `--res_w` | `128` |" in page
    assert re.search(r"^\| `--use_rnn` \| +\| `False` \| `False` \| `False` \| `True` \|$", page, re.MULTILINE)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(77)), raising=False)
    assert script.make_page() == page


def test_the_script_writes_and_compares(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script.PATH = tmp_path / "docs" / "configuration.md"
    assert script.main(["--check"]) == 1 and "make docs" in capsys.readouterr().err
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    script.PATH.write_text("old")
    assert script.main(["--check"]) == 1
    assert script.main(["--chek"]) == 2
