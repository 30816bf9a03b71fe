"""Names of checkpoints tell what is in them, and are names that a file can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_profiler.storage.checkpoint_names import best_name, metric_in_name, sorted_checkpoints

LONGEST_BYTES = 200


@pytest.mark.parametrize("value", [0.0, -1.5, 1e6, 1e15, -1e250, 1e-9])
@pytest.mark.parametrize("metric", ["reward", "z_00/ä", "報酬" * 100, "a" * 300])
def test_the_name_of_a_best_checkpoint_is_short_and_tells_the_metric(tmp_path, metric, value):
    name = best_name(10**17, 10**17, metric, value)
    assert len(name.encode()) <= LONGEST_BYTES
    (tmp_path / name).touch()
    assert sorted_checkpoints(tmp_path, "best") == [(10**17, tmp_path / name)]
    assert metric_in_name(Path(name), metric) == pytest.approx(value, rel=1e-3, abs=1e-3)
