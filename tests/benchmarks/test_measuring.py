"""What benchmarks measure with: exact on made-up runs. No test here takes a time."""

from __future__ import annotations

import math
import random
import textwrap
from collections import Counter

import psutil
import pytest

from benchmarks.measuring.alternation import Comparison, Phase, Sample, compare
from benchmarks.measuring.live_runs import LiveRun, make_config
from benchmarks.measuring.paired import bootstrap, is_on_in_phase, ratio_on_to_off, trimmed_mean
from benchmarks.measuring.sampled_blocks import WAITS, Samples, _blocks_of_file
from benchmarks.recorder_overhead import pooled

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
    sampled, trained, cpu = compare(samples, phases)
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
    _, trained, _ = compare(silent, phases)
    assert len(trained.on) == len(trained.off) == 2
    assert trained.ratio.estimate == pytest.approx(0.8, rel=0.02)


def test_too_few_pairs_are_an_error():
    with pytest.raises(ValueError, match="1 pairs of phases are too few"):
        ratio_on_to_off([1.0], [1.0])


def test_pairs_of_earlier_runs_of_a_kind_are_counted_with_those_of_this_one(tmp_path):
    def run(on, off):
        return Comparison("frames", on, off, ratio_on_to_off(on, off))

    path = tmp_path / "pairs.jsonl"
    assert pooled(run([1.0, 1.0], [2.0, 2.0]), "doom", path).ratio.estimate == 0.5
    assert len(pooled(run([1.0, 1.0], [1.0, 1.0]), "CartPole", path).on) == 2
    both = pooled(run([1.0, 1.0], [1.0, 1.0]), "doom", path)
    assert (both.on, both.off) == ([1.0] * 4, [2.0, 2.0, 1.0, 1.0])
    assert both.ratio.lower <= both.ratio.estimate <= both.ratio.upper
    assert pooled(run([1.0, 1.0], [2.0, 2.0]), "doom", None).on == [1.0, 1.0]


def test_the_interval_holds_the_truth_and_shrinks():
    generator = random.Random(1)
    few, many = ([generator.gauss(0.0, 1.0) for _ in range(number)] for number in (20, 500))
    assert bootstrap(few).lower < 0.0 < bootstrap(few).upper
    assert bootstrap(many).upper - bootstrap(many).lower < 0.5 * (bootstrap(few).upper - bootstrap(few).lower)


def test_one_odd_pair_does_not_decide():
    assert trimmed_mean([1.0, 1.0, 1.0, 1.0, 1000.0]) == 1.0
    assert ratio_on_to_off([1.0] * 10, [1.0] * 9 + [0.01]).estimate == 1.0


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
