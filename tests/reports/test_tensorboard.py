"""TensorBoard files, as TensorBoard reads them."""

from __future__ import annotations

import io
import math
import shutil
import time

import numpy as np
import pytest
import torch
from PIL import Image, ImageSequence
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sample_profiler.reports.tensorboard import SummaryFile

PICTURE = np.arange(18, dtype=np.uint8).reshape(2, 3, 3) * 10


def read(folder):
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in accumulator.Scalars(tag)] for tag in tags}


def test_what_was_written_is_read_with_its_tags_and_steps(tmp_path):
    writer = SummaryFile(tmp_path / "summary" / "0", flush_interval_s=30)
    writer.write({"reward/reward": 1.5, "perf/_fps": 20_000.0}, step=1024)
    writer.write({"reward/reward": -2.0}, step=2**40)
    writer.close()
    assert read(tmp_path / "summary" / "0") == {
        "reward/reward": [(1024, 1.5), (2**40, -2.0)],
        "perf/_fps": [(1024, 20_000.0)],
    }


def test_figures_are_written_on_where_the_folder_was_removed(tmp_path):
    folder = tmp_path / "summary" / "0"
    writer = SummaryFile(folder, flush_interval_s=30)
    writer.write({"reward/reward": 1.0}, step=1)
    while not sum(path.stat().st_size for path in folder.glob("*")):  # what is on disk is lost; the rest is not
        time.sleep(0.01)
    shutil.rmtree(folder.parent)
    writer.write({"reward/reward": 2.0}, step=2)
    writer.close()
    assert read(folder) == {"reward/reward": [(2, 2.0)]}


def read_values(folder):
    accumulator = EventAccumulator(str(folder), size_guidance={"tensors": 0, "images": 0, "histograms": 0})
    accumulator.Reload()
    return accumulator


def test_a_histogram_counts_the_finite_values(tmp_path):
    writer = SummaryFile(tmp_path, flush_interval_s=30)
    writer.add_histogram("mine/spread", np.array([[0.0, 1.0, 1.0], [4.0, math.nan, math.inf]]), 64, bins=4)
    writer.add_histogram("mine/none", [math.nan], 64)
    writer.close()
    read = read_values(tmp_path)
    assert read.Tags()["histograms"] == ["mine/spread"]
    (event,) = read.Histograms("mine/spread")
    histogram = event.histogram_value
    assert (event.step, histogram.num, histogram.min, histogram.max, histogram.sum) == (64, 4, 0, 4, 6)
    assert (histogram.sum_squares, histogram.bucket) == (18, [1, 2, 0, 1])
    assert histogram.bucket_limit == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("image", "layout"),
    [
        (PICTURE, "HWC"),
        (PICTURE.transpose(2, 0, 1), "CHW"),
        (torch.from_numpy(PICTURE / 255), "HWC"),
        (PICTURE[..., :1], "HWC"),
        (PICTURE[..., 0], "HW"),
    ],
)
def test_pictures_are_read_as_they_were_written(tmp_path, image, layout):
    writer = SummaryFile(tmp_path, flush_interval_s=30)
    writer.add_image("mine/view", image, 7, dataformats=layout)
    writer.close()
    (event,) = read_values(tmp_path).Images("mine/view")
    assert (event.step, event.height, event.width) == (7, 2, 3)
    pixels = np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))
    assert (pixels == (PICTURE if pixels.ndim == 3 else PICTURE[..., 0])).all()


def test_videos_are_shown_side_by_side(tmp_path):
    video = np.zeros((2, 3, 1, 4, 5), np.uint8)
    video[0, 1], video[1, 2] = 255, 255
    writer = SummaryFile(tmp_path, flush_interval_s=30)
    writer.add_video("mine/play", video, 7, fps=10)
    writer.close()
    (event,) = read_values(tmp_path).Images("mine/play")
    gif = Image.open(io.BytesIO(event.encoded_image_string))
    frames = [np.asarray(frame.convert("L")) for frame in ImageSequence.Iterator(gif)]
    assert (gif.size, gif.info["duration"], len(frames)) == ((10, 4), 100, 3)
    assert [[frame[0, 0], frame[0, 9]] for frame in frames] == [[0, 0], [255, 0], [0, 255]]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda to: to.add_image("a", PICTURE, 0, "WHC"), "cannot be 'WHC'; allowed are CHW, HWC, HW"),
        (lambda to: to.add_image("a", PICTURE, 0, "HW"), r"a picture HW has 2 axes, .* shape \(2, 3, 3\)"),
        (lambda to: to.add_image("a", PICTURE, 0), "a picture has 1, 3 or 4 channels, and this one has 2"),
        (lambda to: to.add_video("a", PICTURE, 0), r"a video is \[videos, frames, channels, height, width\]"),
        (lambda to: to.add_video("a", np.zeros((1, 0, 3, 2, 2)), 0), "a video is"),
    ],
)
def test_what_is_no_picture_is_refused(tmp_path, write, message):
    with pytest.raises(ValueError, match=f"^a: .*{message}"):
        write(SummaryFile(tmp_path, flush_interval_s=30))


def test_numbers_that_are_not_finite_are_written_as_they_are(tmp_path):
    writer = SummaryFile(tmp_path, flush_interval_s=30)
    writer.write({"nan": math.nan, "inf": math.inf}, step=0)
    writer.close()
    values = read(tmp_path)
    assert math.isnan(values["nan"][0][1])
    assert values["inf"][0][1] == math.inf


def test_nothing_to_write_is_fine(tmp_path):
    writer = SummaryFile(tmp_path, flush_interval_s=0.01)
    writer.write({}, step=0)
    writer.close()
    assert read(tmp_path) == {}


def test_each_writer_has_a_file_of_its_own(tmp_path):
    """A run that is resumed goes on in the same folder."""
    for step in range(2):
        writer = SummaryFile(tmp_path, flush_interval_s=30)
        writer.write({"x": float(step)}, step)
        writer.close()
    assert len(list(tmp_path.glob("events.out.tfevents*"))) >= 1
    assert read(tmp_path)["x"] == [(0, 0.0), (1, 1.0)]


def test_closing_writes_what_is_left(tmp_path):
    writer = SummaryFile(tmp_path, flush_interval_s=10_000)
    for step in range(100):
        writer.write({"x": float(step)}, step)
    writer.close()
    assert len(read(tmp_path)["x"]) == 100
    writer.write({"x": 100.0}, 100)  # after its end: in a file of its own
    writer.close()
    assert len(read(tmp_path)["x"]) == 101


@pytest.mark.parametrize("value", [3, True])
def test_whole_numbers_become_scalars(tmp_path, value):
    writer = SummaryFile(tmp_path, flush_interval_s=30)
    writer.write({"x": value}, step=1)
    writer.close()
    assert read(tmp_path) == {"x": [(1, float(value))]}


def test_a_tag_of_which_utf_8_has_no_bytes_is_written_with_what_it_has(tmp_path):
    writer = SummaryFile(tmp_path, flush_interval_s=30)
    writer.write({"a\ud800": 1.5}, step=3)
    writer.add_text("b\ud800", "text", global_step=3)
    writer.close()
    assert read(tmp_path) == {"a\\ud800": [(3, 1.5)]}
