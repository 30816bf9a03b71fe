"""What holds up training, and what is advised then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_profiler.config import parse_config
from tests.analysis.made_runs import inference, judge_run, learner, most_fps, self_serving_worker, worker


@pytest.mark.parametrize(("inference_busy", "rows"), [(0.75, 16.0), (0.5, 4.0), (0.5, 16.0)])
def test_a_learner_that_never_waits_sets_the_pace_though_workers_seem_to_wait_for_inference(inference_busy, rows):
    # With two groups, one of which waits for memory while the other waits for actions, that is a wait for actions.
    workers = [worker(i, busy=0.35, inference=0.6, learner=0.05, waiting_groups=1.0) for i in range(8)]
    loads = [*workers, inference(inference_busy, rows), learner(0.99)]
    verdict = judge_run(*loads, machine_busy=0.5, num_cores=16)
    assert (verdict.cause, verdict.component) == ("learner", "Learner_0"), verdict.headline
    assert verdict.evidence[1:3] == (
        "workers wait 5 % of their time for it alone: while one of their groups is under way and others wait for it, "
        "they wait for actions",
        "groups of environments that waited for it when last looked at: 8",
    )
    # Of groups that wait independently, each waits for the square root of 5 %.
    wanted = min(1 / (1 - 0.05**0.5), 1 / inference_busy)
    smaller = next(advice for advice in verdict.advice if advice.change.startswith("a smaller network"))
    assert smaller.fps[1] == pytest.approx(most_fps(wanted))


@pytest.mark.parametrize(
    ("machine_busy", "starved", "busy", "cause"),
    [
        (0.88, 0.2, 0.99, "learner"),
        (0.88, 1.0, 0.99, "balanced"),  # it waits for a processor half of its time, as everybody does
        (0.95, 0.5, 0.99, "processor"),
        (1.0, 0.3, 1.0, "learner"),  # other programs use the processors up, and it would work for as long without them
        (0.5, 0.2, 0.9, "balanced"),  # it waits for data now and then
    ],
)
def test_a_learner_that_workers_do_not_wait_for_is_the_limit_by_work_of_its_own(machine_busy, starved, busy, cause):
    workers = [worker(i, inference=0.6, learner=0.05) for i in range(2)]
    load = learner(busy, starved=starved, gauges={"num_threads": 2})
    assert judge_run(*workers, inference(0.75), load, machine_busy=machine_busy).cause == cause


@pytest.mark.parametrize("config", [{"worker_num_splits": 1}, {"num_envs_per_worker": 1}, {"async_rl": False}])
def test_workers_with_one_group_wait_for_the_learner_as_they_say(config):
    workers = [worker(i, inference=0.6, learner=0.05) for i in range(2)]
    assert judge_run(*workers, inference(0.75), learner(0.97), config=config).cause == "balanced"


def test_workers_that_draw_their_actions_wait_for_the_learner_as_they_say():
    workers = [self_serving_worker(i, busy=0.95) for i in range(2)]
    assert judge_run(*workers, learner(0.97), machine_busy=0.5).cause == "balanced"
    waiting = [self_serving_worker(i, busy=0.75, drawing=0.6) for i in range(2)]
    verdict = judge_run(*waiting, learner(0.97), machine_busy=0.5)
    assert verdict.cause == "learner"
    assert verdict.advice[-1].fps[1] == pytest.approx(most_fps(1 / 0.75))


def test_groups_of_a_synchronous_run_wait_together():
    workers = [worker(i, inference=0.3, learner=0.25) for i in range(2)]
    verdict = judge_run(*workers, inference(0.2), learner(0.97), config={"async_rl": False})
    assert verdict.advice[-1].fps[1] == pytest.approx(most_fps(1 / 0.75))


def test_nothing_is_promised_beyond_the_processors():
    verdict = judge_run(
        *(worker(i, learner=0.5) for i in range(2)),
        inference(),
        learner(0.5),
        machine_busy=1.0,
        config={"async_rl": False},
    )
    assert verdict.advice[0].fps == (pytest.approx(4750.0), pytest.approx(5500.0))


@pytest.mark.parametrize(
    ("batch_size", "rollout", "fewer"), [(2048, 32, 1024), (160, 32, 64), (64, 32, 32), (32, 32, None)]
)
def test_a_smaller_batch_is_made_of_whole_rollouts(batch_size, rollout, fewer):
    config = {"batch_size": batch_size, "rollout": rollout}
    verdict = judge_run(*(worker(i, learner=0.4) for i in range(2)), inference(), learner(0.6), config=config)
    assert verdict.cause == "buffers"
    changes = [advice.change for advice in verdict.advice]
    assert changes == ["--num_batches_to_accumulate=4"] + ([f"--batch_size={fewer}"] if fewer else [])
    before = ["--env=none", f"--batch_size={batch_size}", f"--rollout={rollout}"]
    for change in changes:
        assert parse_config([*before, change]).origin(change[2:].partition("=")[0]) == "command line"


@pytest.mark.parametrize(
    ("machine_busy", "factor"),
    [
        # A group of the two quick workers waits for memory for the root of 0.8 of the time.
        (0.2, (2 / (1 - 0.8**0.5) + 2) / 4),
        # What the two others take of the processors does not grow.
        (0.4, 1 / (0.4 - 2 * 0.05 / 2)),
    ],
)
def test_workers_that_fill_their_memory_at_different_speeds_are_told(machine_busy, factor):
    workers = [replace(worker(index, learner=waits), cpu=0.05) for index, waits in enumerate((0.8, 0.8, 0.0, 0.0))]
    verdict = judge_run(*workers, inference(), learner(0.1), machine_busy=machine_busy)
    assert verdict.cause == "buffers"
    assert verdict.evidence[1] == "and workers wait 40 % of theirs, from 0 % to 80 %, for memory to fill"
    lowest, highest = 5000 * (0.95 + 0.1 * (factor - 1)), most_fps(factor)
    assert verdict.advice[0].fps == (pytest.approx(lowest), pytest.approx(highest))


ON_GPU = {"train": 0.8, "train/calculate_losses": 0.3}


@pytest.mark.parametrize(
    ("device", "num_minibatches", "changes"),
    [
        # Of 60 s the GPU computes losses for 18: in 100 minibatches 180 ms each, in 10,000 1.8.
        (ON_GPU, 100, ["--precision=bf16", "a smaller network or a faster GPU"]),
        (ON_GPU, 10_000, ["a smaller network or a faster GPU"]),
        ({}, 100, ["--precision=bf16", "a smaller network or a GPU"]),
        ({}, 10_000, ["a smaller network or a GPU"]),
    ],
)
def test_on_a_gpu_the_time_of_the_gpu_tells_whether_the_network_is_large(device, num_minibatches, changes):
    losses = "train/calculate_losses"
    # The processor does no more for a GPU than to give it work.
    blocks = {losses: 0.01, f"{losses}/forward_head": 0.005} if device else {losses: 0.3, f"{losses}/forward_head": 0.2}
    load = learner(0.97, blocks, device=device)
    load.counts.update({losses: num_minibatches, f"{losses}/forward_head": num_minibatches})
    verdict = judge_run(*(worker(i, learner=0.4) for i in range(2)), inference(), load)
    assert verdict.cause == "learner"
    assert [advice.change for advice in verdict.advice] == changes


@pytest.mark.parametrize(
    ("figures", "num_minibatches", "changes"),
    [
        # Of 60 s forward_head takes 54: in 100 minibatches 540 ms each, in 2,000 27.
        ({"cpu": 0.04, "starved": 0.01}, 100, ["look at what forward_head waits for"]),
        ({"cpu": 0.49, "starved": 0.01}, 100, ["look at what forward_head waits for"]),
        ({"cpu": 0.9, "starved": 0.01}, 100, ["--precision=bf16", "a smaller network or a GPU"]),
        ({"cpu": 0.9, "starved": 0.01}, 2000, ["--precision=bf16", "a smaller network or a GPU"]),
        ({"cpu": 0.9, "starved": None}, 2000, ["--precision=bf16", "a smaller network or a GPU"]),
        ({"cpu": None}, 100, ["--precision=bf16", "a smaller network or a GPU"]),  # not known
        # Most of the rest it has no processor: it would compute; of a pass it has one for 216 and 11 ms.
        ({"cpu": 0.3, "starved": 0.6}, 100, ["--precision=bf16", "a smaller network or a GPU"]),
        ({"cpu": 0.3, "starved": 0.6}, 2000, ["a smaller network or a GPU"]),
    ],
)
def test_a_learner_that_waits_inside_its_blocks_gains_nothing_by_shorter_numbers(figures, num_minibatches, changes):
    losses = "train/calculate_losses"
    load = learner(1.0, {"train": 0.98, "train/update": 0.02, losses: 0.95, f"{losses}/forward_head": 0.9}, **figures)
    load.counts[f"{losses}/forward_head"] = num_minibatches
    verdict = judge_run(*(worker(i, learner=0.4) for i in range(2)), inference(), load, machine_busy=0.5)
    assert verdict.cause == "learner"
    assert [advice.change for advice in verdict.advice] == changes
    told = f"it computes only {100 * (figures['cpu'] or 0):.0f} % of the time: it waits inside forward_head"
    assert (told in verdict.evidence) == changes[0].startswith("look")


@pytest.mark.parametrize(
    ("cpu", "machine_busy", "inference_busy", "factor"),
    [
        (0.19, 0.1, 0.1, 1 / 0.2),  # it computes or has no processor for a fifth of the time
        (0.04, 0.1, 0.1, 1 / (1 - 0.8**0.5)),  # groups of workers wait for memory for the root of 0.8 of the time
        (0.04, 0.25, 0.1, 4.0),
        (0.04, 0.1, 0.5, 2.0),
    ],
)
def test_a_learner_that_would_not_wait_is_as_fast_as_it_computes_and_all_others_work(
    cpu, machine_busy, inference_busy, factor
):
    loads = [
        *(worker(i, learner=0.8) for i in range(2)),
        inference(inference_busy),
        learner(1.0, cpu=cpu, starved=0.01),
    ]
    (advice,) = judge_run(*loads, machine_busy=machine_busy).advice
    assert advice.change.startswith("look at what ")
    assert advice.fps == (pytest.approx(5000 * (0.95 + 0.1 * (factor - 1))), pytest.approx(most_fps(factor)))


@pytest.mark.parametrize(("device", "config"), [(ON_GPU, {}), ({}, {"device": "gpu"})])
def test_used_up_processors_of_a_run_on_a_gpu_are_no_reason_for_one_or_for_shorter_numbers(device, config):
    workers = [worker(i, learner=0.05) for i in range(2)]
    verdict = judge_run(*workers, inference(), learner(0.9, cpu=1.6, device=device), machine_busy=1.0, config=config)
    assert verdict.cause == "processor"
    assert [advice.change for advice in verdict.advice] == ["more cores"]


def saving_learner(share, number=20, busy=0.97, **options):
    blocks = {"timers": share, "timers/save_checkpoint": share}
    return learner(busy, blocks, {"timers/save_checkpoint": number}, **options)


def judge_saving(load, **config):
    workers = [worker(index, learner=0.4) for index in range(2)]
    flags = {"save_every_sec": 3.0, "save_best_every_sec": 60.0, "save_milestones_sec": -1.0} | config
    return judge_run(*workers, inference(), load, config=flags, sleeps={"Learner": {"disk": 0.2, "timer": 0.0}})


def test_a_learner_that_saves_for_much_of_its_time_is_to_save_less_often():
    verdict = judge_saving(saving_learner(0.25, asleep=0.2))  # 0.75 s each, every 3 s
    assert verdict.cause == "saving"
    assert verdict.evidence[0] == "Learner_0 saves 25 % of the time: 0.75 s each, every 3.0 s"
    assert "Learner_0 sleeps 20 % of the time in its work: for a disk 100 %" in verdict.evidence
    assert verdict.advice[0].change == "--save_every_sec=38", "a fiftieth of the time then"
    assert verdict.advice[0].fps[1] == pytest.approx(most_fps(1 / 0.75))
    assert parse_config(["--env=none", verdict.advice[0].change]).saving.save_every_sec == 38


def test_the_flag_is_the_one_by_which_it_saves_so_often():
    best = {"save_every_sec": 600.0, "save_best_every_sec": 2.0}
    assert judge_saving(saving_learner(0.25), **best).advice[0].change == "--save_best_every_sec=38"


def test_saving_that_takes_little_or_that_nobody_waits_for_is_not_the_limit():
    assert judge_saving(saving_learner(0.05)).cause == "learner"
    assert judge_saving(saving_learner(0.25, busy=0.5)).cause != "saving"
