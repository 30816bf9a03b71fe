"""Workers that are lost over and over, and what their successors use of the processors."""

from __future__ import annotations

from tests.analysis.made_runs import inference, judge_run, learner, load, worker

STARTING = {"start_up": 2.0, "make_envs": 10.0, "env_step": 6.0}


def starting(index, work_s=STARTING):
    """A process of a worker that was there for a third of the run, on a core of its own."""
    return load(f"RolloutWorker_w{index}", 0.9, cpu=0.9, wall_s=20.0, work_s=work_s, children_cpu=0.0)


def test_workers_that_are_lost_over_and_over_are_named_and_not_their_environments():
    processes = [starting(0) for _ in range(3)]
    verdict = judge_run(*processes, inference(cpu=0.1), learner(0.1, cpu=0.1), machine_busy=1.0)
    assert (verdict.cause, verdict.component) == ("lost workers", "RolloutWorker_w0")
    assert verdict.headline == (
        "Workers are lost and others started, 2 times in 60 s: that is 40 % of the time of all workers"
    )
    assert verdict.evidence[:2] == ("RolloutWorker_w0 was lost 2 times", "one takes 12.0 s to start")
    before = load("RolloutWorker_w0", 0.9, wall_s=20.0, work_s={"env_step": 18.0})  # it started before the window
    assert "3 times in 60 s: that is 45 %" in judge_run(before, *processes, inference(), learner(0.1)).headline
    several = judge_run(*(starting(index) for index in (0, 0, 0, 1, 1)), inference(), learner(0.1))
    assert (several.cause, several.component) == ("lost workers", "RolloutWorker")


def test_a_worker_that_was_lost_once_or_is_one_of_many_or_starts_quickly_limits_nothing():
    quick = {"start_up": 1.0, "env_step": 17.0}
    for workers in (
        [starting(0), starting(0)],
        [starting(0, quick) for _ in range(3)],
        [*(starting(0) for _ in range(3)), *(worker(index) for index in range(1, 9))],
    ):
        assert judge_run(*workers, inference(), learner(0.1)).cause != "lost workers"


def test_that_each_worker_has_started_once_is_no_loss():
    slow = {"start_up": 30.0, "env_step": 6.0}
    workers = [load(f"RolloutWorker_w{i}", 0.9, wall_s=40.0, work_s=slow) for i in range(8)]
    lost = [load(f"RolloutWorker_w{i}", 0.9, wall_s=5.0, work_s={"start_up": 2.0, "env_step": 2.0}) for i in (0, 0)]
    assert judge_run(*workers, *lost, inference(), learner(0.1)).cause != "lost workers"


def test_what_starting_takes_of_the_processors_is_no_stepping_and_who_was_there_for_a_while_counts_for_that():
    workers = [worker(0, cpu=0.5), starting(1)]
    verdict = judge_run(*workers, inference(cpu=0.3), learner(0.1, cpu=0.3), machine_busy=1.0)
    # 20 of 60 s on 0.9 of a core, two thirds of its work to start; 0.5 of the other one, which is always there.
    assert verdict.cause == "processor"
    assert "starting processes uses 10 % of them" in verdict.evidence
    assert "stepping environments uses 30 % of them" in verdict.evidence
