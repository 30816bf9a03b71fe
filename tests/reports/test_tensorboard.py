"""TensorBoard files, as TensorBoard reads them."""

from __future__ import annotations

import math

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sample_profiler.reports.tensorboard import SummaryFile


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


@pytest.mark.parametrize("value", [3, True])
def test_whole_numbers_become_scalars(tmp_path, value):
    writer = SummaryFile(tmp_path, flush_interval_s=30)
    writer.write({"x": value}, step=1)
    writer.close()
    assert read(tmp_path) == {"x": [(1, float(value))]}


def test_a_tag_of_which_utf_8_has_no_bytes_is_written_with_what_it_has(tmp_path):
    writer = SummaryFile(tmp_path, flush_interval_s=30)
    writer.write({"a\ud800": 1.5}, step=3)
    writer.add_text("b\ud800", "text", step=3)
    writer.close()
    assert read(tmp_path) == {"a\\ud800": [(3, 1.5)]}
