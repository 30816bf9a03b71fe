"""Which figures of a run are charted, under which names."""

from __future__ import annotations

import time

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sample_profiler.analysis.verdict import Advice, Verdict
from sample_profiler.cli.training.summaries import TensorBoardSummaries, write_verdict
from sample_profiler.components.messages import Counters, EvaluationFinished
from sample_profiler.config import parse_config
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.runner import Runner
from sample_profiler.run_folder import RunFolder
from tests.run.runner_doubles import make_links, take_turn


def read(folder):
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in accumulator.Scalars(tag)] for tag in tags}


@pytest.fixture
def folder(tmp_path, make_status):
    summaries = TensorBoardSummaries(RunFolder(tmp_path), num_policies=2, flush_interval_s=30)
    summaries.on_status(make_status(frames={0: 1, 1: 1}))
    summaries.on_summaries(make_status())
    summaries.on_stop(None)
    return RunFolder(tmp_path).summary


def test_figures_of_a_policy_are_in_its_folder_under_the_known_names(folder):
    assert read(folder / "0") == {
        "train/loss": [(12_000, 0.5)],
        "reward/reward": [(12_000, 1.25)],
        "len/len": [(12_000, 300.0)],
        "policy_stats/avg_kills": [(12_000, 3.0)],
        "perf/_fps": [(12_000, 1234.5)],
        "perf/_sampled_frames": [(12_000, 16_000.0)],
        "perf/policy_lag_mean": [(12_000, 1.25)],
        "perf/policy_lag_max": [(12_000, 4.0)],
    }


def test_a_figure_of_an_environment_that_names_its_group_is_charted_in_that(tmp_path, make_status):
    summaries = TensorBoardSummaries(RunFolder(tmp_path), num_policies=1, flush_interval_s=30)
    summaries.on_summaries(make_status(episodes={0: {"doors/opened": 2.0, "kills": 3.0}}))
    summaries.on_stop(None)
    figures = read(RunFolder(tmp_path).summary / "0")
    assert figures["doors/opened"] == [(12_000, 2.0)] and figures["policy_stats/avg_kills"] == [(12_000, 3.0)]


class Mine(RunObserver):
    """Adds a figure of its own, as often as asked for; raises then. Notes what it is told of."""

    def __init__(self, num_figures):
        self.num_figures = num_figures
        self.told = []

    def extra_summaries(self, runner, policy_id, env_steps, writer):
        self.told.append("extra_summaries")
        if self.num_figures == 0:
            raise ValueError("broken figures")
        self.num_figures -= 1
        writer.add_scalar("mine/score", policy_id + 0.5, global_step=env_steps)

    def on_training_step(self, runner, training_iteration):
        self.told.append("on_training_step")

    def on_status(self, status):
        self.told.append("on_status")

    def on_summaries(self, status):
        self.told.append("on_summaries")

    def on_stop(self, runner):
        self.told.append("on_stop")


@pytest.fixture
def make_runner(tmp_path):
    """Make the Runner of a run with these observers, the last of whom writes summaries."""

    def make(*others):
        config = parse_config(["--env=fake", "--num_workers=1", "--num_policies=2"])
        summaries = TensorBoardSummaries(RunFolder(tmp_path), num_policies=2, flush_interval_s=30)
        counters, now_s = Counters(1, 2), time.monotonic()
        links = make_links(config, tmp_path)
        runner = Runner(config, counters, [1, 1], tmp_path, [*others, summaries], links, now_s)
        runner.introduce()
        runner.start()
        return runner, counters

    return make


def test_observers_add_figures_of_their_own(make_runner, tmp_path):
    runner, counters = make_runner(Mine(2))
    counters.trained_frames[:] = (12_000, 3_000)
    *_, summaries = runner.timers()
    summaries.callback()
    take_turn(runner)
    runner.finish()
    assert read(tmp_path / "summary" / "0")["mine/score"] == [(12_000, 0.5)]
    assert read(tmp_path / "summary" / "1")["mine/score"] == [(3_000, 1.5)]


def test_whoever_raises_instead_of_adding_figures_is_told_of_the_end_alone_and_the_others_figures_are_written(
    make_runner, tmp_path
):
    broken, sound = Mine(1), Mine(100)  # the second policy's figures are the first that fail
    runner, counters = make_runner(broken, sound)
    counters.training_iterations[0] = 1
    counters.trained_frames[:] = (640, 320)
    status, *_, summaries = runner.timers()
    summaries.callback()
    take_turn(runner)
    assert runner.failure.message == "Observer Mine, extra_summaries: ValueError: broken figures"
    counters.trained_frames[:] = (1280, 960)
    status.callback()
    runner.finish()
    assert broken.told == ["on_summaries", "extra_summaries", "extra_summaries", "on_stop"]
    assert sound.told.count("extra_summaries") == 4
    for policy, last in ((0, 1280), (1, 960)):
        figures = read(tmp_path / "summary" / str(policy))
        assert figures["perf/_sampled_frames"][-1][0] == last
        assert "mine/score" in figures


def test_a_policy_without_episodes_and_training_has_the_rest(folder):
    assert set(read(folder / "1")) == {
        "perf/_fps",
        "perf/_sampled_frames",
        "perf/policy_lag_mean",
        "perf/policy_lag_max",
    }
    assert read(folder / "1")["perf/_fps"][0][0] == 3_000


def test_a_verdict_is_a_text_of_each_policy(tmp_path):
    advice = Advice("--precision=bf16", "where there is it", (100.0, 200.0))
    verdict = Verdict("learner", "Learner_0", "Training is the limit", ("it never waits",), (advice,), 90.0, 20.0)
    write_verdict(RunFolder(tmp_path), verdict, {0: 64, 1: 128})
    for policy, frames in ((0, 64), (1, 128)):
        accumulator = EventAccumulator(str(RunFolder(tmp_path).summary_of(policy)))
        accumulator.Reload()
        (tag,) = accumulator.Tags()["tensors"]
        assert accumulator.SummaryMetadata(tag).plugin_data.plugin_name == "text"
        (event,) = accumulator.Tensors(tag)
        assert (tag, event.step) == ("perf/verdict", frames)
        lines = event.tensor_proto.string_val[0].decode().splitlines()
        assert lines[0] == "**Training is the limit (90 frames/s over 20 s)**"
        assert lines[2:] == [
            "- it never waits",
            "- try --precision=bf16: where there is it; expected: 100 to 200 frames/s",
        ]


def test_every_evaluation_is_written_however_many_there_are_between_two_summaries(make_runner, tmp_path):
    runner, _ = make_runner()
    for frames in (1000, 2000, 3000):
        runner.handle_reports([EvaluationFinished(1, frames, 10, {"reward": frames / 100, "reward_stddev": 0.0})])
    *_, summaries = runner.timers()
    summaries.callback()
    take_turn(runner)
    runner.finish()
    assert read(tmp_path / "summary" / "1")["eval/reward"] == [(1000, 10.0), (2000, 20.0), (3000, 30.0)]
    assert "eval/reward" not in read(tmp_path / "summary" / "0")
