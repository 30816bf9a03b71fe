"""A tracker's package that is none, and a run's folder."""

from __future__ import annotations

import pytest

from tests.trackers import fake_trackio
from tests.trackers.conftest import make_run, write_points

__all__ = ["make_run", "write_points"]


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Return what has Python find a package in the place of Trackio's, and return what that is told."""

    def install(hangs_in=""):
        folder, told = tmp_path / "packages", tmp_path / "told"
        folder.mkdir()
        fake_trackio.install(folder, told, hangs_in)
        monkeypatch.syspath_prepend(folder)
        return lambda: fake_trackio.told_to(told)

    return install
