"""What a file may unfold to: all that genuine ones do, and nothing that takes all memory or has no end."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

import pytest
import torch

from sample_profiler.errors import CheckpointError
from sample_profiler.storage import size_limits as unfolding
from sample_profiler.storage.size_limits import check_size


def check(state: Any) -> None:
    file = io.BytesIO()
    torch.save(state, file)
    check_size(torch.load(io.BytesIO(file.getvalue()), weights_only=True), len(file.getvalue()))


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


WEIGHTS = torch.zeros(1 << 20)
LIST = list(range(100))
WIDE = [LIST] * 100_000


@pytest.mark.parametrize(
    "state",
    [
        {"a": [1, (2.5, "x", None)], "b": {"c": {1, 2}}},
        OrderedDict({f"part_{number}": WEIGHTS for number in range(8)}),
        {"mask": torch.ones(1).expand(1 << 20)},
        [LIST, LIST, ()] * 100,
        [None] * 3_000_000,
        torch.zeros(0, 5),
        3,
    ],
    ids=["plain", "shared weights", "small and expanded", "shared list", "long", "no numbers", "a number"],
)
def test_genuine_data_is_taken(state):
    check(state)


@pytest.mark.parametrize(
    "state",
    [
        *(WIDE, [WIDE] * 1000, {"a": endless()}, {(1, 2): endless()}),
        *(torch.zeros(1).expand(1 << 30), [WEIGHTS] * 100, {"a": [torch.zeros(1 << 20, 1).expand(-1, 1 << 20)]}),
    ],
    ids=["wide", "wider", "endless", "endless too", "expanded", "many views", "expanded in a list"],
)
def test_what_unfolds_to_far_more_is_refused(state):
    with pytest.raises(CheckpointError, match="bytes unfold to far more"):
        check(state)


def test_little_memory_is_needed_to_find_that_out(monkeypatch):
    monkeypatch.setattr(unfolding, "_SPARE_VALUES", 1000)
    value: list[Any] = []
    value += [value] * 100_000
    with pytest.raises(CheckpointError, match="far more"):
        check_size(value, 200_000)


@pytest.mark.parametrize(
    "tensor",
    [torch.empty(2**40, device="meta"), torch.zeros(2**30, 2**30, layout=torch.sparse_coo)],
    ids=["meta", "sparse"],
)
def test_tensors_without_memory_of_their_own_are_refused(tensor):
    with pytest.raises(CheckpointError, match="without memory of their own"):
        check_size({"a": tensor}, 10**9)
