"""Moving data to a device and back, told from what the device computes."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config
from tests.analysis.made_runs import inference, judge_run, learner, most_fps, worker

GATHERING = "train/calculate_losses/forward_head/gather_observations"
GATHERING_TO_PREPARE = "prepare_batch/gather_observations"
GATHERING_TO_NORMALIZE = "update_normalizer/gather_observations"


def judge_learner(preparing=0.0, gathering=0.0, waits=0.4, config=None, more_blocks=None, busy=0.97):
    device = {"prepare_batch": preparing, "train": 0.3}
    load = learner(busy, more_blocks={GATHERING: gathering} | (more_blocks or {}), device=device)
    return judge_run(*(worker(i, learner=waits) for i in range(2)), inference(), load, config=config)


def judge_inference(there=0.0, fetching=0.0, computing=0.0, waits=0.7, has_device=True):
    step = "handle_policy_step"
    device = {f"{step}/obs_to_device_normalize": there, f"{step}/forward": computing} if has_device else {}
    blocks = {f"{step}/prepare_outputs": fetching, f"{step}/prepare_outputs/to_cpu": fetching}
    loads = [*(worker(i, inference=waits, learner=0.0) for i in range(2)), learner(0.4)]
    return judge_run(*loads, inference(0.95, more_blocks=blocks, device=device))


@pytest.mark.parametrize(
    ("preparing", "gathering", "waits", "cause"),
    [
        (0.6, 0.0, 0.4, "device transfer"),
        (0.2, 0.4, 0.4, "device transfer"),
        (0.2, 0.1, 0.4, "learner"),  # it computes most of the time
        (0.6, 0.0, 0.05, "device transfer"),  # it never waits: groups of workers wait for it one at a time
    ],
)
def test_a_learner_that_moves_data_half_of_its_time(preparing, gathering, waits, cause):
    assert judge_learner(preparing, gathering, waits).cause == cause


def test_a_learner_that_waits_and_nobody_waits_for_may_move_data():
    assert judge_learner(0.6, waits=0.05, busy=0.9).cause == "balanced"


def test_a_learner_without_a_device_moves_nothing():
    loads = [*(worker(i, learner=0.4) for i in range(2)), inference(), learner(0.97, more_blocks={GATHERING: 0.6})]
    assert judge_run(*loads).cause == "learner"


def test_gathering_that_is_part_of_preparing_the_batch_counts_once():
    assert judge_learner(0.3, 0.1, more_blocks={"prepare_batch": 0.3, GATHERING_TO_PREPARE: 0.2}).cause == "learner"


def test_with_v_trace_preparing_the_batch_is_mostly_computing():
    config = {"with_vtrace": True}
    evaluating = {"prepare_batch": 0.6, GATHERING_TO_PREPARE: 0.4}
    assert judge_learner(0.6, 0.1, config=config, more_blocks=evaluating).cause == "learner"
    verdict = judge_learner(0.3, 0.5, config=config)
    assert verdict.cause == "device transfer"
    assert verdict.evidence[0] == "Learner_0 works 97 % of the time; gather_observations takes 50 %"
    assert not [advice for advice in verdict.advice if advice.change.startswith("--batch_size")]


def test_fewer_epochs_save_no_gathering_for_the_normalizer():
    config, normalizing = {"num_epochs": 2}, {"update_normalizer": 0.2, GATHERING_TO_NORMALIZE: 0.2}
    verdict = judge_learner(0.2, 0.2, config=config, more_blocks=normalizing, waits=0.6)
    assert verdict.cause == "device transfer"
    (fewer,) = (advice for advice in verdict.advice if advice.change == "--num_epochs=1")
    assert fewer.fps[1] == pytest.approx(most_fps(1 / (1 - 0.2 / 2)))


@pytest.mark.parametrize(
    ("there", "fetching", "computing", "waits", "cause"),
    [
        (0.6, 0.0, 0.1, 0.7, "device transfer"),
        (0.1, 0.6, 0.1, 0.7, "device transfer"),
        (0.1, 0.6, 0.6, 0.7, "inference"),  # it waits for the network where it fetches results
        (0.6, 0.0, 0.1, 0.1, "balanced"),  # nobody waits for it
    ],
)
def test_inference_that_moves_data_half_of_its_time(there, fetching, computing, waits, cause):
    assert judge_inference(there, fetching, computing, waits).cause == cause


def test_inference_that_a_learner_is_slower_than_may_move_data():
    device = {"handle_policy_step/obs_to_device_normalize": 0.6}
    workers = [worker(i, inference=0.7, learner=0.05) for i in range(2)]
    assert judge_run(*workers, inference(0.95, device=device), learner(0.9)).cause == "balanced"


def test_inference_without_a_device_moves_nothing():
    assert judge_inference(0.6, 0.6, has_device=False).cause == "inference"


def test_evidence_and_advice_for_the_learner():
    verdict = judge_learner(0.4, 0.3, config={"num_epochs": 3})
    assert verdict.evidence == (
        "Learner_0 works 97 % of the time; the device takes 40 % of it for prepare_batch, and gather_observations "
        "takes 30 %",
        "workers wait 40 % of their time for it",
    )
    changes = [advice.change for advice in verdict.advice]
    assert changes[:2] == ["--num_epochs=2", "--batch_size=4096"]
    assert changes[-1] == "--device=cpu"
    assert verdict.advice[0].fps == (pytest.approx(5000 * (0.95 + 0.4 / 9)), pytest.approx(most_fps(1 / 0.9)))
    for change in (*changes[:2], changes[-1]):
        parse_config(["--env=none", "--num_epochs=3", "--batch_size=2048", change])


def test_evidence_and_advice_for_inference():
    verdict = judge_inference(0.4, 0.3, 0.1)
    assert verdict.component == "InferenceWorker_p0-w0"
    assert verdict.evidence == (
        "InferenceWorker_p0-w0 works 95 % of the time; the device takes 40 % of it for obs_to_device_normalize, and "
        "to_cpu takes 20 % beyond what the network takes",
        "workers wait 70 % of their time for actions",
    )
    assert verdict.advice[0].change == "--num_envs_per_worker=32"
    assert verdict.advice[0].fps == (pytest.approx(5000 * (0.95 + 0.1 * 0.3 / 0.7)), pytest.approx(most_fps(1 / 0.7)))
