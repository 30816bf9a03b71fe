"""Atari games by name."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest

from sample_profiler.config import parse_config
from sample_profiler.envs import check_reset_result, check_step_result, inspect_env
from sample_profiler.errors import EnvError
from sf_examples.atari import atari_env
from sf_examples.atari.atari_env import ATARI_DEFAULTS, ATARI_ENVS, make_atari_env


def make(name: str, *argv: str, render_mode: str | None = None):
    config = parse_config([f"--env={name}", *argv], defaults=ATARI_DEFAULTS)
    return make_atari_env(name, config, None, render_mode=render_mode)


@pytest.fixture(autouse=True)
def _nothing_is_imported_yet():
    atari_env._import_simulation.cache_clear()


@pytest.mark.parametrize(("name", "num_actions"), [("atari_pong", 6), ("atari_breakout", 4), ("atari_surround", 5)])
def test_stacked_gray_images_and_the_contract(name: str, num_actions: int) -> None:
    env = make(name)
    spec = inspect_env(env, name)
    assert spec.observation_space["obs"].shape == (4, 84, 84)
    assert spec.observation_space["obs"].dtype == np.uint8
    assert spec.action_space.n == num_actions
    check_reset_result(env.reset(seed=0), spec, name)
    for _ in range(20):
        check_step_result(env.step(0), spec, name)
    env.close()


def test_each_observation_is_the_one_before_with_a_newer_picture() -> None:
    env = make("atari_breakout")
    before, _ = env.reset(seed=1)
    assert (before == before[:1]).all(), "an episode begins with its first picture alone"
    for action in (1, 2, 2, 3, 3, 2):
        after, *_ = env.step(action)
        np.testing.assert_array_equal(after[:-1], before[1:])
        before = after
    assert (after[-1] != after[0]).any(), "the paddle has moved"


@pytest.mark.parametrize(("flags", "num_frames"), [((), 4), (("--env_frameskip=1", "--env_framestack=1"), 1)])
def test_a_step_takes_as_many_frames_as_asked_for(flags, num_frames: int) -> None:
    env = make("atari_pong", *flags)
    assert env.reset(seed=0)[0].shape == (num_frames, 84, 84)
    first = env.unwrapped.ale.getEpisodeFrameNumber()
    env.step(0)
    assert env.unwrapped.ale.getEpisodeFrameNumber() - first == num_frames


def test_equal_seeds_and_actions_repeat() -> None:
    one, two, other = make("atari_breakout"), make("atari_breakout"), make("atari_breakout")
    seeds = ((one, 3), (two, 3), (other, 5))
    beginnings = [env.reset(seed=seed)[0] for env, seed in seeds]
    np.testing.assert_array_equal(beginnings[0], beginnings[1])
    frames = [env.unwrapped.ale.getEpisodeFrameNumber() for env, _ in seeds]
    assert frames[0] == frames[1] != frames[2], "a game begins after a random number of frames"
    for action in (1, 3, 3, 0, 2):
        results = [env.step(action) for env in (one, two)]
        np.testing.assert_array_equal(results[0][0], results[1][0])


def test_an_episode_is_a_whole_game_with_its_own_rewards() -> None:
    env = make("atari_pong", "--env_frameskip=8")
    env.reset(seed=0)
    rewards, is_over = [], False
    while not is_over:
        _, reward, terminated, truncated, _ = env.step(0)
        rewards.append(reward)
        is_over = terminated or truncated
    assert terminated
    assert sum(rewards) == -21, "who does nothing loses every point"


def test_every_name_is_a_game_in_its_newest_version() -> None:
    make("atari_pong").close()  # registers the games
    for env_id in ATARI_ENVS.values():
        name, version = env_id.removeprefix("ALE/").split("-v")
        specs = [spec for spec in gymnasium.registry.values() if (spec.namespace, spec.name) == ("ALE", name)]
        assert int(version) == max(spec.version for spec in specs), env_id


def test_the_picture_shown_is_the_games_own() -> None:
    env = make("atari_pong", render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (210, 160, 3)


@pytest.mark.parametrize("package", ["ale_py", "cv2"])
def test_what_is_missing_is_named_with_what_installs_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EnvError, match=rf"--env=atari_pong needs {package}.*install sample-profiler\[atari\]"):
        make("atari_pong")
