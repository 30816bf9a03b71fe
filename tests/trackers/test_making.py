"""Whether a tracker's package is there is known without importing it."""

from __future__ import annotations

import sys

import pytest

from sample_profiler.trackers.making import TRACKERS, describe_missing


@pytest.fixture
def nothing_installed(monkeypatch, tmp_path):
    """Python finds packages in one folder alone."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in TRACKERS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.parametrize("name", TRACKERS)
def test_a_package_is_missing_unless_it_is_there(nothing_installed, name):
    text = f"{name} is not installed: pip install 'sample_profiler[{name}]'"
    assert describe_missing(name) == text
    (nothing_installed / name).mkdir()  # as Weights & Biases makes for its files
    assert describe_missing(name) == text
    (nothing_installed / name / "__init__.py").touch()
    assert describe_missing(name) == ""
