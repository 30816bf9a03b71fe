"""Facts about the machine by which two of them are told apart."""

from __future__ import annotations

import os

import pytest

from sample_profiler.profiling.process import machine as machine_facts
from sample_profiler.profiling.process.machine import describe_machine, processor_name


@pytest.fixture(autouse=True)
def looked_anew():
    """Have each test, and whatever comes after it, look at the files that are there then."""
    forget()
    yield
    forget()


def forget():
    processor_name.cache_clear()
    machine_facts._gpu_names.cache_clear()


def test_this_machine_is_described_in_plain_data():
    facts = describe_machine()
    assert facts.keys() >= {"host", "system", "processor", "num_cpus", "memory_gib", "python"}
    assert 1 <= facts["num_cpus"] <= len(os.sched_getaffinity(0))
    assert all(isinstance(value, str | int | float) and value for value in facts.values())


def test_a_processor_is_told_by_its_model(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel\t\t: 17\nmodel name\t: Fast 9000\nmodel name\t: Slow\n")
    monkeypatch.setattr(machine_facts, "_CPUS", tmp_path / "cpuinfo")
    assert processor_name() == "Fast 9000"


@pytest.mark.parametrize(
    ("entry", "has_them"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 amx_tile", True),
        ("flags\t\t: fpu amx_bf16", True),
        ("flags\t\t: fpu avx2 avx512f", False),
        ("Features\t: fp asimd bf16", True),
        ("Features\t: fp asimd", False),
        ("nothing\t: bf16", False),
    ],
)
def test_a_processor_has_instructions_for_bf16_or_not(entry, has_them, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{entry}\n")
    monkeypatch.setattr(machine_facts, "_CPUS", tmp_path / "cpuinfo")
    assert machine_facts.has_bf16_instructions() == has_them


def test_where_the_system_tells_no_model_the_architecture_has_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_facts, "_CPUS", tmp_path / "missing")
    assert processor_name() in (os.uname().machine, machine_facts.platform.processor())


def test_gpus_are_told_where_the_driver_tells(tmp_path, monkeypatch):
    for number, name in enumerate(("Large", "Small")):
        folder = tmp_path / f"0000:0{number}:00.0"
        folder.mkdir()
        (folder / "information").write_text(f"Model: \t\t {name}\nIRQ:   \t\t 60\n")
    for folder, gpus in ((tmp_path, "Large, Small"), (tmp_path / "missing", None)):
        forget()
        monkeypatch.setattr(machine_facts, "_NVIDIA_GPUS", folder)
        assert describe_machine().get("gpus") == gpus
