"""Whether two sessions are of one machine."""

from __future__ import annotations

import pytest

from sample_profiler.analysis.comparing.costs import different_machines
from sample_profiler.profiling.session.session import Session
from tests.reports.records import make_record

MACHINE = {
    "host": "here",
    "system": "Linux 6",
    "processor": "Fast 9000",
    "num_cpus": 8,
    "memory_gib": 64,
    "gpus": "Large",
    "python": "3.11.1",
}


def test_one_machine_does_not_differ_from_itself():
    assert different_machines(Session(0.0, machine=MACHINE), Session(1.0, machine=dict(MACHINE))) == []


@pytest.mark.parametrize(("one", "other", "is_same"), [(15.4, 15.6, True), (15.5, 16, True), (15.5, 17.5, False)])
def test_memory_may_differ_by_what_kernels_take_of_it(one, other, is_same):
    sessions = [Session(0.0, machine=MACHINE | {"memory_gib": memory_gib}) for memory_gib in (one, other)]
    assert different_machines(*sessions) == ([] if is_same else [f"memory_gib {one} and {other}"])


@pytest.mark.parametrize(
    ("fact", "other", "difference"),
    [
        ("processor", "Slow 100", "processor Fast 9000 and Slow 100"),
        ("memory_gib", 32, "memory_gib 64 and 32"),
        ("gpus", None, "gpus Large and unknown"),
        ("num_cpus", 4, "num_cpus 8 and 4"),
    ],
)
def test_machines_of_one_name_are_told_apart(fact, other, difference):
    machine = {name: value for name, value in (MACHINE | {fact: other}).items() if value is not None}
    assert different_machines(Session(0.0, machine=MACHINE), Session(0.0, machine=machine)) == [difference]


def test_records_that_were_read_elsewhere_tell_their_machines_by_name():
    one, other = (Session(0.0, processes=[make_record(host=host)]) for host in ("one", "other"))
    assert different_machines(one, other) == ["host one and other"]
    assert different_machines(one, one) == []


def test_two_machines_of_which_nothing_is_known_are_not_taken_for_one():
    unknown = Session(0.0, processes=[make_record(host="")])
    assert different_machines(unknown, unknown) == ["host unknown and unknown"]
