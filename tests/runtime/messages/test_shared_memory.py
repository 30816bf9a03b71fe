"""Shared memory: the same bytes everywhere, zeroed, aligned, without a name."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest
from spawned_components import make_squarer

from sample_profiler.runtime.messages.channels import PipeEnd
from sample_profiler.runtime.messages.shared_memory import SharedArrays, SharedBlock
from sample_profiler.runtime.processes.child import ChildSettings

SPECS = {
    "flags": ((3,), np.bool_),
    "numbers": ((2, 3), np.int32),
    "empty": ((0, 5), np.float32),
    "scalar": ((), np.float64),
    "images": ((2, 5, 7), np.uint8),
    "squares": ((2, 3), np.int64),
}


def test_arrays_have_their_shapes_and_types_and_begin_zeroed():
    arrays = SharedArrays(SPECS)
    for name, (shape, dtype) in SPECS.items():
        assert arrays[name].shape == shape
        assert arrays[name].dtype == dtype
        assert not arrays[name].any()


def test_no_array_reaches_into_another():
    arrays = SharedArrays(SPECS)
    for number, name in enumerate(SPECS, start=1):
        arrays[name][...] = number
    for number, name in enumerate(SPECS, start=1):
        assert (arrays[name] == arrays[name].dtype.type(number)).all(), name


def test_every_array_begins_on_a_cache_line_of_its_own():
    arrays = SharedArrays(SPECS)
    starts = [arrays[name].__array_interface__["data"][0] for name in SPECS if arrays[name].size]
    assert {start % 64 for start in starts} == {starts[0] % 64} == {0}
    assert len(set(starts)) == len(starts)
    assert arrays.num_bytes % 64 == 0


def test_an_unknown_name_is_a_key_error():
    with pytest.raises(KeyError):
        SharedArrays(SPECS)["nothing"]


def test_nothing_at_all_can_be_shared_too():
    assert SharedArrays({}).num_bytes == 1
    assert SharedArrays({"empty": ((0,), np.int32)})["empty"].shape == (0,)


def test_a_spawned_process_sees_and_changes_the_same_memory(supervisor, await_report):
    arrays, block = SharedArrays(SPECS), SharedBlock(10)
    arrays["numbers"][:] = [[1, 2, 3], [4, 5, -60_000]]
    child = supervisor.spawn(ChildSettings("Squarer"), partial(make_squarer, arrays=arrays, block=block))
    await_report(child, lambda report: report == "written")
    assert arrays["squares"].tolist() == [[1, 4, 9], [16, 25, 3_600_000_000]]
    assert not arrays["images"].any()
    # The other process has resized the block: this one sees that when it does, too.
    block.resize(8192)
    assert block.memory[8191] == 42


def test_resizing_keeps_what_was_there_and_old_views_stay_valid():
    block = SharedBlock(100)
    block.memory[:3] = b"abc"
    view = np.frombuffer(block.memory, np.uint8)
    block.resize(10_000)
    assert block.num_bytes == 10_000
    assert block.memory[:3] == b"abc"
    block.memory[0] = 7
    assert view[0] == 7


def test_shared_memory_has_no_name_in_any_file_system():
    block = SharedBlock(64)
    assert os.fstat(block._descriptor).st_nlink == 0


def test_descriptors_are_not_passed_on_to_programs_that_this_process_starts():
    block = SharedBlock(64)
    assert not os.get_inheritable(block._descriptor)
    end = PipeEnd(os.open("/dev/null", os.O_RDONLY))
    assert not os.get_inheritable(end.fileno())
    end.close()


def test_systems_without_memfd_share_through_an_unlinked_file(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    block = SharedBlock(64)
    block.memory[0] = 1
    assert os.fstat(block._descriptor).st_nlink == 0
    assert os.pread(block._descriptor, 1, 0) == b"\x01"
