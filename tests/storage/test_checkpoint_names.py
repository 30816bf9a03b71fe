"""Names of checkpoints tell what is in them, and are names that a file can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_profiler.storage.checkpoint_names import best_name, metric_in_name, newest_frames, sorted_checkpoints

LONGEST_BYTES = 200


@pytest.mark.parametrize("value", [0.0, -1.5, 1e6, 1e15, -1e250, 1e-9])
@pytest.mark.parametrize("metric", ["reward", "z_00/ä", "報酬" * 100, "a" * 300])
def test_the_name_of_a_best_checkpoint_is_short_and_tells_the_metric(tmp_path, metric, value):
    name = best_name(10**17, 10**17, metric, value)
    assert len(name.encode()) <= LONGEST_BYTES
    (tmp_path / name).touch()
    assert sorted_checkpoints(tmp_path, "best") == [(10**17, tmp_path / name)]
    assert metric_in_name(Path(name), metric) == pytest.approx(value, rel=1e-3, abs=1e-3)


def test_names_tell_how_far_the_training_was(tmp_path):
    assert newest_frames(tmp_path, 1, "latest") == 0
    folder = tmp_path / "checkpoint_p1"
    folder.mkdir()
    for name in ("checkpoint_000000002_400.pth", "checkpoint_000000010_90.pth", "best_000000001_300_reward_1.000.pth"):
        (folder / name).touch()
    assert [newest_frames(tmp_path, 1, kind) for kind in ("latest", "best")] == [90, 300]
    assert newest_frames(tmp_path, 0, "best") == 0
