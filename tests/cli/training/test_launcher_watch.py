"""A rank fails when its launcher is gone."""

from __future__ import annotations

import pytest

from sample_profiler.cli.training.launcher_watch import LauncherWatch
from sample_profiler.errors import RankError
from sample_profiler.runtime.processes.launcher_gone import Launcher


def test_a_rank_fails_when_its_launcher_is_gone_and_not_before() -> None:
    this = Launcher.this()
    LauncherWatch(this).on_status(None)  # type: ignore[arg-type]
    with pytest.raises(RankError, match=rf"whoever has started this rank \(process {this.pid}\) is gone"):
        LauncherWatch(Launcher(this.pid, this.start_ticks + 1)).on_status(None)  # type: ignore[arg-type]
