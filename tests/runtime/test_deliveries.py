"""What a component delivers of itself: whole each time, also from timers outside of it, also when it fails."""

from __future__ import annotations

import os

import pytest
from spawned_components import Spawned, raise_error

from sample_profiler.profiling.timer_documents import WorkerTimers
from sample_profiler.profiling.timers import hierarchical_timer, reset_timers
from sample_profiler.runtime.channels import LocalReports
from sample_profiler.runtime.deliveries import DeliveringComponent, process_gauges


@pytest.fixture(autouse=True)
def _reset_timers():
    reset_timers()
    yield
    reset_timers()


@pytest.fixture
def reports():
    return LocalReports()


def take_deliveries(reports):
    return [report for report in reports.receive() if isinstance(report, WorkerTimers)]


def deliver(component):
    """Do what the loop does when the last of the component's timers is due."""
    component.timers()[-1].callback()


def test_each_delivery_has_everything_since_the_start(reports):
    spawned = Spawned(reports)
    component = DeliveringComponent(spawned, reports, is_alone=False)
    for _ in range(2):
        with spawned.timing.add_time("work"):
            pass
        deliver(component)
    first, second = take_deliveries(reports)
    assert (first.worker, first.group, first.process) == ("Spawned", "Spawned", os.getpid())
    assert first.root.children["work"].count == 1, "a delivery does not change after it was sent"
    assert second.root.children["work"].count == 2
    assert (first.gauges["always"].count, second.gauges["always"].count) == (1, 2)
    assert second.gauges["always"].value == 1.5


def test_components_of_one_kind_share_a_group(reports):
    spawned = Spawned(reports)
    spawned.name = "InferenceWorker_p0-w3"
    deliver(DeliveringComponent(spawned, reports, is_alone=False))
    (delivery,) = take_deliveries(reports)
    assert (delivery.worker, delivery.group) == ("InferenceWorker_p0-w3", "InferenceWorker")


@pytest.mark.parametrize("is_alone", [True, False])
def test_timers_and_memory_of_the_process_belong_to_a_component_that_is_alone_in_it(reports, is_alone):
    component = DeliveringComponent(Spawned(reports), reports, is_alone=is_alone)
    with hierarchical_timer("in an environment"):
        pass
    deliver(component)
    (delivery,) = take_deliveries(reports)
    assert ("in an environment" in delivery.root.children) == is_alone
    assert ("memory_mib" in delivery.gauges) == is_alone


def test_the_last_delivery_comes_when_the_component_has_finished_even_badly(reports):
    DeliveringComponent(Spawned(reports), reports, is_alone=False).finish()
    assert [type(report) for report in reports.receive()] == [str, WorkerTimers]
    with pytest.raises(ValueError, match="broken on purpose"):
        DeliveringComponent(Spawned(reports, finish=raise_error), reports, is_alone=False).finish()
    assert len(take_deliveries(reports)) == 1


def test_a_component_keeps_its_own_timers_and_inputs(reports):
    spawned = Spawned(reports)
    component = DeliveringComponent(spawned, reports, is_alone=False)
    assert component.inputs() == spawned.inputs()
    assert len(component.timers()) == 1 + len(spawned.timers())
    assert (component.name, component.timing) == (spawned.name, spawned.timing)
    assert component.wait_block() == "wait_test"


def test_processes_measure_themselves():
    gauges = process_gauges()
    assert gauges["memory_mib"] > 5
    assert gauges["cpu_s"] > 0
    assert all(value >= 0 for value in gauges.values())
