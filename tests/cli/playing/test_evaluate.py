"""`sample-profiler eval`: what is played, what is told, and the files with the results."""

from __future__ import annotations

import csv
import json
import math

import gymnasium
import numpy as np
import pytest
import torch

from sample_profiler import enjoy, evaluate
from sample_profiler.cli.playing import evaluating
from sample_profiler.cli.playing.results import PlayResult
from sample_profiler.cli.train import train
from sample_profiler.components.evaluation import PlayedEpisode
from sample_profiler.envs import register_env, registry
from sample_profiler.errors import EnvError
from sample_profiler.profiling import get_timing, set_timing
from sample_profiler.run.many_episodes import NumberedEpisode

EPISODES = [
    NumberedEpisode(0, 0, PlayedEpisode((1.0,), 8, {"kills": 2.0})),
    NumberedEpisode(0, 1, PlayedEpisode((2.0,), 4)),
    NumberedEpisode(1, 0, PlayedEpisode((6.0,), 12, {"kills": 4.0})),
]


@pytest.fixture
def run_flags(monkeypatch, tmp_path):
    """Train for a moment; return the flags that name the run."""
    monkeypatch.setattr(registry, "_makers", {})
    register_env("pole", lambda *_, **__: gymnasium.make("CartPole-v1"))
    timing = get_timing()
    flags = ["--env=pole", f"--train_dir={tmp_path}", "--experiment=run"]
    training = [
        *("--serial_mode=True", "--async_rl=False", "--seed=1", "--device=cpu", "--use_rnn=False", "--num_workers=1"),
        *("--num_envs_per_worker=2", "--rollout=8", "--batch_size=16", "--encoder_mlp_layers", "8"),
        "--train_for_env_steps=64",
    ]
    assert train([*flags, *training]) == 0
    yield flags
    set_timing(timing, process_wide=True)
    torch.set_flush_denormal(False)  # as networks of a run want it


@pytest.fixture
def played(monkeypatch):
    """Play nothing, but return these episodes; keep what was to be played."""
    asked = []

    def play_many(many, on_episode):
        asked.append(many)
        for episode in reversed(EPISODES):
            on_episode(episode)
        return EPISODES

    monkeypatch.setattr(evaluating, "play_many", play_many)
    return asked


def test_results_are_told_returned_and_written(run_flags, played, tmp_path, capsys):
    result = evaluate([*run_flags, "--max_num_episodes=7", "--eval_workers=3", "--eval_deterministic"])
    assert (result, result.mean_reward) == (0, 3.0)
    assert [episode.reward for episode in result.episodes] == [6.0, 2.0, 1.0], "as they ended"
    (many,) = played
    assert (many.num_episodes, many.num_workers, many.deterministic, many.seed) == (7, 3, True, 1)
    assert many.played.states[0]["frames"] == 64
    output = capsys.readouterr().out
    assert "Episode 1: reward 6.000, 12 frames\n" in output
    assert "Mean reward 3.000 ± 2.646 over 3 episodes" in output
    folder = tmp_path / "run"
    assert f"Results: {folder / 'eval_p0'}.csv and .json" in output
    with (folder / "eval_p0.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["reward"] for row in rows] == ["1.0", "2.0", "6.0"], "by worker"
    assert [row["kills"] for row in rows] == ["2.0", "", "4.0"]
    document = json.loads((folder / "eval_p0.json").read_text())
    assert document["means"] == {"reward": 3.0, "num_frames": 8.0, "kills": 3.0}
    assert document["stddevs"]["kills"] == pytest.approx(math.sqrt(2))
    assert document["episodes"][0] == {"episode": 0, "worker": 0, "reward": 1.0, "num_frames": 8, "kills": 2.0}
    assert (document["env"], document["trained_frames"], document["policy"]) == ("pole", 64, 0)


def test_results_may_go_elsewhere_and_huge_numbers_are_no_json(run_flags, played, monkeypatch, tmp_path):
    huge = [NumberedEpisode(0, n, PlayedEpisode((1e308, 1e308 * n), 1)) for n in range(2)]
    huge.append(NumberedEpisode(0, 2, PlayedEpisode((math.inf, 0.0), 1)))
    monkeypatch.setitem(globals(), "EPISODES", huge)
    with np.errstate(over="ignore"):
        assert evaluate([*run_flags, f"--eval_folder={tmp_path / 'deep' / 'results'}"]) == 0
    document = json.loads((tmp_path / "deep" / "results" / "eval_p0.json").read_text())
    assert [row["reward_1"] for row in document["episodes"]] == [0.0, 1e308, 0.0]
    assert document["episodes"][2]["reward"] is None


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--policy_index=1",), "--policy_index=1: the run has 1 policy"),
        (("--load_checkpoint_kind=best",), "there is no best checkpoint"),
        (("--experiment=another",), "there is no run in"),
        (("--save_video",), "--save_video is not a flag"),
        (("--encoder_mlp_layers", "9"), "is not of this network"),
        (("--eval_workers=0",), "--eval_workers=0 is out of range"),
    ],
)
def test_what_is_in_the_way_is_said_before_anything_is_played(run_flags, capsys, flags, message):
    result = evaluate([*run_flags, *flags, "--max_num_episodes=1"])
    assert (result, result.episodes) == (2, ())
    assert math.isnan(result.mean_reward)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["file/results", "file", "/proc/none", "folder"])
def test_results_that_cannot_be_written_are_told_before_anything_is_played(
    run_flags, monkeypatch, capsys, tmp_path, name
):
    monkeypatch.setattr(evaluating, "probe_env", None)
    (tmp_path / "file").touch()
    (tmp_path / "folder" / "eval_p0.json").mkdir(parents=True)
    assert evaluate([*run_flags, f"--eval_folder={tmp_path / name}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("the results cannot be written: /"), line
    assert line.endswith(": give an --eval_folder where they can")


def test_what_fails_meanwhile_is_said_and_what_was_played_is_returned(run_flags, monkeypatch, capsys, tmp_path):
    def play_many(many, on_episode):
        on_episode(EPISODES[0])
        raise EnvError("EvaluationWorker_w0 hangs")

    monkeypatch.setattr(evaluating, "play_many", play_many)
    result = evaluate(run_flags)
    assert (result, len(result.episodes)) == (2, 1)
    assert "EvaluationWorker_w0 hangs" in capsys.readouterr().err
    assert not list((tmp_path / "run").glob("eval_*"))


def test_enjoy_returns_its_episodes_with_its_exit_status(run_flags):
    result = enjoy([*run_flags, "--no_render", "--max_num_episodes=2", "--eval_deterministic"])
    assert isinstance(result, PlayResult)
    assert result == 0
    assert [episode.num_frames for episode in result.episodes] == [episode.reward for episode in result.episodes]
    assert result.mean_reward == np.mean([episode.reward for episode in result.episodes])
    assert enjoy(["--env=pole", "--experiment=none"]) == 2
    with pytest.raises(SystemExit) as caught:
        raise SystemExit(enjoy(["--help"]))
    assert caught.value.code == 0


def test_help_has_the_flags(capsys):
    assert evaluate(["--help"]) == 0
    assert "--eval_folder" in capsys.readouterr().out
