"""Points of event files, from any place on, and of what is only half written none."""

from __future__ import annotations

import numpy as np
import pytest

from sample_profiler.reports.tensorboard import SummaryFile
from sample_profiler.trackers import event_files
from sample_profiler.trackers.event_files import read_points


@pytest.fixture
def path(tmp_path):
    """Return the file that a run has written."""
    file = SummaryFile(tmp_path, 1)
    file.write({"reward/reward": 1.5, "len/len": float("inf")}, 100)
    file.add_text("perf/verdict", "**slow**", 200)
    file.add_image("mine/still", np.zeros((4, 4, 3), np.uint8), 300, "HWC")
    file.add_video("mine/film", np.zeros((1, 2, 3, 4, 4), np.uint8), 300)
    file.add_histogram("mine/spread", [1.0, 2.0], 400)
    file.write({"reward/reward": 2.5}, 500)
    file.close()
    return next(tmp_path.iterdir())


def read_all(path, start=0):
    found = []
    while (read := read_points(path, start))[1] != start:
        points, start = read
        found += points
    return found, start


def test_figures_texts_and_pictures_are_points_in_order(path):
    points, end = read_all(path)
    assert end == path.stat().st_size
    assert [point.step for point in points] == [100, 200, 300, 300, 400, 500]
    assert points[0].values == {"reward/reward": 1.5, "len/len": float("inf")}
    assert points[1].texts == {"perf/verdict": "**slow**"}
    assert points[2].pictures["mine/still"].startswith(b"\x89PNG")
    assert points[3].pictures["mine/film"].startswith(b"GIF8")
    assert (points[4].values, points[5].values) == ({}, {"reward/reward": 2.5})
    assert points[0].time_s <= points[5].time_s


def test_a_file_is_read_in_pieces(path, monkeypatch):
    whole = read_all(path)
    monkeypatch.setattr(event_files, "_MOST_BYTES", 1)
    assert len(read_points(path, 0)[0]) < 2
    assert read_all(path) == whole


def test_what_is_half_written_is_read_when_it_is_whole(path, tmp_path):
    data, growing = path.read_bytes(), tmp_path / "growing"
    found, start = [], 0
    for size in range(len(data) + 1):
        growing.write_bytes(data[:size])
        points, start = read_points(growing, start)
        found += points
        assert start <= size
    assert (found, start) == read_all(path)


def test_an_event_that_is_none_is_left_out(path):
    data = path.read_bytes()
    point = data.index(b"reward/reward") - 8  # in the middle of an event
    path.write_bytes(data[:point] + b"\xff" * 8 + data[point + 8 :])
    assert [point.step for point in read_all(path)[0]][-1] == 500
