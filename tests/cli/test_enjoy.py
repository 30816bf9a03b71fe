"""The `enjoy` command with environments of its own: what the policy is shown, and errors of the environment."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sample_profiler.cli.enjoy import enjoy
from sample_profiler.cli.playing.playing import describe_episodes
from sample_profiler.cli.train import train
from sample_profiler.components.evaluation import PlayedEpisode, Player
from sample_profiler.envs import register_env, registry
from sample_profiler.envs.wrappers import skip_and_stack
from sample_profiler.model.policy import Policy
from sample_profiler.profiling import get_timing, set_timing
from sample_profiler.run.checks import memory_needs
from sample_profiler.run.layout.factories import make_network


class Clock(gymnasium.Env):
    """Shows the number of the frame; an episode has 24."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 35}  # noqa: RUF012 (gymnasium declares it for instances)

    def __init__(self):
        self.observation_space = spaces.Box(0, 100, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._frame = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._frame = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._frame += 1
        return np.full(1, self._frame, np.float32), 1.0, False, self._frame == 24, {}

    def render(self):
        return np.full((2, 2, 3), self._frame, np.uint8)


@pytest.fixture
def clock_run(monkeypatch, tmp_path):
    """A run whose frames are stacked; returns the flags that name it."""
    monkeypatch.setattr(registry, "_makers", {})
    register_env("clock", lambda name, cfg, *_, **__: skip_and_stack(Clock(), cfg.environment))
    timing = get_timing()
    flags = ["--env=clock", f"--train_dir={tmp_path}"]
    training = [
        *("--serial_mode=True", "--async_rl=False", "--seed=1", "--device=cpu", "--use_rnn=False", "--num_workers=1"),
        *("--num_envs_per_worker=2", "--rollout=8", "--batch_size=16", "--encoder_mlp_layers", "8"),
        *("--env_frameskip=4", "--env_framestack=3", "--train_for_env_steps=64"),
    ]
    assert train([*flags, *training]) == 0
    yield flags
    set_timing(timing, process_wide=True)
    torch.set_flush_denormal(False)  # as networks of a run want it


@pytest.fixture
def shown(monkeypatch):
    """Everything that the policy is shown."""
    shown, act = [], Player.act

    def look_and_act(player, observations):
        shown.append(observations[0]["obs"].tolist())
        return act(player, observations)

    monkeypatch.setattr(Player, "act", look_and_act)
    return shown


@pytest.mark.parametrize("of_family", [None, 1])
def test_stacked_frames_are_as_far_apart_as_in_training(clock_run, shown, capsys, of_family):
    defaults = {"eval_env_frameskip": of_family}
    assert enjoy([*clock_run, "--max_num_episodes=1", "--no_render"], defaults=defaults) == 0
    assert shown == [[0, 0, 0], [0, 0, 4], [0, 4, 8], [4, 8, 12], [8, 12, 16], [12, 16, 20]]
    told = "Frames are stacked: --eval_env_frameskip=4, as in training, instead of 1"
    assert (told in capsys.readouterr().out) == (of_family == 1)


def test_a_frameskip_that_is_given_counts_and_it_is_said_what_that_means(clock_run, shown, capsys):
    assert enjoy([*clock_run, "--max_num_episodes=1", "--no_render", "--eval_env_frameskip=2"]) == 0
    assert shown[:3] == [[0, 0, 0], [0, 2, 4], [4, 6, 8]]
    assert "not those that the policy was trained on, which are 4 apart" in capsys.readouterr().out


class Video:
    """Keeps the frame that each of its pictures shows."""

    def __init__(self, stem, fps):
        self.path, self.fps, self.frames = stem, fps, []

    def add(self, picture):
        self.frames.append(int(picture[0, 0, 0]))

    @property
    def num_frames(self):
        return len(self.frames)

    def close(self):
        pass


@pytest.fixture
def videos(monkeypatch):
    """Videos that were made."""
    videos = []
    monkeypatch.setattr(
        "sample_profiler.cli.playing.playing.VideoWriter", lambda *args: videos.append(Video(*args)) or videos[-1]
    )
    return videos


@pytest.mark.parametrize(
    ("flags", "frameskip", "fps"),
    [
        ((), 4, 35 / 4),
        (("--eval_env_frameskip=4",), 4, 35 / 4),
        (("--eval_env_frameskip=2",), 2, 35 / 2),
        (("--eval_env_frameskip=1",), 1, 35),
        (("--eval_env_frameskip=2", "--fps=20"), 2, 20),
    ],
)
def test_a_video_runs_at_the_speed_of_the_environment(clock_run, videos, flags, frameskip, fps):
    assert enjoy([*clock_run, "--max_num_episodes=1", "--save_video", *flags]) == 0
    assert videos[0].frames == list(range(0, 25, frameskip))
    assert videos[0].fps == fps


def test_playing_goes_on_when_the_video_has_ended(clock_run, videos, capsys):
    assert enjoy([*clock_run, "--max_num_episodes=3", "--save_video", "--video_frames=5"]) == 0
    assert videos[0].frames == [0, 4, 8, 12, 16]
    assert "over 3 episodes" in capsys.readouterr().out


def test_playing_ends_after_so_many_pictures(clock_run, videos, capsys):
    assert enjoy([*clock_run, "--save_video", "--max_num_frames=9"]) == 0
    assert videos[0].frames == [0, 4, 8, 12, 16, 20, 24, 0, 4]
    assert "over 1 episode " in capsys.readouterr().out


def test_an_episode_that_ends_with_the_last_picture_counts(clock_run, videos, capsys):
    assert enjoy([*clock_run, "--save_video", "--max_num_frames=7"]) == 0
    assert videos[0].frames == [0, 4, 8, 12, 16, 20, 24]
    assert "over 1 episode " in capsys.readouterr().out


def test_a_picture_that_is_none_is_one_error_and_costs_no_earlier_video(clock_run, monkeypatch, tmp_path, capsys):
    (earlier,) = (path.parent / "replay.mp4" for path in tmp_path.rglob("config.json"))
    earlier.write_bytes(b"earlier")
    monkeypatch.setattr(Clock, "render", lambda self: np.zeros((3, 2, 2), np.uint8))
    assert enjoy([*clock_run, "--save_video"]) == 2
    captured = capsys.readouterr()
    assert "what render() returned is an array [3, 2, 2] of uint8" in captured.err
    assert "Video of" not in captured.out
    assert earlier.read_bytes() == b"earlier"


@pytest.mark.parametrize(
    ("metadata", "is_shown"),
    [
        ({"render_modes": ["human"]}, True),
        ({"render_modes": ["rgb_array"]}, False),
        ({}, True),
        ({"render_modes": 3}, True),
    ],
)
def test_a_window_is_opened_where_the_environment_offers_one(clock_run, monkeypatch, capsys, metadata, is_shown):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(Clock, "metadata", metadata | {"render_fps": 10_000})
    shown = []
    monkeypatch.setattr(Clock, "render", lambda _: shown.append(True))
    assert enjoy([*clock_run, "--max_num_episodes=1"]) == 0
    assert bool(shown) == is_shown
    assert ("clock offers no window: playing without one" in capsys.readouterr().out) != is_shown


class Blind(Clock):
    """As most environments of one's own: nothing is said of pictures, and there are none."""

    metadata = gymnasium.Env.metadata
    render = gymnasium.Env.render


def test_an_environment_that_renders_nothing_is_played_without_a_window(clock_run, monkeypatch, capsys):
    monkeypatch.setenv("DISPLAY", ":0")
    register_env("clock", lambda name, cfg, *_, **__: skip_and_stack(Blind(), cfg.environment))
    assert enjoy([*clock_run, "--max_num_episodes=1"]) == 0
    assert "clock offers no window" in capsys.readouterr().out
    assert enjoy([*clock_run, "--max_num_episodes=1", "--save_video"]) == 2
    assert "--save_video: clock offers no pictures" in capsys.readouterr().err


def test_a_picture_that_fails_is_told_with_what_to_do(clock_run, monkeypatch, capsys):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(Clock, "metadata", {"render_modes": ["human"]})
    monkeypatch.setattr(Clock, "render", lambda _: 1 / 0)
    assert enjoy([*clock_run, "--max_num_episodes=1"]) == 2
    error = capsys.readouterr().err
    assert "raised in render: ZeroDivisionError" in error and "use --no_render to play without a window" in error


class Limited(gymnasium.wrappers.TimeLimit):
    """A clock that stops after other numbers of frames than its neighbours."""

    def __init__(self, num_frames):
        super().__init__(Clock(), num_frames)


@pytest.fixture
def untrained(monkeypatch):
    """Policies that nobody has trained can be played."""
    monkeypatch.setattr(registry, "_makers", {})
    monkeypatch.setattr("sample_profiler.cli.playing.playing._check", lambda _: None)

    def make_player(config, spec, _):
        policy = Policy(make_network(config, spec), spec.observation_space, spec.action_space)
        return Player(policy, spec.num_agents, deterministic=True)

    monkeypatch.setattr("sample_profiler.cli.playing.playing._load_player", make_player)


SMALL = ("--no_render", "--use_rnn=False", "--encoder_mlp_layers", "8")


@pytest.mark.parametrize(("flags", "seen"), [((), [0, 1, 2, 3]), (("--eval_env_frameskip=2",), [0, 2, 4, 6])])
def test_without_being_asked_each_action_is_one_step_as_in_training(untrained, shown, flags, seen):
    register_env("clock", lambda *_, **__: Clock())  # applies no --env_frameskip
    assert enjoy(["--env=clock", *SMALL, "--env_frameskip=4", "--max_num_episodes=1", *flags]) == 0
    assert shown[:4] == [[each] for each in seen]


def make_clocks(*_, **__):
    """Make a vector of clocks with 1, 2 and 6 frames."""
    members = [lambda num_frames=num_frames: Limited(num_frames) for num_frames in (1, 2, 6)]
    return SyncVectorEnv(members, autoreset_mode=AutoresetMode.SAME_STEP)


CLOCKS = ("--env=clocks", "--batched_sampling=True", *SMALL)


def test_members_of_a_vector_play_as_many_episodes_each(untrained, capsys):
    register_env("clocks", make_clocks)
    assert enjoy([*CLOCKS, "--max_num_episodes=6"]) == 0
    assert "Mean reward 3.000 ± 2.366 over 6 episodes (lowest 1.000, highest 6.000)" in capsys.readouterr().out


def test_actions_of_members_are_not_cut_short_by_the_ends_of_others(untrained, shown, capsys):
    register_env("clocks", make_clocks)
    assert enjoy([*CLOCKS, "--env_frameskip=4", "--max_num_episodes=3"]) == 0
    shown.clear()
    assert enjoy([*CLOCKS, "--env_frameskip=4", "--max_num_episodes=3", "--eval_env_frameskip=2"]) == 2
    assert shown == []
    problem = "--eval_env_frameskip=2: agents of clocks end their episodes one by one, so no action can be held for 2"
    assert problem in capsys.readouterr().err


def test_means_are_ours_where_the_environment_has_one_of_the_same_name():
    episode = PlayedEpisode((2.0,), 8, {"reward": 77.0, "len": 78.0, "kills": 3.0})
    text = describe_episodes([episode, episode])
    assert text.splitlines()[1:] == ["Mean kills 3.000"]
    assert "Mean reward 2.000" in text


@pytest.mark.parametrize("rewards", [(1e308, 1e308), (np.inf, -np.inf), (np.nan, 1.0)])
def test_the_summary_tells_of_rewards_whose_sum_is_not_finite(rewards):
    text = describe_episodes([PlayedEpisode((reward,), 8, {"kills": reward}) for reward in rewards])
    assert "over 2 episodes" in text
    assert "Mean kills" in text


def test_an_environment_that_cannot_be_made_is_one_clear_error(clock_run, capsys):
    def fail(*_, **__):
        raise ValueError("no such level")

    register_env("clock", fail)
    assert enjoy([*clock_run, "--no_render"]) == 2
    assert "the environment clock raised in its constructor: ValueError: no such level" in capsys.readouterr().err


def test_a_checkpoint_of_another_network_is_one_error_that_says_why(clock_run, capsys):
    assert enjoy([*clock_run, "--no_render", "--encoder_mlp_layers", "9"]) == 2
    error = capsys.readouterr().err
    assert "is [8, 3] in the checkpoint and [9, 3] in the network" in error
    assert "register the same encoder" in error


PLAYS_ON = """
import itertools, signal
signal.signal(signal.SIGTERM, signal.SIG_DFL)
from sample_profiler.cli.playing import playing
from sample_profiler.cli.enjoy import enjoy
playing.parse_run_config, playing._check = lambda *_, **__: None, lambda _: None
def play(*_):
    for number in itertools.count():
        print("Episode", number, flush=True)
        {then}
playing._play = play
raise SystemExit(enjoy([]))
"""


@pytest.mark.parametrize(
    ("then", "status"),
    [("input()", 0), ("input(); raise KeyboardInterrupt", 130), ("input(); signal.raise_signal(signal.SIGTERM)", 143)],
)
def test_playing_ends_quietly_when_nobody_reads_its_output(then, status):
    script = PLAYS_ON.format(then=then)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as playing:
        assert playing.stdout.readline() == "Episode 0\n"
        playing.stdout.close()
        playing.stdin.write("go on\n" * 9)
        playing.stdin.close()
        assert playing.stderr.read() == ""
        assert playing.wait(60) == status


def test_a_name_that_is_too_long_is_one_error(capsys):
    assert enjoy(["--env=clock", f"--train_dir={'a' * 300}"]) == 2
    assert "File name too long" in capsys.readouterr().err


def test_a_network_that_no_machine_can_hold_is_refused_before_it_is_made(clock_run, monkeypatch, capsys):
    monkeypatch.setattr(memory_needs, "memory_gib", lambda: 1.0)
    assert enjoy([*clock_run, "--no_render=True", "--encoder_mlp_layers", "65536", "65536"]) == 2
    assert "weights of a network take 16 GiB, more than the machine has" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("metadata", "fps"),
    [(None, 30), ({"render_fps": "fast"}, 30), ({"render_fps": 0}, 30), ({}, 30), ({"render_fps": np.int64(50)}, 50)],
)
def test_an_environment_may_say_anything_of_its_speed(clock_run, videos, monkeypatch, metadata, fps):
    monkeypatch.setattr(Clock, "metadata", metadata)
    assert enjoy([*clock_run, "--save_video=True", "--max_num_episodes=1"]) == 0
    assert [video.fps for video in videos] == [fps / 4], "a picture of every step"


def test_where_nothing_can_be_written_it_is_one_error():
    command = [sys.executable, "-c", PLAYS_ON.format(then="pass")]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "No space left on device\n")


def test_names_of_statistics_are_printed_as_a_terminal_may_show_them():
    extra = {"a\x1b[2J\ud800": 1.0}
    assert "Mean a\\x1b[2J\\ud800 1.000" in describe_episodes([PlayedEpisode((1.0,), 8, extra)])
