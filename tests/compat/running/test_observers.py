"""What observers and handlers of Sample Factory's kind are told of a run, and what they write."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sample_profiler.compat.running.observers import AlgoObserver, ObserverOfAll
from sample_profiler.compat.running.summaries import Summaries
from sample_profiler.compat.running.training import Runner
from sample_profiler.compat.settings.arguments import default_cfg
from sample_profiler.components.messages import EpisodesFinished, EpisodeStatistics


class Writer:
    """Notes what is written."""

    def __init__(self):
        self.written = []

    def __getattr__(self, name):
        return lambda *arguments, **options: self.written.append((name, *arguments, options))


@pytest.fixture
def runner():
    cfg = default_cfg(env="maze")
    cfg.num_policies, cfg.stats_avg = 2, 2
    return Runner(cfg)


def test_messages_of_episodes_have_what_an_environment_adds_in_a_dictionary_of_its_own(runner):
    told = []
    watcher = ObserverOfAll(runner, [], [lambda *message: told.append(message)])
    extra = {"level_3": 0.5, "true_objective": 7.0}
    episodes = EpisodeStatistics(1, 2.0, 20, extra), EpisodeStatistics(0, 3.0, 10, {})
    watcher._take_episodes(None, EpisodesFinished(episodes))
    figures = {"reward": 2.0, "len": 20, "true_objective": 7.0, "episode_extra_stats": {"level_3": 0.5}}
    assert told[0] == (runner, {"episodic": figures, "policy_id": 1}, 1)
    assert told[1][1]["episodic"] == {"reward": 3.0, "len": 10, "true_objective": 3.0, "episode_extra_stats": {}}
    averages = {name: [list(values) for values in each] for name, each in runner.policy_avg_stats.items()}
    assert averages == {
        "reward": [[3.0], [2.0]],
        "len": [[10], [20]],
        "true_objective": [[3.0], [7.0]],
        "level_3": [[], [0.5]],
    }


def test_the_frames_are_known_in_a_training_step_and_what_is_written_then_comes_with_the_summaries(runner):
    class Mine(AlgoObserver):
        def on_training_step(self, runner, training_iteration_since_resume):
            steps = runner.env_steps[1]
            runner.writers[1].add_scalar("mine/step", training_iteration_since_resume, steps)

        def extra_summaries(self, runner, policy_id, writer, env_steps):
            writer.add_scalar("mine/summary", policy_id, env_steps)

    watcher, writer = ObserverOfAll(runner, [Mine()], []), Writer()
    run = SimpleNamespace(counters=SimpleNamespace(trained_frames=np.array([64, 128])))
    watcher.on_training_step(run, 5)
    assert writer.written == []
    for policy, env_steps in enumerate((64, 192)):
        watcher.extra_summaries(run, policy, env_steps, writer)
    assert writer.written == [
        ("add_scalar", "mine/summary", 0.0, 64, {}),
        ("add_scalar", "mine/step", 5.0, 128, {}),
        ("add_scalar", "mine/summary", 1.0, 192, {}),
    ]


def test_what_is_written_when_a_run_stops_is_there_as_well(runner):
    class Mine(AlgoObserver):
        def on_stop(self, runner):
            runner.writers[0].add_text("mine/end", "over")

    watcher, writer = ObserverOfAll(runner, [Mine()], []), Writer()
    watcher.extra_summaries(None, 0, 64, writer)
    runner.env_steps = {0: 128}
    watcher.on_stop(None)
    assert writer.written == [("add_text", "mine/end", "over", 128, {})]


def test_what_cannot_be_written_takes_nothing_else_with_it():
    class Picky(Writer):
        def add_image(self, *_, **__):
            raise ValueError("that is no picture")

    summaries, writer = Summaries(), Picky()
    summaries.add_image("bad", np.zeros(3))
    summaries.add_scalar("good", 1.0)
    with pytest.raises(ValueError, match="no picture"):
        summaries.hand_on(writer, 8)
    summaries.hand_on(writer, 9)
    assert writer.written == [("add_scalar", "good", 1.0, 9, {})]


def test_a_writer_has_the_ways_of_calling_it_that_scripts_know():
    summaries, writer, values = Summaries(), Writer(), np.array([1, 2])
    summaries.add_scalar("a", torch.tensor(0.5), global_step=3)
    summaries.add_scalars("b", {"x": 1, "y": np.float32(2)}, 3)
    summaries.add_histogram("c", values, 3, "auto")
    summaries.add_histogram("c", torch.ones(2, requires_grad=True), bins=5)
    summaries.add_image("d", np.zeros((2, 2, 3)), 3, dataformats="HWC")
    summaries.add_video("e", torch.zeros(1, 2, 3, 4, 4), 3, 10)
    summaries.add_text("f", "told", 3, walltime=1.5)
    canvas = SimpleNamespace(draw=lambda: None, buffer_rgba=lambda: memoryview(np.full((2, 2, 4), 9, np.uint8)))
    summaries.add_figure("g", SimpleNamespace(canvas=canvas), 3)
    summaries.flush()
    values[:] = 0
    summaries.hand_on(writer, 8)
    written = [(*each[:2], np.asarray(each[2]).tolist(), *each[3:]) for each in writer.written if each[1] not in "de"]
    assert written == [
        ("add_scalar", "a", 0.5, 3, {}),
        ("add_scalar", "b/x", 1.0, 3, {}),
        ("add_scalar", "b/y", 2.0, 3, {}),
        ("add_histogram", "c", [1, 2], 3, {"bins": 30}),
        ("add_histogram", "c", [1, 1], 8, {"bins": 5}),
        ("add_text", "f", "told", 3, {}),
        ("add_image", "g", [[[9] * 4] * 2] * 2, 3, {"dataformats": "HWC"}),
    ]
    pictures = {each[1]: (each[2].shape, each[4]) for each in writer.written if each[1] in "de"}
    assert pictures["d"] == ((2, 2, 3), {"dataformats": "HWC"}) and pictures["e"] == ((1, 2, 3, 4, 4), {"fps": 10})
    summaries.hand_on(writer, 9)
    assert len(writer.written) == 9, "once"
