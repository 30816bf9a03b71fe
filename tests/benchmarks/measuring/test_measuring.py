"""What benchmarks measure with: exact on made-up runs. No test here takes a time."""

from __future__ import annotations

import math
import random
import textwrap
from collections import Counter

import psutil
import pytest

from benchmarks.measuring.alone.sampled_blocks import WAITS, Samples, _blocks_of_file
from benchmarks.measuring.runs.live_runs import LiveRun, make_config
from benchmarks.measuring.statistic import (
    bootstrap,
    describe_range,
    describe_spread,
    median_ratio,
    ratio_interval,
    trimmed_mean,
)
from benchmarks.measuring.turns.alternation import ADJUSTED, LEARNER, TRAINED, Phase, Sample, compare, pairs_of
from benchmarks.measuring.turns.paired import adjusted_ratio_on_to_off, is_on_in_phase
from benchmarks.profiler.recorder_overhead import keep

PHASE_S = 4.0


def make_run(on_rate: float, off_rate: float, num_phases: int) -> tuple[list[Sample], list[Phase]]:
    """A run with batches of 100 frames that depend on nothing but the rates; every phase takes 8 processor seconds."""
    phases = [Phase(is_on_in_phase(i), i * PHASE_S, (i + 1) * PHASE_S, cpu_s=2 * PHASE_S) for i in range(num_phases)]
    samples, frames = [], 0.0
    for tick in range(int(num_phases * PHASE_S * 100)):
        time_s = tick / 100
        frames += (on_rate if phases[int(time_s / PHASE_S)].is_on else off_rate) / 100
        samples.append(Sample(time_s, steps=int(frames), frames=int(frames // 100) * 100))
    return samples, phases


def test_a_steady_drift_favours_neither_side():
    states = [is_on_in_phase(i) for i in range(8)]
    assert states == [True, False, False, True, True, False, False, True]
    assert sum(i if is_on else -i for i, is_on in enumerate(states)) == 0


def test_rates_are_those_between_the_ends_of_batches():
    samples, phases = make_run(on_rate=1000.0, off_rate=1250.0, num_phases=9)
    sampled, trained, cpu = compare(pairs_of(samples, phases))
    assert len(trained.on) == len(trained.off) == 4
    assert trained.on == pytest.approx([1000.0] * 4, rel=0.02)
    assert trained.off == pytest.approx([1250.0] * 4, rel=0.02)
    assert sampled.ratio.estimate == pytest.approx(0.8, rel=0.02)
    assert trained.ratio.lower <= trained.ratio.estimate <= trained.ratio.upper
    assert cpu.ratio.estimate == pytest.approx(1.25, rel=0.02)
    assert "-20." in trained.describe() or "-19." in trained.describe()


def test_a_pair_with_a_phase_without_batches_is_left_out():
    samples, phases = make_run(on_rate=1000.0, off_rate=1250.0, num_phases=6)
    silent = [each for each in samples if not phases[2].begin_s <= each.time_s <= phases[2].end_s]
    _, trained, _ = compare(pairs_of(silent, phases))
    assert len(trained.on) == len(trained.off) == 2
    assert trained.ratio.estimate == pytest.approx(0.8, rel=0.02)


def test_too_few_pairs_are_an_error():
    with pytest.raises(ValueError, match="1 pairs are too few"):
        ratio_interval([1.0], [1.0])


def test_pairs_of_earlier_runs_of_a_kind_are_counted_with_those_of_this_one(tmp_path):
    slow, fast, path = {TRAINED: 1.0}, {TRAINED: 2.0}, tmp_path / "pairs.jsonl"
    assert keep([(slow, fast)], "doom", path) == [(slow, fast)]
    assert keep([(fast, fast)], "CartPole", path) == [(fast, fast)]
    assert keep([(fast, slow)], "doom", path) == [(slow, fast), (fast, slow)]


def make_pairs(effect, num=200):
    """Pairs of a machine whose speed changes by some 10 % from phase to phase, and what each frame takes with it."""
    generator, pairs = random.Random(3), []
    for _ in range(num):
        phases = []
        for change in (effect, 0.0):
            speed = generator.gauss(0.0, 0.1)
            rate = math.exp(change + 0.8 * speed + generator.gauss(0.0, 0.02))
            phases.append({TRAINED: 1000 * rate, LEARNER: math.exp(-speed)})
        pairs.append((phases[0], phases[1]))
    return pairs


def test_what_the_machine_did_is_taken_out_of_the_throughput():
    compared = {each.name: each.ratio for each in compare(make_pairs(effect=-0.03))}
    plain, adjusted = compared[TRAINED], compared[ADJUSTED]
    assert adjusted.upper - adjusted.lower < 0.4 * (plain.upper - plain.lower)
    assert adjusted.lower < math.exp(-0.03) < adjusted.upper < 1.0


def test_a_figure_without_a_control_beside_it_is_not_adjusted():
    samples, phases = make_run(on_rate=1000.0, off_rate=1250.0, num_phases=8)
    assert ADJUSTED not in {each.name for each in compare(pairs_of(samples, phases))}
    with_learner = [Sample(each.time_s, each.steps, each.frames, each.frames / 500) for each in samples]
    compared = {each.name: each for each in compare(pairs_of(with_learner, phases))}
    assert compared[LEARNER].on == pytest.approx([2000.0] * 4)
    assert compared[ADJUSTED].ratio.estimate == pytest.approx(compared[TRAINED].ratio.estimate)


def test_an_adjusted_ratio_equals_one_worked_out_by_hand():
    # Logarithms: figure 0, 2, 4; control 0, 1, 2. The slope is 2; what is left of each is 0.
    figure, control, ones = [1.0, math.e**2, math.e**4], [1.0, math.e, math.e**2], [1.0] * 3
    assert adjusted_ratio_on_to_off(figure, ones, control, ones).estimate == pytest.approx(1.0)
    # A control that never changes explains nothing.
    assert adjusted_ratio_on_to_off(figure, ones, ones, ones).estimate == pytest.approx(math.e**2)


def test_the_interval_holds_the_truth_and_shrinks():
    generator = random.Random(1)
    few, many = ([generator.gauss(0.0, 1.0) for _ in range(number)] for number in (20, 500))
    of_few, of_many = bootstrap(few, trimmed_mean), bootstrap(many, trimmed_mean)
    assert of_few.lower < 0.0 < of_few.upper
    assert of_many.upper - of_many.lower < 0.5 * (of_few.upper - of_few.lower)


def test_one_odd_pair_does_not_decide():
    assert trimmed_mean([1.0, 1.0, 1.0, 1.0, 1000.0]) == 1.0
    assert ratio_interval([1.0] * 10, [1.0] * 9 + [0.01]).estimate == 1.0


def test_values_are_described_by_their_middle_and_how_far_they_go():
    assert describe_spread([1.0, 2.0, 3.0], " s") == "2 [1, 3] s"
    assert describe_spread([7.0]) == "7 [7, 7]"
    assert describe_range(1.5, 1.0, 20000.0) == "1.50 (1.00 to 20,000.00)"
    assert median_ratio([2.0, 9.0, 5.0], [1.0, 3.0, 1.0]) == 3.0


def test_blocks_are_found_by_their_lines(tmp_path):
    source = """\
    with timing.add_time("outer"), torch.inference_mode():
        with self.timing.timeit("inner"):
            work()
    with component.timing.add_time(component.wait_block()):
        sleep()
    with timing.add_time("wait_policy"):
        sleep()
    with open("file"):
        pass
    """
    path = tmp_path / "module.py"
    path.write_text(textwrap.dedent(source))
    assert _blocks_of_file(str(path)) == [("outer", 1, 3), (WAITS, 4, 5), (WAITS, 6, 7), ("inner", 2, 3)]


def test_shares_of_samples_have_an_error():
    samples = Samples(400, Counter({"env_step": 100}))
    assert samples.share("env_step") == 0.25
    assert samples.standard_error("env_step") == pytest.approx(math.sqrt(0.25 * 0.75 / 400))


def test_the_processor_time_of_a_serial_run_is_that_of_its_one_process(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil.Process, "children", lambda _, recursive: [])  # as before a run has started any
    assert LiveRun(make_config("CartPole-v1", tmp_path, 1.0, ("--serial_mode=True",))).cpu_s() > 0
    assert LiveRun(make_config("CartPole-v1", tmp_path, 1.0)).cpu_s() == 0
