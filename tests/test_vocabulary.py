"""Names on which rules rest are of the vocabulary, and somebody records each of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import sample_profiler
from sample_profiler import vocabulary

ROOT = Path(sample_profiler.__file__).parent
NAMES = {name: value for name, value in vars(vocabulary).items() if name.isupper()}
RECORDING = ("collector", "components", "envs", "ppo", "run", "runtime")
READING = ("analysis", "reports")
ALSO_WORDS = {
    "actors",
    "batcher",
    "components",
    "device",
    "forward",
    "fps",
    "frames",
    "inference",
    "learner",
    "observers",
    "ranks",
    "receive",
    "timers",
    "train",
}
"""What may be something else than a block or a gauge."""


def modules(*packages: str) -> Iterator[ast.Module]:
    for package in packages:
        for path in (ROOT / package).rglob("*.py"):
            yield ast.parse(path.read_text(encoding="utf-8"))


@cache
def names_used(*packages: str) -> set[str]:
    return {node.id for tree in modules(*packages) for node in ast.walk(tree) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_recorded_by_somebody_and_read_by_somebody(name: str) -> None:
    assert name in names_used(*RECORDING), "nobody records it any more: rules would be silent"
    assert name in names_used(*READING, "cli") or name.startswith("FOR_"), (
        "nobody reads it: it may stand where it is recorded"
    )


def test_rules_and_reports_name_blocks_and_gauges_by_the_vocabulary_alone() -> None:
    spelled = {
        node.value
        for tree in modules(*READING)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert spelled & (set(NAMES.values()) - ALSO_WORDS) == set()


def test_what_rules_read_of_a_load_is_of_the_vocabulary() -> None:
    """`load.blocks.get("…")` and the like would be silent if the block had another name."""
    read = {
        argument.value
        for tree in modules("analysis")
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "get"
        if isinstance(call.func.value, ast.Attribute)
        and call.func.value.attr in ("blocks", "counts", "gauges", "waits")
        for argument in call.args[:1]
        if isinstance(argument, ast.Constant)
    }
    assert read <= {"cpu_s", "run_delay_s", "memory_mib"}, "of every process, by the profiler itself"
