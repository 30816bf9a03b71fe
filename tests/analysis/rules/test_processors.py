"""A Learner with fewer threads than cores, and what else looks like one."""

from __future__ import annotations

import pytest

from tests.analysis.made_runs import batcher, inference, judge_run, learner, load, most_fps, self_serving_worker, worker


def judge_learner(machine_busy=0.5, num_threads=1, cpu=0.95, busy=0.97, waits=0.4, useful=0, config=None, **options):
    gauges = {"num_threads": num_threads, "num_useful_threads": useful} if num_threads else {}
    loads = [*(worker(i, learner=waits) for i in range(2)), inference(), learner(busy, cpu=cpu, gauges=gauges)]
    return judge_run(*loads, machine_busy=machine_busy, config=config, **options)


def test_a_learner_that_uses_its_only_thread_while_a_core_is_idle_has_too_few():
    verdict = judge_learner()
    assert (verdict.cause, verdict.component) == ("too few threads", "Learner_0")
    assert verdict.evidence == (
        "Learner_0 works 97 % of the time, with 1 of 2 cores at most",
        "workers wait 40 % of their time for it",
        "1.0 cores are idle",
    )
    (advice,) = verdict.advice
    assert advice.change == "torch.set_num_threads(2)"
    assert advice.fps is not None
    assert advice.fps[0] < 5000 * 1.2 < advice.fps[1] <= most_fps(2), "two threads are at most twice as fast as one"


@pytest.mark.parametrize(
    "figures",
    [
        {"num_threads": 2},  # as many as cores
        {"num_threads": 0},  # not known
        {"cpu": 0.3},  # it sleeps or waits for a device: more threads would idle, too
        {"machine_busy": 0.8},  # no core is idle
        {"useful": 1},  # the network is too small for more
    ],
)
def test_a_learner_that_more_threads_would_not_help_is_the_limit_by_itself(figures):
    assert judge_learner(**figures).cause == "learner"


def test_a_learner_that_never_waits_has_too_few_threads_though_no_worker_seems_to_wait_for_it():
    verdict = judge_learner(waits=0.05)
    assert verdict.cause == "too few threads"
    assert verdict.evidence[1] == (
        "workers wait 5 % of their time for it alone: while one of their groups is under way and others wait for it, "
        "they wait for actions"
    )


def test_a_learner_that_waits_itself_has_enough_threads():
    assert judge_learner(waits=0.05, busy=0.9).cause == "balanced"


def test_cores_that_are_divided_between_policies_are_more_for_fewer():
    changes = [advice.change for advice in judge_learner(config={"num_policies": 2}).advice]
    assert changes == ["torch.set_num_threads(2)", "--num_policies=1"]


def test_what_workers_compute_for_their_actions_counts_as_inference():
    workers = [self_serving_worker(index, busy=0.9, drawing=0.72, env_step=0.1, cpu=0.8) for index in range(2)]
    verdict = judge_run(*workers, learner(0.9, cpu=0.4), machine_busy=1.0)
    assert (verdict.cause, verdict.component) == ("processor", "RolloutWorker")
    assert "most of them by inference" in verdict.headline
    # Two workers use 1.6 of two cores, 80 % of that for actions; the Learner 0.4.
    assert verdict.evidence[1:] == (
        "inference uses 64 % of them", "training uses 20 % of them", "stepping environments uses 16 % of them"
    )  # fmt: skip
    assert verdict.advice[0].change == "--precision=bf16"


def judge_shared_machine(children_cpu=0.0, **more):
    """Of 16 used up cores two workers use 1, with games beside them; the Learner 1.5, inference 0.5, a Batcher 0.2."""
    waits = {"inference": 0.4, "learner": 0.05}
    steps, counts = {"env_step": 0.5}, {"env_step": 1000}
    workers = [load(f"RolloutWorker_w{i}", 0.55, waits, steps, counts, children_cpu=children_cpu) for i in range(2)]
    loads = [*workers, inference(0.5), learner(0.9, cpu=1.5), batcher(cpu=0.2), *more.values()]
    return judge_run(*loads, machine_busy=1.0, num_cores=16)


def test_what_other_programs_use_is_theirs():
    verdict = judge_shared_machine()
    assert (verdict.cause, verdict.component) == ("processor", "")
    assert verdict.headline == "The processors are used up, most of them by other programs"
    assert verdict.evidence == (
        "all 16 cores are 100 % busy",
        "other programs use 80 % of them",
        "training uses 9 % of them",
        "stepping environments uses 6 % of them",
        "inference uses 3 % of them",
        "what else the run does uses 1 % of them",
    )
    assert verdict.advice[0].change == "a machine of its own"


def test_games_in_processes_of_their_own_are_environments():
    verdict = judge_shared_machine(children_cpu=6.4)
    assert (verdict.cause, verdict.component) == ("processor", "RolloutWorker")
    assert "most of them by stepping environments; the components are in balance" in verdict.headline
    assert verdict.evidence[1:3] == ("stepping environments uses 86 % of them", "training uses 9 % of them")
    assert not any("outside" in line or "other programs" in line for line in verdict.evidence)


def test_games_of_an_evaluation_are_no_environments_that_are_trained_on():
    verdict = judge_shared_machine(children_cpu=3.0, evaluator=load("Evaluator_0", 0.9, cpu=0.1, children_cpu=2.0))
    assert "what else the run does uses 14 % of them" in verdict.evidence


def test_where_games_are_not_told_from_other_programs_the_verdict_does_not_either():
    verdict = judge_shared_machine(children_cpu=None)
    assert verdict.headline == "The processors are used up, most of them by processes outside the run's components"
    assert "processes outside the run's components use 80 % of them" in verdict.evidence


def test_components_that_share_a_process_count_once():
    steps, trains = {"env_step": 0.5}, {"train": 0.4}
    sharing = {"cpu": 1.0, "children_cpu": 0.0, "pid": 7}  # what the process uses, told of each of them
    loads = [load("RolloutWorker_w0", 0.6, blocks=steps, **sharing), load("Learner_0", 0.4, blocks=trains, **sharing)]
    loads[1].counts["train"] = 100
    verdict = judge_run(*loads, machine_busy=1.0, is_serial=True)
    assert (verdict.cause, verdict.evidence[-1]) == ("serial", "other programs use 50 % of the 2 cores")


@pytest.mark.parametrize("machine_busy", [0.99, 0.5])
def test_other_programs_that_use_much_of_the_processors_are_told_of_beside_another_cause(machine_busy):
    waits, blocks, counts = {"inference": 0.03, "learner": 0.0}, {"env_step": 0.95}, {"env_step": 1000}
    sleeper = load("RolloutWorker_w0", 0.97, waits, blocks, counts, cpu=0.1, asleep=0.85, queued=0.02, children_cpu=0.0)
    loads = [sleeper, inference(0.05, cpu=0.05), learner(0.1, cpu=0.05)]
    verdict = judge_run(*loads, machine_busy=machine_busy, sleeps={"RolloutWorker": {"timer": 0.9}})
    assert verdict.cause == "waiting environments"
    assert (verdict.evidence[-1] == "other programs use 89 % of the 2 cores") == (machine_busy > 0.9)
    judged = judge_run(*loads, machine_busy=machine_busy, start_s=100.0, seconds=5.0)
    assert judged.cause == "start-up"
    assert any("other programs" in each for each in judged.evidence) == (machine_busy > 0.9)
