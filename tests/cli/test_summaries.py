"""Which figures of a run are charted, under which names."""

from __future__ import annotations

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sample_profiler.analysis.verdict import Advice, Verdict
from sample_profiler.cli.summaries import TensorBoardSummaries, write_verdict
from sample_profiler.components.observers import RunObserver


def read(folder):
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in accumulator.Scalars(tag)] for tag in tags}


@pytest.fixture
def folder(tmp_path, make_status):
    summaries = TensorBoardSummaries(tmp_path / "summary", num_policies=2, flush_interval_s=30)
    summaries.on_status(make_status(frames={0: 1, 1: 1}))
    summaries.on_summaries(make_status())
    summaries.on_stop(None)
    return tmp_path / "summary"


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


def test_observers_add_figures_of_their_own(tmp_path, make_status):
    class Mine(RunObserver):
        def extra_summaries(self, runner, policy_id, env_steps, writer):
            assert runner == "the runner"
            writer.add_scalar("mine/score", policy_id + 0.5, env_steps)

    summaries = TensorBoardSummaries(tmp_path, num_policies=2, flush_interval_s=30, observers=[Mine()])
    summaries.on_init("the runner")
    summaries.on_summaries(make_status())
    summaries.on_stop("the runner")
    assert read(tmp_path / "1")["mine/score"] == [(3_000, 1.5)]


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
    write_verdict(tmp_path, verdict, {0: 64, 1: 128})
    for policy, frames in ((0, 64), (1, 128)):
        accumulator = EventAccumulator(str(tmp_path / str(policy)))
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
