"""A status of a run to show, and a root logger that is as before in the end."""

from __future__ import annotations

import logging

import pytest

from sample_profiler.run.records.statistics import RunStatus


@pytest.fixture
def make_status():
    def make(**changes):
        values = {
            "elapsed_s": 12.0,
            "frames": {0: 12_000, 1: 3_000},
            "target_frames": 24_000,
            "fps": {10: 1234.5, 60: 1000.4, 300: 999.0},
            "sampled_frames": 16_000,
            "episodes": {0: {"reward": 1.25, "len": 300.0, "kills": 3.0}, 1: {}},
            "num_episodes": {0: 4, 1: 0},
            "policy_lag": {0: (1.25, 4.0), 1: (0.0, 0.0)},
            "training": {0: {"train/loss": 0.5}},
            "progress": 0.125,
        }
        return RunStatus(**(values | changes))

    return make


@pytest.fixture(autouse=True)
def _restore_root_logger():
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    assert [handler for handler in root.handlers if handler not in handlers] == [], "a log handler was left behind"
