"""Each faulty environment is named by its fault, and by no other."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config
from sample_profiler.doctor.long_play import Limits
from sample_profiler.doctor.process import diagnose
from sample_profiler.envs import register_env, registry
from tests.doctor.faulty_envs import FAULTS, make

LIMITS = Limits(seconds=60.0, num_steps=3_000, short_seconds=5.0, num_short_steps=100)  # a busy machine is slow

pytestmark = pytest.mark.whole_run


@pytest.fixture
def diagnosis_of(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})

    def diagnosis_of(name):
        register_env(name, make)
        return diagnose(parse_config([f"--env={name}", "--hang_timeout=3"]), LIMITS)

    return diagnosis_of


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named_and_no_other(diagnosis_of, name):
    diagnosis = diagnosis_of(name)
    assert {finding.name for finding in diagnosis.findings} == FAULTS[name][1], diagnosis.findings
    assert all(finding.evidence and finding.cure for finding in diagnosis.findings)
