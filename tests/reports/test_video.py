"""Videos of what environments render: whole or not at all, and as large as what was rendered."""

from __future__ import annotations

import errno
import subprocess

import numpy as np
import pytest

from sample_profiler.errors import VideoError
from sample_profiler.reports.video import VideoWriter

pytest.importorskip("imageio")
imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")


@pytest.fixture
def writer(tmp_path):
    return VideoWriter(tmp_path / "replay", 10.0)


def read(path):
    """Return the frames of a video; imageio's own reader leaves pipes open."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", path, "-f", "image2pipe", "-vcodec", "ppm", "-"]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    frames = []
    while data:
        _, size, _, data = data.split(b"\n", 3)
        width, height = map(int, size.split())
        num_bytes = width * height * 3
        frames.append(np.frombuffer(data[:num_bytes], np.uint8).reshape(height, width, 3))
        data = data[num_bytes:]
    return frames


@pytest.mark.parametrize(("height", "width"), [(40, 64), (41, 64), (40, 63), (41, 63), (2, 2), (1, 1)])
def test_frames_keep_their_size_but_for_one_row_and_column_more_where_they_are_odd(writer, height, width):
    for value in (0, 100, 200):
        writer.add(np.full((height, width, 3), value, np.uint8))
    writer.close()
    frames = read(writer.path)
    assert [frame.shape for frame in frames] == [(height + height % 2, width + width % 2, 3)] * 3
    assert [round(frame.mean(), -2) for frame in frames] == [0, 100, 200]
    assert writer.num_frames == 3
    assert list(writer.path.parent.iterdir()) == [writer.path]


@pytest.mark.parametrize(
    ("frame", "given"),
    [
        (np.zeros((3, 40, 64), np.uint8), r"an array \[3, 40, 64\] of uint8"),
        (np.zeros((40, 64, 3), np.float32), r"an array \[40, 64, 3\] of float32"),
        (np.zeros((40, 64), np.uint8), r"an array \[40, 64\] of uint8"),
        (np.zeros((0, 64, 3), np.uint8), r"an array \[0, 64, 3\] of uint8"),
        ([np.zeros((40, 64, 3), np.uint8)], "of type list"),
        (None, "of type NoneType"),
    ],
)
def test_what_is_no_picture_is_an_error_that_says_what_is_and_costs_no_earlier_video(writer, frame, given):
    writer.path.write_bytes(b"earlier")
    with pytest.raises(VideoError, match=rf"{given}: .*\[height, width, 3\] of uint8"):
        writer.add(frame)
    writer.close()
    assert writer.num_frames == 0
    assert writer.path.read_bytes() == b"earlier"
    assert list(writer.path.parent.iterdir()) == [writer.path]


def test_an_earlier_video_stays_until_the_new_one_is_whole(writer):
    writer.path.write_bytes(b"earlier")
    writer.add(np.zeros((40, 64, 3), np.uint8))
    assert writer.path.read_bytes() == b"earlier"
    writer.close()
    assert len(read(writer.path)) == 1


def test_frames_of_another_size_are_an_error_and_those_before_are_kept(writer):
    writer.add(np.zeros((40, 64, 3), np.uint8))
    with pytest.raises(VideoError, match=r"\[40, 62, 3\], the first was \[40, 64, 3\]"):
        writer.add(np.zeros((40, 62, 3), np.uint8))
    writer.close()
    assert len(read(writer.path)) == 1


def test_a_video_that_cannot_be_written_is_an_error_and_costs_no_earlier_one(writer, monkeypatch):
    writer.path.write_bytes(b"earlier")
    writer.add(np.zeros((40, 64, 3), np.uint8))

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer._writer, "append_data", fail)
    with pytest.raises(VideoError, match="cannot be written: No space left on device"):
        writer.add(np.zeros((40, 64, 3), np.uint8))
    writer.close()
    assert writer.path.read_bytes() == b"earlier"
    assert list(writer.path.parent.iterdir()) == [writer.path]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    writer = VideoWriter(tmp_path / "missing" / "replay", 10.0)
    with pytest.raises(VideoError, match="cannot be written"):
        writer.add(np.zeros((40, 64, 3), np.uint8))
        writer.close()
    writer.close()
