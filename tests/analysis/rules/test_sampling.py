"""What holds up sampling, and what is advised then."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config
from sample_profiler.reports.sections.verdict import format_verdict
from tests.analysis.made_runs import inference, judge_run, learner, load, most_fps, self_serving_worker, worker


@pytest.mark.parametrize(
    ("sending", "num_inference_workers", "change"),
    [(0.3, 1, "--inference=worker"), (0.3, 2, "--inference=worker --policy_workers_per_policy=1"), (0.05, 1, None)],
)
def test_inference_that_mostly_wakes_workers_moves_to_them(
    sending: float, num_inference_workers: int, change: str | None
):
    workers = [worker(index, inference=0.7, learner=0.0) for index in range(2)]
    config = {"policy_workers_per_policy": num_inference_workers}
    first = judge_run(*workers, inference(0.95, sending=sending), learner(0.4), config=config).advice[0]
    if change is None:
        assert "--inference" not in first.change
        return
    assert first.change == change
    assert "30 % of the time of InferenceWorker_p0-w0" in first.why
    assert first.fps is not None and first.fps[0] < 5000 * 1.2 < first.fps[1]
    before = f"--env=none --policy_workers_per_policy={num_inference_workers}"
    assert parse_config([*before.split(), *change.split()]).sampling.inference == "worker"


def test_inference_that_waits_for_a_processor_as_everybody_does_is_not_the_limit():
    workers = [worker(index, busy=0.35, inference=0.6, learner=0.0) for index in range(2)]
    for machine_busy, starved, cause in ((0.88, 0.45, "balanced"), (0.88, 0.1, "inference"), (0.5, 0.45, "inference")):
        loads = [*workers, inference(0.94, sending=0.3, starved=starved), learner(0.57)]
        verdict = judge_run(*loads, machine_busy=machine_busy)
        assert verdict.cause == cause
        assert "--inference=worker" in [advice.change for advice in verdict.advice]


def judge_self_serving(machine_busy=0.5, num_workers=2, config=None, **options):
    workers = [self_serving_worker(index, **options) for index in range(num_workers)]
    flags = {"inference": "worker"} | (config or {})
    return judge_run(*workers, learner(0.5), machine_busy=machine_busy, config=flags)


@pytest.mark.parametrize("machine_busy", [0.5, 0.99])
def test_workers_that_draw_their_actions_most_of_the_time_are_limited_by_inference(machine_busy):
    verdict = judge_self_serving(machine_busy)
    assert (verdict.cause, verdict.component) == ("inference", "RolloutWorker"), format_verdict(verdict)
    assert verdict.evidence == (
        "workers draw actions 90 % of the time, 16 rows at once, and step environments 8 %",
        "Learner_0 waits 50 % of the time for data",
    )
    changes = [advice.change for advice in verdict.advice]
    assert changes == ["--precision=bf16", "a smaller network", "--inference=process"]


def test_advice_to_workers_that_draw_their_actions_fits_what_they_have():
    changes = [advice.change for advice in judge_self_serving(num_workers=1, rows=2.0).advice]
    assert changes[:2] == ["--num_workers=2", "--num_envs_per_worker=32"]
    before = ["--env=none", "--inference=worker", "--num_envs_per_worker=16"]
    for change in changes:
        if change.startswith("--"):
            assert parse_config([*before, change]).origin(change[2:].partition("=")[0]) == "command line"


def test_workers_that_draw_their_actions_and_mostly_step_are_limited_by_environments():
    assert judge_self_serving(drawing=0.3, env_step=0.6).cause == "environments"
    assert judge_self_serving(drawing=0.45, env_step=0.5).cause == "environments"
    assert judge_self_serving(drawing=0.5, env_step=0.45).cause == "inference"


def test_workers_that_draw_their_actions_and_wait_for_a_processor_are_not_the_limit():
    verdict = judge_self_serving(machine_busy=0.99, drawing=0.52, env_step=0.42, starved=0.5)
    assert verdict.cause == "processor", format_verdict(verdict)
    assert judge_self_serving(machine_busy=0.88, starved=0.5).evidence[0] == (
        "workers are busy 98 % of the time, inference 90 %, the Learner 50 %"
    )


def test_without_idle_cores_more_workers_are_no_advice():
    changes = [
        advice.change
        for advice in judge_run(
            *(worker(i, busy=0.95, env_step=0.9, inference=0.05, learner=0.0) for i in range(2)),
            inference(),
            learner(0.4),
        ).advice
    ]
    assert not any(change.startswith("--num_workers") for change in changes)
    loads = [*(worker(i, busy=0.95, env_step=0.9, inference=0.05, learner=0.0) for i in range(2)), learner(0.4)]
    changes = [advice.change for advice in judge_run(*loads, machine_busy=0.5).advice]
    assert changes[0] == "--num_workers=3"


@pytest.mark.parametrize(
    ("machine_busy", "why"),
    [(0.5, "nothing else is busy enough to matter"), (0.95, "all processors are busy, workers mostly with it")],
)
def test_a_faster_environment_is_advised_for_what_is_true_of_the_processors(machine_busy, why):
    loads = [worker(i, busy=0.95, env_step=0.9, inference=0.05, learner=0.0) for i in range(2)]
    verdict = judge_run(*loads, inference(), learner(0.8), machine_busy=machine_busy)
    assert verdict.cause == "environments"
    assert (verdict.advice[-1].change, verdict.advice[-1].why) == ("a faster environment", why)


def test_environments_that_are_mostly_reset_are_told_from_those_that_step():
    blocks, counts = {"env_step": 0.9, "env_step/env_reset": 0.6}, {"env_step": 1000, "env_step/env_reset": 90}
    waits = {"inference": 0.05, "learner": 0.0}
    workers = [load(f"RolloutWorker_w{i}", 0.95, waits, blocks, counts) for i in range(2)]
    verdict = judge_run(*workers, inference(), learner(0.4), machine_busy=0.5)
    assert verdict.headline == "Resetting environments is the limit"
    assert verdict.advice[-1].why == "67 % of it is resetting, 400.0 ms each time"


def judge_stepping_on_used_up_cores(num_workers=2, children_cpu=0.0, **figures):
    waits, counts = {"inference": 0.1, "learner": 0.05}, {"env_step": 1000}
    workers = [
        load(f"RolloutWorker_w{i}", 0.85, waits, {"env_step": 0.8}, counts, children_cpu=children_cpu, **figures)
        for i in range(num_workers)
    ]
    loads = [*workers, inference(0.2, cpu=0.05), learner(0.6, cpu=0.1, starved=0.4)]
    return judge_run(*loads, machine_busy=1.0)


def test_workers_that_wait_for_processors_that_others_use_are_not_limited_by_environments():
    verdict = judge_stepping_on_used_up_cores(cpu=0.1, starved=0.78)
    assert verdict.cause == "processor", format_verdict(verdict)
    assert verdict.headline == "The processors are used up, most of them by other programs"
    assert verdict.advice[0].change == "a machine of its own"


@pytest.mark.parametrize(
    ("figures", "why"),
    [
        # They wait for each other: 1.76 of two cores step environments.
        ({"num_workers": 8, "cpu": 0.22, "starved": 0.7}, "all processors are busy, workers mostly with it"),
        ({"cpu": 0.05, "starved": 0.04, "children_cpu": 0.8}, "all processors are busy, workers mostly with it"),
        # They sleep, and would do so without the other programs, too.
        ({"cpu": 0.05, "starved": 0.04}, "workers mostly wait in it, while others use the processors"),
    ],
)
def test_workers_that_step_environments_on_used_up_processors_are_limited_by_them(figures, why):
    verdict = judge_stepping_on_used_up_cores(**figures)
    assert verdict.cause == "environments", format_verdict(verdict)
    assert (verdict.advice[-1].change, verdict.advice[-1].why) == ("a faster environment", why)


def judge_idle_cores(inference_busy=0.5, learner_busy=0.2, machine_busy=0.3, **figures):
    figures = {"busy": 0.68, "env_step": 0.65, "inference": 0.28, "learner": 0.02} | figures
    loads = [*(worker(index, **figures) for index in range(4)), inference(inference_busy), learner(learner_busy)]
    return judge_run(*loads, machine_busy=machine_busy, num_cores=16)


@pytest.mark.parametrize(
    ("figures", "cause", "change"),
    [
        ({}, "environments", "--num_workers=16"),
        ({"inference_busy": 0.95}, "inference", "--policy_workers_per_policy=2"),
        (
            {"inference_busy": 0.72, "busy": 0.75, "env_step": 0.35, "inference": 0.2},
            "environments",
            "--num_workers=16",
        ),
        ({"busy": 0.5, "env_step": 0.25}, "too few environments", "--num_envs_per_worker=32"),
        ({"busy": 0.5, "env_step": 0.25, "inference": 0.1}, "balanced", None),  # nobody knows what they do
        ({"busy": 0.75, "env_step": 0.25, "inference": 0.2}, "balanced", None),  # they do something else
        ({"learner_busy": 0.75}, "balanced", None),  # it does not wait for long
        ({"machine_busy": 0.85}, "balanced", None),
        ({"machine_busy": 0.95}, "processor", None),
        ({"machine_busy": None}, "balanced", None),
    ],
)
def test_where_the_learner_waits_and_cores_are_idle_whoever_works_most_is_the_limit(figures, cause, change):
    verdict = judge_idle_cores(**figures)
    assert verdict.cause == cause, format_verdict(verdict)
    if change is not None:
        assert verdict.advice[0].change == change


def test_who_works_most_is_told_beside_all_others():
    verdict = judge_idle_cores()
    assert verdict.evidence == (
        "workers step environments 65 % of the time",
        "Learner_0 waits 80 % of the time for data",
        "nobody works more: workers 68 %, inference 50 %, Learner_0 20 %, all cores together 30 %",
    )
    assert verdict.advice[-1].why == "nobody works more"
    assert verdict.advice[0].fps[1] == pytest.approx(most_fps(2)), "inference is the limit then"


@pytest.mark.parametrize(("drawing", "cause"), [(0.38, "inference"), (0.34, "environments"), (0.4, "inference")])
def test_workers_that_draw_and_step_about_as_long_are_limited_by_what_takes_more(drawing, cause):
    verdict = judge_self_serving(machine_busy=0.3, num_workers=4, busy=0.85, drawing=drawing, env_step=0.38)
    assert verdict.cause == cause, format_verdict(verdict)
    if drawing < 0.4:
        assert verdict.evidence[-1] == "nobody works more: workers 85 %, Learner_0 50 %, all cores together 30 %"


def upper(verdict, change):
    """The most that is predicted of an advice."""
    return next(advice.fps for advice in verdict.advice if advice.change == change)[1]


@pytest.mark.parametrize(("inference_busy", "factor"), [(0.7, 1 / 0.7), (0.1, 4.0)])
def test_more_workers_give_no_more_than_inference_answers(inference_busy, factor):
    loads = [worker(i, busy=0.95, env_step=0.9, inference=0.05, learner=0.0) for i in range(4)]
    verdict = judge_run(*loads, inference(inference_busy), learner(0.1), machine_busy=0.2, num_cores=16)
    assert verdict.cause == "environments"
    assert upper(verdict, "--num_workers=16") == pytest.approx(most_fps(factor))
    assert upper(verdict, "a faster environment") == pytest.approx(most_fps(min(factor, 1 / (1 - 0.45))))


def judge_small_batches(machine_busy=0.5, learner_busy=0.4, cpu=0.5):
    loads = [worker(i, busy=0.3, env_step=0.24, inference=0.7, learner=0.0) for i in range(2)]
    return judge_run(*loads, inference(0.9, 2.0, cpu=cpu), learner(learner_busy), machine_busy=machine_busy)


def test_larger_batches_give_no_more_than_the_learner_trains_on():
    verdict = judge_small_batches(learner_busy=0.8)
    assert verdict.cause == "small inference batches"
    assert upper(verdict, "--num_envs_per_worker=32") == pytest.approx(most_fps(1.25))
    assert upper(verdict, "--inference=worker") == pytest.approx(most_fps(1.25))
    assert upper(judge_small_batches(), "--num_envs_per_worker=32") == pytest.approx(most_fps(2.0))


def test_larger_batches_give_on_used_up_processors_what_half_of_the_calls_takes():
    # Of two cores inference takes 0.8, and each worker 0.1 beside its steps: half of that is a quarter of the cores.
    verdict = judge_small_batches(machine_busy=1.0, cpu=0.8)
    assert upper(verdict, "--num_envs_per_worker=32") == pytest.approx(most_fps(1 / (1 - 0.25)))


@pytest.mark.parametrize(("num_cores", "factor"), [(2, 1 / (1 - 0.24)), (16, 1 / (1 - 0.03))])
def test_inference_in_workers_gives_on_used_up_processors_what_messages_take(num_cores, factor):
    # Of the 0.8 cores of inference 60 % send.
    workers = [worker(index, busy=0.35, inference=0.6, learner=0.0) for index in range(2)]
    loads = [*workers, inference(0.5, sending=0.3, cpu=0.8), learner(0.5)]
    verdict = judge_run(*loads, machine_busy=1.0, num_cores=num_cores)
    assert verdict.cause == "processor"
    (fps,) = (advice.fps for advice in verdict.advice if advice.change == "--inference=worker")
    assert fps == pytest.approx((0.95 * verdict.fps, most_fps(factor))), "it may give nothing"


def test_a_second_group_gives_no_more_than_the_learner_trains_on():
    loads = [worker(i, busy=0.3, env_step=0.2, inference=0.7, learner=0.0) for i in range(2)]
    config = {"worker_num_splits": 1}
    verdict = judge_run(*loads, inference(0.4), learner(0.7), machine_busy=0.5, config=config)
    assert verdict.cause == "too few environments"
    assert upper(verdict, "--worker_num_splits=2") == pytest.approx(most_fps(1 / 0.7))


def judge_many(number, busy=0.5, starved=0.35, machine_busy=0.98, learner_busy=0.7):
    workers = [worker(index, learner=0.05) for index in range(2)]
    many = [inference(busy, 3.0, starved=starved, cpu=0.15)] * number
    config = {"policy_workers_per_policy": number}
    return judge_run(*workers, *many, learner(learner_busy), machine_busy=machine_busy, config=config)


def test_inference_workers_beyond_the_work_there_is_are_taken_away():
    verdict = judge_many(6)
    assert verdict.cause == "too many inference workers"
    assert verdict.advice[0].change == "--policy_workers_per_policy=2", "six times 0.15 is more than one can do"
    assert "each of the 6 inference workers" in verdict.evidence[0]
    assert parse_config(["--env=none", verdict.advice[0].change]).sampling.policy_workers_per_policy == 2


@pytest.mark.parametrize(
    "options",
    [{"number": 1}, {"number": 6, "busy": 0.9, "starved": 0.1}, {"number": 6, "machine_busy": 0.4}],
)
def test_inference_workers_that_have_work_or_take_nothing_from_others_stay(options):
    assert judge_many(**options).cause != "too many inference workers"
