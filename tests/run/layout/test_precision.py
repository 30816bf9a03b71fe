"""What --precision comes to on a machine."""

from __future__ import annotations

import logging

import pytest
import torch

from sample_profiler.run.layout import precision as precision_module
from sample_profiler.run.layout.precision import choose_precision


@pytest.fixture(params=[True, False], ids=["instructions", "none"], name="has_them")
def instructions(request, monkeypatch):
    monkeypatch.setattr(precision_module, "has_bf16_instructions", lambda: request.param)
    monkeypatch.setattr(precision_module, "processor_name", lambda: "Slow 9000")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 6) if request.param else (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Slow 9000")
    return request.param


@pytest.mark.parametrize(("device", "what"), [("cpu", "processor"), ("cuda", "GPU")])
def test_bf16_where_there_are_no_instructions_for_it_is_warned_of(has_them, device, what, caplog):
    assert choose_precision("bf16", device) == "bf16", "it is what was asked for"
    assert [record.getMessage() for record in caplog.records] == ([] if has_them else [
        f"--precision=bf16: the {what} (Slow 9000) has no instructions for bf16, so that it is slower than fp32: use "
        "--precision=fp32, or auto, which chooses"
    ])  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_auto_takes_bf16_only_where_there_are(has_them, device, caplog):
    with caplog.at_level(logging.INFO):
        assert choose_precision("auto", device) == ("bf16" if has_them else "fp32")
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert ("Precision bf16: there are instructions" if has_them else "Precision fp32: the ") in record.getMessage()


def test_fp32_asks_nobody(has_them, caplog):
    assert choose_precision("fp32", "cpu") == "fp32" and not caplog.records
