"""What a faster stage would give, from what a slower one costs."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from sample_profiler.analysis.accounts import ComponentAccount
from sample_profiler.analysis.facts import ComponentLoad, RunFacts
from sample_profiler.analysis.whatif import ceiling, gain, median_ceiling, median_interval, stage_weight
from sample_profiler.cli.whatif import format_weights


def throughput(times, factor=None, stage="env"):
    """Frames per second of a run whose stages take turns, with one of them slower."""
    return 1 / sum(time * (factor if factor and name == stage else 1) for name, time in times.items())


@pytest.mark.parametrize(("stage", "share_of_frame"), [("env", 0.6), ("learner", 0.3), ("inference", 0.1)])
def test_stages_that_take_turns_weigh_what_they_take(stage, share_of_frame):
    times = {"env": 0.6, "learner": 0.3, "inference": 0.1}
    pairs = [(throughput(times), throughput(times, 1.5, stage))] * 6
    weight = stage_weight(stage, pairs, 0.5)
    assert weight.weight == pytest.approx(share_of_frame)
    assert weight.interval == pytest.approx((share_of_frame, share_of_frame))
    # Twice as fast: half of its share of each frame is saved, exactly as the model says.
    assert gain(weight.weight, 2.0) == pytest.approx(throughput(times, 0.5, stage) / throughput(times) - 1)


def test_a_stage_that_nobody_waits_for_gives_nothing():
    assert gain(stage_weight("env", [(100.0, 100.0)], 0.5).weight, 2.0) == 0
    assert gain(-0.1, 2.0) == 0, "noise below nothing"


# Ends by the number of values, as tables of the sign test have them: of 12, two on each side are outside.
@pytest.mark.parametrize(("num_values", "num_outside"), [(6, 0), (8, 0), (9, 1), (10, 1), (11, 1), (12, 2), (20, 5)])
def test_the_interval_is_one_of_the_median(num_values, num_outside):
    values = [float((7 * number) % num_values) for number in range(num_values)]  # 7: in no order
    if num_values % 7:
        assert median_interval(values) == (num_outside, num_values - 1 - num_outside)


def test_the_interval_covers_as_often_as_it_says_however_values_are_distributed():
    draw = random.Random(2)
    samples = [[draw.gauss(0.5, 0.1) * (10 if draw.random() < 0.2 else 1) for _ in range(10)] for _ in range(2000)]
    middle = sorted(value for sample in samples for value in sample)[10_000]
    covered = sum(low <= middle <= high for low, high in map(median_interval, samples)) / len(samples)
    assert 0.95 <= covered <= 0.995


def test_fewer_than_six_pairs_have_no_interval():
    assert median_interval([0.1, 0.2, 0.3, 0.4, 0.5]) is None
    assert stage_weight("env", [(100.0, 90.0)] * 5, 0.5).interval is None
    assert stage_weight("env", [(100.0, 90.0)] * 6, 0.5).interval is not None


def test_one_pair_that_is_off_does_not_count():
    weights = (0.8, 0.82, -0.4, 0.79, 0.81, 0.8, 0.83, 0.78, 0.8, 0.84)
    found = stage_weight("env", [(100.0, 100 / (1 + 0.5 * weight)) for weight in weights], 0.5)
    assert found.weight == pytest.approx(0.8)
    assert found.interval == pytest.approx((0.78, 0.83))


def test_no_stage_gives_more_than_its_whole_share():
    assert gain(1.3, 2.0) == 1.0
    assert gain(1.0, math.inf) == math.inf


def test_pairs_and_a_slowdown_are_needed():
    for pairs, share in (([], 0.5), ([(1.0, 1.0)], 0.0)):
        with pytest.raises(ValueError, match="pairs"):
            stage_weight("env", pairs, share)


def test_the_stage_that_gives_most_comes_first():
    weights = [
        stage_weight(stage, [(100.0, 100 / (1 + 0.5 * w))], 0.5) for stage, w in (("env", 0.2), ("learner", 0.8))
    ]
    lines = format_weights(weights, [make_facts()]).splitlines()
    assert lines[1].startswith("training") and "+67 %" in lines[1]
    assert lines[2].startswith("stepping environments") and "+11 %" in lines[2]


def load(name, busy, blocks, cpu, starved=0.0, children_cpu=None, **gauges):
    account = ComponentAccount(name, name, 1, 10**10, {}, {}, 0, 0, is_parallel=False)
    kind = name.partition("_")[0]
    return ComponentLoad(name, kind, account, busy, {}, blocks, {}, cpu, starved, gauges, {}, children_cpu)


def make_facts(
    env=0.3,
    inference=0.2,
    learner=0.9,
    cpu=0.1,
    num_cores=64,
    starved=0.0,
    machine_busy=None,
    games=(None, None),
    num_threads=1,
):
    return RunFacts(
        seconds=10.0, start_s=0.0, fps=1000.0, num_cores=num_cores, machine_busy=machine_busy, is_serial=False,
        components=(
            load("RolloutWorker_w0", env + 0.05, {"env_step": env}, cpu, children_cpu=games[0]),
            load("RolloutWorker_w1", env + 0.05, {"env_step": env}, cpu, children_cpu=games[1]),
            load("InferenceWorker_p0-w0", inference, {"handle_policy_step": inference}, cpu),
            load("Learner_0", learner, {"train": learner}, cpu, starved, num_threads=num_threads),
        ),
    )  # fmt: skip


def test_what_another_component_works_bounds_what_a_faster_stage_gives():
    bound = ceiling(make_facts(env=0.95, learner=0.8), "env", 2.0)
    assert bound.gain == pytest.approx(1 / 0.8 - 1)
    assert bound.limit == "learner"


def test_the_rest_of_the_stages_own_component_bounds_it_too():
    bound = ceiling(make_facts(env=0.0, inference=0.0, learner=1.0), "learner", 4.0)
    assert bound.gain == pytest.approx(3.0)
    bound = ceiling(make_facts(env=0.9, learner=0.1), "env", math.inf)
    assert bound.gain == pytest.approx(1 / 0.2 - 1), "inference works 20 % of the time"


def test_waiting_for_a_processor_is_no_work():
    bound = ceiling(make_facts(env=0.9, inference=0.3, learner=0.8, starved=0.6), "env", 2.0)
    assert bound.limit == "rollout workers"
    assert bound.gain == pytest.approx(1 / 0.5 - 1)


def test_threads_that_wait_for_a_processor_wait_side_by_side():
    facts = make_facts(env=0.5, inference=0.1, learner=0.9, starved=0.8, num_threads=2)
    bound = ceiling(facts, "env", 2.0)
    assert bound.limit == "learner"
    assert bound.gain == pytest.approx(1 / 0.5 - 1), "it works for 50 % of the time, with each of both threads"


def test_processors_bound_it_where_they_are_few():
    facts = make_facts(env=0.5, inference=0.5, learner=0.5, cpu=0.45, num_cores=2)
    bound = ceiling(facts, "learner", 2.0)
    assert bound.limit == "the processors"
    assert bound.gain == pytest.approx(2 / (3 * 0.45 + 0.225) - 1)


def test_games_in_processes_of_their_own_need_processors_too():
    quiet = make_facts(env=0.5, inference=0.1, learner=0.5, cpu=0.25, num_cores=4)
    busy = make_facts(env=0.5, inference=0.1, learner=0.5, cpu=0.25, num_cores=4, machine_busy=0.9)
    assert ceiling(quiet, "learner", 2.0).limit != "the processors"
    bound = ceiling(busy, "learner", 2.0)  # one core by the components, 2.6 by games
    assert bound.limit == "the processors"
    assert bound.gain == pytest.approx(4 / (2.6 + 0.75 + 0.125) - 1)
    halved = ceiling(busy, "env", 2.0)
    worker = 0.25 * (1 - 0.25 / 0.55)
    assert halved.gain == pytest.approx(4 / (2.6 / 2 + 2 * worker + 0.5) - 1), "they have half as much to do then"


@pytest.mark.parametrize(
    ("games", "left"),
    [
        ((0.4, 0.6), 2.6 - 1.0 / 2),
        ((0.0, 0.0), 2.6),  # all of it is of other programs, which have as much to do as before
        ((9.0, 9.0), 2.6 / 2),
        ((0.4, None), 2.6 / 2),  # not told of all: all of it may be games
    ],
)
def test_other_programs_need_their_processors_also_where_environments_are_faster(games, left):
    facts = make_facts(env=0.5, inference=0.1, learner=0.5, cpu=0.25, num_cores=4, machine_busy=0.9, games=games)
    bound = ceiling(facts, "env", 2.0)
    worker = 0.25 * (1 - 0.25 / 0.55)
    assert bound.limit == "the processors"
    assert bound.gain == pytest.approx(4 / (left + 2 * worker + 0.5) - 1)


@pytest.mark.parametrize(("stage", "share"), [("env", 0.2 + 0.1), ("inference", 0.1), ("learner", 0.4)])
def test_in_one_process_the_share_of_a_stage_is_what_it_can_give(stage, share):
    facts = make_facts(env=0.1, inference=0.1, learner=0.4, cpu=1.0, num_cores=2, machine_busy=0.6)
    first, second, *others = facts.components
    second = replace(second, blocks={"env_step": 0.2})
    serial = replace(facts, is_serial=True, components=(first, second, *others))
    for speedup, saved in ((2.0, 0.5), (math.inf, 1.0)):
        bound = ceiling(serial, stage, speedup)
        assert bound.gain == pytest.approx(1 / (1 - saved * share) - 1)
        assert bound.limit == "the rest of the process"


@pytest.mark.parametrize("name", ["Evaluator_0", "Runner"])
def test_components_without_a_stage_need_their_processors_too(name):
    shared = make_facts(env=0.5, inference=0.1, learner=0.5, cpu=0.3, num_cores=2, machine_busy=1.0, games=(0.0, 0.0))
    recorded = replace(shared, components=(*shared.components, load(name, 0.9, {}, 0.8)))
    bound = ceiling(recorded, "learner", 2.0)
    assert bound.limit == "the processors"
    assert bound.gain == pytest.approx(2 / (0.8 + 3 * 0.3 + 0.15) - 1)
    as_other_program = ceiling(shared, "learner", 2.0)
    assert (as_other_program.limit, as_other_program.gain) == (bound.limit, pytest.approx(bound.gain))


def test_a_bound_that_counts_for_no_time_alone_is_shown_too():
    weights = [stage_weight("learner", [(100.0, 100 / (1 + 0.5 * 0.9))], 0.5)]
    line = format_weights(weights, [make_facts(env=0.25, learner=0.95)]).splitlines()[1]
    assert "+82 %" in line and "+233 %" in line
    assert line.rstrip().endswith("rollout workers")


def test_a_bound_is_shown_where_it_counts():
    weights = [stage_weight("env", [(100.0, 100 / 1.5)], 0.5)]
    line = format_weights(weights, [make_facts(env=0.9, learner=0.8)]).splitlines()[1]
    assert "+25 %" in line and "+100 %" not in line
    assert line.rstrip().endswith("learner")


def test_what_comes_first_is_what_gives_most_within_its_bound():
    weights = [
        stage_weight(stage, [(100.0, 100 / (1 + 0.5 * w))] * 2, 0.5) for stage, w in (("env", 0.9), ("learner", 0.4))
    ]
    lines = format_weights(weights, [make_facts(learner=0.9)]).splitlines()
    assert lines[1].startswith("training") and "+25 %" in lines[1]
    assert lines[2].startswith("stepping environments") and "+11 %" in lines[2]


def test_what_others_did_for_a_while_does_not_bound_a_stage():
    looks = [make_facts(learner=learner) for learner in (0.99, 0.5, 0.4)]
    assert median_ceiling(looks, "env", 2.0) == ceiling(looks[1], "env", 2.0)
    assert median_ceiling(looks[:2], "env", 2.0) == ceiling(looks[1], "env", 2.0), "the one with more room"
    assert median_ceiling(looks[:1], "env", 2.0) == ceiling(looks[0], "env", 2.0)
