"""A simulator, inference and training in one process, with a device or without."""

from __future__ import annotations

import pytest

from sample_profiler.analysis.device_use import device_use
from sample_profiler.reports.sections.accounts import format_device
from tests.analysis.made_runs import judge_run, load


def judge_one_process(*, simulating=0.3, training=0.3, waited=0.5, work=0.5, has_device=True, config=None):
    """A run whose simulator and training have these shares of the time of a device, or of the process."""
    steps = {"env_step": simulating + 0.05, "env_step/simulate": simulating}
    drawing = {"handle_policy_step/forward": 0.03, "handle_policy_step/obs_to_device_normalize": 0.01}
    learning = {"train": training, "train/update": training / 2}
    measured = [steps, drawing, learning] if has_device else [{}, {}, {}]
    loads = [
        load("RolloutWorker_w0", work / 4, {"device": waited / 2}, blocks=steps, device=measured[0]),
        load("InferenceWorker_p0-w0", work / 4, blocks={"handle_policy_step": 0.1}, device=measured[1]),
        load("Learner_0", work / 2, {"device": waited / 2}, learning, {"train": 100}, device=measured[2]),
    ]
    return judge_run(*loads, is_serial=True, config=config), device_use(loads)


@pytest.mark.parametrize(
    ("figures", "cause", "component"),
    [
        ({"simulating": 0.6, "training": 0.2}, "simulator", "RolloutWorker_w0"),
        ({"simulating": 0.2, "training": 0.6}, "learner", "Learner_0"),
        ({"simulating": 0.6, "training": 0.2, "waited": 0.02, "work": 0.9}, "launches", "Learner_0"),
        ({"simulating": 0.3, "training": 0.2}, "serial", "Learner_0"),
        ({"simulating": 0.6, "training": 0.2, "has_device": False, "waited": 0.0}, "simulator", "RolloutWorker_w0"),
        ({"simulating": 0.3, "training": 0.6, "has_device": False, "waited": 0.0}, "serial", "Learner_0"),
    ],
)
def test_who_has_the_device(figures, cause, component):
    verdict, _ = judge_one_process(**figures)
    assert (verdict.cause, verdict.component) == (cause, component)


def test_the_share_of_the_simulator_is_told():
    verdict, _ = judge_one_process(simulating=0.6, training=0.2)
    assert verdict.headline == "The simulator is the limit: the run is 60 % of it"
    assert verdict.evidence == (
        "RolloutWorker_w0: the simulator takes 60 % of the device's time",
        "of the device's time: simulation 60 %, training 20 %, rest of steps 5 %, inference 4 %, nobody 11 %",
    )


def test_fewer_epochs_are_advised_where_there_are_several():
    verdict, _ = judge_one_process(simulating=0.1, training=0.8, config={"num_epochs": 4})
    assert verdict.advice[0].change == "--num_epochs=3"
    assert verdict.advice[0].fps[1] > 5000


def test_blocks_within_measured_blocks_count_once():
    _, use = judge_one_process(simulating=0.4, training=0.3)
    assert {what: pytest.approx(share) for what, share in use.parts.items()} == {
        "simulation": 0.4, "rest of steps": 0.05, "inference": 0.04, "training": 0.3,
    }  # fmt: skip
    assert use.busy == pytest.approx(0.79)
    assert use.waited == 0.5


def test_the_line_of_the_device():
    _, use = judge_one_process(simulating=0.4, training=0.3)
    assert format_device(use) == (
        "device (steady part)  busy 79%: simulation 40%, training 30%, rest of steps 5.0%, inference 4.0%; idle 21%; "
        "the host waited for it 50%"
    )
    assert format_device(None) == ""


def test_without_a_device_there_is_no_use_of_it():
    assert judge_one_process(has_device=False)[1] is None
